// SPDX-License-Identifier: Apache-2.0

// User-space iWARP over the kernel's loopback: two fabrics in one process, and one that reaches itself.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "broker/fabric/iwarp/iwarp_fabric.h"
#include "broker/runtime/handoff_table.h"
#include "broker/runtime/loop.h"
#include "dataplane/ndk/kernel_address.h"
#include "dataplane/unique_fd.h"
#include "tests/conformance/fabric_conformance.h"
#include "tests/conformance/fabric_past.h"

namespace rdmabroker {
namespace {

// A socket of a process that knows nothing of brokers.
UniqueFd BindAsOutsider(const SocketAddress& address) {
  KernelAddress kernel = ToKernel(address);
  UniqueFd socket(::socket(kernel.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // As servers have it.
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), kernel.get(), kernel.length) != 0) return UniqueFd();
  return socket;
}

class IwarpPair final : public FabricPair {
 public:
  // Both sides on one fabric where `apart` is false.
  static absl::StatusOr<std::unique_ptr<FabricPair>> Make(bool apart, bool supervised = false) {
    auto pair = std::make_unique<IwarpPair>();
    for (uint64_t id = 1; id <= (apart ? 2 : 1); ++id) {
      pair->pasts_.push_back(std::make_unique<FabricPast>(supervised));
      auto fabric = pair->Open(DeviceId(id), *pair->pasts_.back());
      if (!fabric.ok()) return fabric.status();
      pair->fabrics_.push_back(*std::move(fabric));
    }
    return pair;
  }

  Fabric& fabric(Side side) override { return side == Side::kServer ? *fabrics_.front() : *fabrics_.back(); }
  // What has been done is stored before anything else happens, and what is done then, too.
  bool Step(absl::Duration at_most) override {
    Commit();
    const bool went_on = loop_.RunTurn(Loop::Now() + at_most);
    Commit();
    return went_on;
  }
  QpNumber NewQp(Side, SessionId) override { return {++last_qp_}; }

  bool Occupy(Side, const SocketAddress& address) override {
    UniqueFd socket = BindAsOutsider(address);
    if (!socket) return false;
    outsiders_[address] = std::move(socket);
    return true;
  }
  void Vacate(Side, const SocketAddress& address) override { outsiders_.erase(address); }

  // Accepts connections, and never says a word on them.
  SocketAddress SilentPeer(Side side, IpFamily family) override {
    SocketAddress address = {family == IpFamily::kIpv4 ? *IpAddress::Parse("127.0.0.1") : *IpAddress::Parse("::1"), 0};
    for (address.port = 20000; !Occupy(side, address); ++address.port) {
    }
    EXPECT_EQ(::listen(outsiders_.at(address).get(), 128), 0);
    return address;
  }

  bool Fetch(Side, const HandoffSecret& secret) override {
    for (uint64_t id = 1; id <= kLastId; ++id) {
      for (const ConnectionId connection :
           {ConnectionId(id), IncomingConnection(DeviceId(1), id), IncomingConnection(DeviceId(2), id)}) {
        Handoff* handoff = handoffs_.Find(connection);
        if (handoff == nullptr || handoff->secret != secret) continue;
        transports_[connection] = UniqueFd(::fcntl(handoff->socket.get(), F_DUPFD_CLOEXEC, 0));
        handoffs_.Settle(connection, true);
        return true;
      }
    }
    return false;
  }
  void CloseTransport(Side, ConnectionId connection) override { transports_.erase(connection); }

  void GoOn(Side side, const Device& device, const ReportSink& sink) override {
    const size_t place = side == Side::kServer ? 0 : fabrics_.size() - 1;
    fabrics_[place].reset();
    pasts_[place]->Restart();
    auto next = Open(device.id, *pasts_[place]);
    ASSERT_TRUE(next.ok()) << next.status();
    fabrics_[place] = *std::move(next);
    fabrics_[place]->Start(sink);
  }

 private:
  static constexpr uint64_t kLastId = 1000;  // More connections than any test makes.

  absl::StatusOr<std::unique_ptr<IwarpFabric>> Open(DeviceId id, FabricPast& past) {
    return IwarpFabric::Open(id, IwarpOptions(), loop_, handoffs_, past.keep(), past.records());
  }

  void Commit() {
    for (const auto& past : pasts_) past->keep().Committed();
  }

  Loop loop_;
  HandoffTable handoffs_;
  std::vector<std::unique_ptr<FabricPast>> pasts_;
  std::vector<std::unique_ptr<IwarpFabric>> fabrics_;
  std::map<SocketAddress, UniqueFd> outsiders_;
  std::map<ConnectionId, UniqueFd> transports_;
  uint32_t last_qp_ = 16;
};

const std::vector<FabricCase>& Cases() {
  static const auto* const kCases = new std::vector<FabricCase>{
      {"Apart", [] { return IwarpPair::Make(true); }},
      {"Loopback", [] { return IwarpPair::Make(false); }},
  };
  return *kCases;
}

// Without a supervisor nothing is adopted, and with one an address is let go of only when that is stored.
const std::vector<FabricCase>& SupervisedCases() {
  static const auto* const kCases = new std::vector<FabricCase>{
      {"Apart", [] { return IwarpPair::Make(true, true); }},
      {"Loopback", [] { return IwarpPair::Make(false, true); }},
  };
  return *kCases;
}

const auto kFamilies = ::testing::Values(IpFamily::kIpv4, IpFamily::kIpv6);

std::string NameOf(const ::testing::TestParamInfo<std::tuple<FabricCase, IpFamily>>& info) {
  return std::get<0>(info.param).name + (std::get<1>(info.param) == IpFamily::kIpv4 ? "Ipv4" : "Ipv6");
}

INSTANTIATE_TEST_SUITE_P(Iwarp, FabricConformance, ::testing::Combine(::testing::ValuesIn(Cases()), kFamilies), NameOf);

INSTANTIATE_TEST_SUITE_P(Iwarp, FabricSilentPeerConformance,
                         ::testing::Combine(::testing::ValuesIn(Cases()), kFamilies), NameOf);

INSTANTIATE_TEST_SUITE_P(Iwarp, FabricHandOffConformance, ::testing::Combine(::testing::ValuesIn(Cases()), kFamilies),
                         NameOf);

INSTANTIATE_TEST_SUITE_P(Iwarp, FabricAdoptionConformance,
                         ::testing::Combine(::testing::ValuesIn(SupervisedCases()), kFamilies), NameOf);

INSTANTIATE_TEST_SUITE_P(Iwarp, FabricHandOffAdoptionConformance,
                         ::testing::Combine(::testing::ValuesIn(SupervisedCases()), kFamilies), NameOf);

}  // namespace
}  // namespace rdmabroker
