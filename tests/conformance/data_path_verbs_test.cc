// SPDX-License-Identifier: Apache-2.0

// Runs on the device that the environment's RDMA_DEVICE names. Queue pairs on InfiniBand and RoCE are connected by
// hand, as a broker would with what rdma_cm tells it; iWARP's only a connection manager can connect.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "dataplane/verbs/adapter.h"
#include "dataplane/verbs/transition.h"
#include "tests/conformance/data_path_conformance.h"

namespace rdmabroker {
namespace {

using verbs::AttachmentFor;
using verbs::Transition;

struct PortAddress {
  std::array<uint8_t, 16> gid = {};
  uint32_t gid_index = 0;
  uint32_t lid = 0;
  bool global = false;
};

// The first port's, with a GID that is not zero.
std::optional<PortAddress> AddressOf(const std::string& device) {
  std::optional<PortAddress> address;
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i) {
    if (ibv_get_device_name(devices[i]) != device) continue;
    ibv_context* const context = ibv_open_device(devices[i]);
    ibv_port_attr port = {};
    if (context != nullptr && ibv_query_port(context, 1, &port) == 0) {
      address = PortAddress{.lid = port.lid, .global = port.link_layer == IBV_LINK_LAYER_ETHERNET};
      for (int index = 0; index < port.gid_tbl_len; ++index) {
        ibv_gid gid = {};
        if (ibv_query_gid(context, 1, index, &gid) != 0 || gid.global.interface_id == 0) continue;
        std::memcpy(address->gid.data(), gid.raw, sizeof gid.raw);
        address->gid_index = static_cast<uint32_t>(index);
        break;
      }
    }
    if (context != nullptr) ibv_close_device(context);
  }
  ibv_free_device_list(devices);
  return address;
}

class VerbsDataPaths final : public DataPathPair {
 public:
  VerbsDataPaths(std::string device, const PortAddress& address) : device_(std::move(device)), address_(address) {
    Adapter* const adapter = Open();
    iwarp_ = adapter->info().technology == RdmaTechnology::kIwarp;
    CloseAndWait(adapter);
  }

  Adapter* Open() override {
    const Created<Adapter> opened = verbs::OpenAdapter(device_);
    EXPECT_EQ(opened.status, NdkStatus::kSuccess);
    return opened.object;
  }
  bool can_connect() const override { return !iwarp_; }
  void Connect(QueuePair* one, ConnectionEndCallback on_end_of_one, QueuePair* other,
               ConnectionEndCallback on_end_of_other) override {
    for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      ASSERT_EQ(one->Attach(AttachmentFor(Step(state, other->number())), on_end_of_one), NdkStatus::kSuccess);
      ASSERT_EQ(other->Attach(AttachmentFor(Step(state, one->number())), on_end_of_other), NdkStatus::kSuccess);
    }
    EXPECT_EQ(one->Send(nullptr, {}, 0), NdkStatus::kConnectionInvalid) << "it is not established yet";
    ASSERT_EQ(one->Attach({}, std::move(on_end_of_one)), NdkStatus::kSuccess);
    ASSERT_EQ(other->Attach({}, std::move(on_end_of_other)), NdkStatus::kSuccess);
  }
  // Soft-iWARP does not.
  bool tells_of_solicited() const override { return !iwarp_; }
  bool tells_of_ends() const override { return false; }

 private:
  Transition Step(ibv_qp_state state, uint32_t peer) const {
    Transition step = {.mask = IBV_QP_STATE, .qp_state = state};
    if (state == IBV_QPS_INIT) {
      step.mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
      step.access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
      step.port_number = 1;
    } else if (state == IBV_QPS_RTR) {
      step.mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                   IBV_QP_MIN_RNR_TIMER;
      step.path_mtu = IBV_MTU_1024;
      step.dest_qp_number = peer;
      step.max_inbound_reads = 16;
      step.min_rnr_timer = 12;  // 0.64 ms.
      step.port_number = 1;
      step.destination_gid = address_.gid;
      step.source_gid_index = address_.gid_index;
      step.destination_lid = address_.lid;
      step.hop_limit = 64;
      step.is_global = address_.global;
    } else {
      step.mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
      step.timeout = 18;  // 1 s: a guest without KVM is slow.
      step.retry_count = 7;
      step.rnr_retry = 3;
      step.max_outbound_reads = 16;
    }
    return step;
  }

  const std::string device_;
  const PortAddress address_;
  bool iwarp_ = false;
};

absl::StatusOr<std::unique_ptr<DataPathPair>> OnTheDevice() {
  const char* const device = std::getenv("RDMA_DEVICE");
  if (device == nullptr) return absl::NotFoundError("RDMA_DEVICE names no device");
  const auto address = AddressOf(device);
  // Named, and not there: a failure and not a reason to skip.
  EXPECT_TRUE(address.has_value()) << device;
  if (!address.has_value()) return absl::NotFoundError("the device has no port");
  return std::make_unique<VerbsDataPaths>(device, *address);
}

const DataPathCase kCase = {"OnTheDevice", OnTheDevice};

std::string NameOf(const ::testing::TestParamInfo<DataPathCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Verbs, DataPathConformance, ::testing::Values(kCase), NameOf);
INSTANTIATE_TEST_SUITE_P(Verbs, DataPathQueueConformance, ::testing::Values(kCase), NameOf);

}  // namespace
}  // namespace rdmabroker
