// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_NDK_ADAPTER_INFO_H_
#define DATAPLANE_NDK_ADAPTER_INFO_H_

#include <cstdint>

namespace rdmabroker {

// NDK_VERSION. Minor versions are supersets of each other; majors are not compatible.
struct NdkVersion {
  uint16_t major = 0;
  uint16_t minor = 0;

  bool operator==(const NdkVersion&) const = default;
};

// What this product implements and reports in AdapterInfo::version.
inline constexpr NdkVersion kNdkVersion = {2, 1};

// NDK_RDMA_TECHNOLOGY.
enum class RdmaTechnology : uint32_t { kUndefined = 0, kIwarp = 1, kInfiniBand = 2, kRoce = 3, kRoceV2 = 4 };

// NDK_ADAPTER_FLAG_*, the bits of AdapterInfo::adapter_flags.
inline constexpr uint32_t kInOrderDmaSupported = 0x1;
inline constexpr uint32_t kRdmaReadSinkNotRequired = 0x2;
inline constexpr uint32_t kCqInterruptModerationSupported = 0x4;
inline constexpr uint32_t kMultiEngineSupported = 0x8;
inline constexpr uint32_t kRdmaReadLocalInvalidateSupported = 0x10;
inline constexpr uint32_t kCqResizeSupported = 0x100;
inline constexpr uint32_t kLoopbackConnectionsSupported = 0x10000;

// NDK_ADAPTER_INFO, field by field. Lengths are in bytes, depths in requests, limits in RDMA reads in flight per QP.
struct AdapterInfo {
  NdkVersion version = kNdkVersion;
  uint32_t vendor_id = 0;  // IEEE OUI; 0 for a software adapter.
  uint32_t device_id = 0;
  uint64_t max_registration_size = 0;
  uint64_t max_window_size = 0;
  uint32_t frmr_page_count = 0;  // 0: fast-register is not offered.
  uint32_t max_initiator_request_sge = 0;
  uint32_t max_receive_request_sge = 0;
  uint32_t max_read_request_sge = 0;
  uint32_t max_transfer_length = 0;
  uint32_t max_inline_data_size = 0;
  uint32_t max_inbound_read_limit = 0;
  uint32_t max_outbound_read_limit = 0;
  uint32_t max_receive_queue_depth = 0;
  uint32_t max_initiator_queue_depth = 0;
  uint32_t max_srq_depth = 0;  // 0: no shared receive queues.
  uint32_t max_cq_depth = 0;
  uint32_t large_request_threshold = 0;  // A hint: above it a read or write beats send and receive.
  uint32_t max_caller_data = 0;          // Private data of Connect.
  uint32_t max_callee_data = 0;          // Private data of Accept and of Reject.
  uint32_t adapter_flags = 0;
  RdmaTechnology technology = RdmaTechnology::kUndefined;

  bool operator==(const AdapterInfo&) const = default;
};

}  // namespace rdmabroker

#endif  // DATAPLANE_NDK_ADAPTER_INFO_H_
