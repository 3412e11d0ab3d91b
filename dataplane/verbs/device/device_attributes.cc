// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/device/device_attributes.h"

#include <algorithm>

namespace rdmabroker::verbs {
namespace {

// The software devices' vendor ids, which are no OUIs: rxe_param.h, siw.h.
constexpr uint32_t kSoftRoceVendor = 0xFFFFFF;
constexpr uint32_t kSoftIwarpVendor = 0x626d74;

// rdma_user_cm.h has read limits of 8 bits, the greatest of which stands for whatever the device can.
constexpr int kMaxReadLimit = 254;

// ib_cm.h: a request carries 92 bytes, of which rdma_cm's own header takes 36; a reject carries 148, a reply more.
constexpr uint32_t kIbRequestData = 92 - 36;
constexpr uint32_t kIbRejectData = 148;
// rdma_user_cm.h has the length in 8 bits, and siw puts the read limits of an enhanced start-up frame (RFC 6581), 4
// bytes, under the same bound.
constexpr uint32_t kIwarpData = 251;

constexpr uint32_t kLargeRequestThreshold = 64 * 1024;

uint32_t NotNegative(int number) { return static_cast<uint32_t>(std::max(number, 0)); }

RdmaTechnology TechnologyOf(ibv_transport_type transport, const ibv_port_attr& port) {
  if (transport == IBV_TRANSPORT_IWARP) return RdmaTechnology::kIwarp;
  return port.link_layer == IBV_LINK_LAYER_ETHERNET ? RdmaTechnology::kRoceV2 : RdmaTechnology::kInfiniBand;
}

uint32_t FlagsOf(RdmaTechnology technology, const ibv_device_attr_ex& device, const DeviceTrials& trials) {
  uint32_t flags = 0;
  // An iWARP read's answer is a write, for which the sink must be open; InfiniBand's adapters all reach themselves.
  if (technology != RdmaTechnology::kIwarp) flags |= kRdmaReadSinkNotRequired | kLoopbackConnectionsSupported;
  if (device.orig_attr.vendor_id == kSoftIwarpVendor) flags |= kLoopbackConnectionsSupported;
  if (device.cq_mod_caps.max_cq_count > 0) flags |= kCqInterruptModerationSupported;
  if (trials.resizes_cqs) flags |= kCqResizeSupported;
  return flags;
}

}  // namespace

uint32_t MaxSge(const ibv_device_attr& device) { return NotNegative(device.max_sge); }

// Soft-RoCE has room for SGEs or as many bytes (RXE_MAX_INLINE_DATA in rxe_param.h), and from Linux 6.12 on it writes
// each trial that it refuses into the kernel's log.
uint32_t MostInlineData(const ibv_device_attr& device) {
  constexpr uint32_t kOfAnyDevice = 4096;
  return device.vendor_id == kSoftRoceVendor ? MaxSge(device) * sizeof(ibv_sge) : kOfAnyDevice;
}

DeviceDescription Describe(ibv_transport_type transport, const ibv_device_attr_ex& device, const ibv_port_attr& port,
                           const DeviceTrials& trials) {
  const ibv_device_attr& attributes = device.orig_attr;
  DeviceDescription description;
  AdapterInfo& info = description.info;
  info.technology = TechnologyOf(transport, port);
  const bool iwarp = info.technology == RdmaTechnology::kIwarp;
  const bool soft_roce = attributes.vendor_id == kSoftRoceVendor;
  const bool soft_iwarp = attributes.vendor_id == kSoftIwarpVendor;
  info.vendor_id = soft_roce || soft_iwarp ? 0 : attributes.vendor_id;
  info.device_id = attributes.vendor_part_id;
  info.max_registration_size = attributes.max_mr_size;
  constexpr unsigned int kWindows = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  const bool windows = (attributes.device_cap_flags & kWindows) != 0 && attributes.max_mw > 0;
  info.max_window_size = windows ? attributes.max_mr_size : 0;
  info.max_initiator_request_sge = MaxSge(attributes);
  info.max_receive_request_sge = MaxSge(attributes);
  if (attributes.max_srq_wr > 0 && attributes.max_srq_sge > 0) {
    info.max_srq_depth = NotNegative(attributes.max_srq_wr);
    info.max_receive_request_sge = std::min(info.max_receive_request_sge, NotNegative(attributes.max_srq_sge));
  }
  info.max_read_request_sge = attributes.max_sge_rd > 0
                                  ? std::min(info.max_initiator_request_sge, NotNegative(attributes.max_sge_rd))
                                  : info.max_initiator_request_sge;
  info.max_transfer_length = port.max_msg_sz;
  info.max_inline_data_size = trials.inline_data;
  info.max_inbound_read_limit = NotNegative(std::min(attributes.max_qp_rd_atom, kMaxReadLimit));
  info.max_outbound_read_limit = NotNegative(std::min(attributes.max_qp_init_rd_atom, kMaxReadLimit));
  info.max_receive_queue_depth = trials.depth;
  info.max_initiator_queue_depth = trials.depth - std::min(trials.depth, kHiddenRequests);
  info.max_cq_depth = NotNegative(attributes.max_cqe - static_cast<int>(kHiddenCompletions));
  info.large_request_threshold = kLargeRequestThreshold;
  info.max_caller_data = iwarp ? kIwarpData : kIbRequestData;
  info.max_callee_data = iwarp ? kIwarpData : kIbRejectData;
  info.adapter_flags = FlagsOf(info.technology, device, trials);
  description.resizes_srqs = (attributes.device_cap_flags & IBV_DEVICE_SRQ_RESIZE) != 0;
  description.tells_of_solicited = !soft_iwarp;
  description.loses_an_offset = soft_iwarp;
  description.raises_sigpipe = soft_iwarp;
  description.forgets_late_posts = soft_iwarp;
  description.speaks_by_the_kernels_tcp = soft_iwarp;
  description.hides_queue_pairs = soft_iwarp;
  description.kernel_invalidate_flag = soft_roce;
  return description;
}

}  // namespace rdmabroker::verbs
