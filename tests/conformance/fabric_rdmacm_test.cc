// SPDX-License-Identifier: Apache-2.0

// The kernel's connection manager on the one RDMA device of this machine, which reaches itself, and nobody at the
// addresses that RDMA_SILENT_PEER_4 and _6 name: tests/vm makes such a machine.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "broker/fabric/iwarp/testing/task_queue.h"
#include "broker/fabric/rdmacm/cm_file.h"
#include "broker/fabric/rdmacm/rdmacm_fabric.h"
#include "broker/fabric/rdmacm/testing/queue_pairs.h"
#include "broker/runtime/watcher.h"
#include "tests/conformance/fabric_conformance.h"

namespace rdmabroker {
namespace {

class RdmaCmPair final : public FabricPair {
 public:
  // Both sides on one fabric where `apart` is false.
  static absl::StatusOr<std::unique_ptr<FabricPair>> Make(bool apart) {
    auto pair = std::make_unique<RdmaCmPair>();
    auto outsider = CmFile::Open();
    if (!outsider.ok()) return outsider.status();
    pair->outsider_ = *std::move(outsider);
    if (!pair->queue_pairs_.Open()) return absl::NotFoundError("there is no RDMA device");
    for (uint64_t id = 1; id <= (apart ? 2 : 1); ++id) {
      auto fabric = RdmaCmFabric::Open(DeviceId(100 * id), RdmaCmOptions(), pair->tasks_, pair->watcher_);
      if (!fabric.ok()) return fabric.status();
      pair->fabrics_.push_back(*std::move(fabric));
    }
    return pair;
  }

  Fabric& fabric(Side side) override { return side == Side::kServer ? *fabrics_.front() : *fabrics_.back(); }
  bool Step(absl::Duration at_most) override { return tasks_.RunOne(at_most); }
  QpNumber NewQp(Side, SessionId) override { return queue_pairs_.Make(); }

  bool Occupy(Side, const SocketAddress& address) override {
    KernelId id{};
    EXPECT_EQ(outsider_->Create(1, &id), 0);
    if (outsider_->Bind(id, address) != 0) {
      outsider_->Destroy(id);
      return false;
    }
    occupied_[address] = id;
    return true;
  }
  SocketAddress SilentPeer(Side, IpFamily family) override {
    const char* const peer = std::getenv(family == IpFamily::kIpv4 ? "RDMA_SILENT_PEER_4" : "RDMA_SILENT_PEER_6");
    const auto ip = IpAddress::Parse(peer == nullptr ? "" : peer);
    EXPECT_TRUE(ip) << "RDMA_SILENT_PEER names no address";
    return {ip.value_or(IpAddress()), 7000};
  }
  void Vacate(Side, const SocketAddress& address) override {
    outsider_->Destroy(occupied_.at(address));
    occupied_.erase(address);
  }

 private:
  TaskQueue tasks_;
  Watcher watcher_{tasks_};
  QueuePairs queue_pairs_;
  std::shared_ptr<const CmFile> outsider_;
  std::vector<std::unique_ptr<RdmaCmFabric>> fabrics_;
  std::map<SocketAddress, KernelId> occupied_;
};

const std::vector<FabricCase>& Cases() {
  static const auto* const kCases = new std::vector<FabricCase>{
      {"Apart", [] { return RdmaCmPair::Make(true); }},
      {"Loopback", [] { return RdmaCmPair::Make(false); }},
  };
  return *kCases;
}

const auto kFamilies = ::testing::Values(IpFamily::kIpv4, IpFamily::kIpv6);

std::string NameOf(const ::testing::TestParamInfo<std::tuple<FabricCase, IpFamily>>& info) {
  return std::get<0>(info.param).name + (std::get<1>(info.param) == IpFamily::kIpv4 ? "Ipv4" : "Ipv6");
}

INSTANTIATE_TEST_SUITE_P(RdmaCm, FabricConformance, ::testing::Combine(::testing::ValuesIn(Cases()), kFamilies),
                         NameOf);

INSTANTIATE_TEST_SUITE_P(RdmaCm, FabricSilentPeerConformance,
                         ::testing::Combine(::testing::ValuesIn(Cases()), kFamilies), NameOf);

INSTANTIATE_TEST_SUITE_P(RdmaCm, FabricDisconnectConformance,
                         ::testing::Combine(::testing::ValuesIn(Cases()), kFamilies), NameOf);

}  // namespace
}  // namespace rdmabroker
