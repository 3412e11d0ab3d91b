// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/wire/adapter_limits.h"

namespace rdmabroker::iwarp {

AdapterInfo SoftwareAdapterInfo() {
  AdapterInfo info;
  info.max_registration_size = uint64_t{1} << 46;  // The address space of a process.
  info.max_window_size = info.max_registration_size;
  info.frmr_page_count = kMaxFastRegisterPages;
  info.max_initiator_request_sge = kMaxSge;
  info.max_receive_request_sge = kMaxSge;
  info.max_read_request_sge = kMaxSge;
  info.max_transfer_length = kMaxTransfer;
  info.max_inline_data_size = kMaxInlineData;
  info.max_inbound_read_limit = kMaxReads;
  info.max_outbound_read_limit = kMaxReads;
  info.max_receive_queue_depth = kMaxQueueDepth;
  info.max_initiator_queue_depth = kMaxQueueDepth;
  info.max_srq_depth = kMaxQueueDepth;
  info.max_cq_depth = kMaxCqDepth;
  info.large_request_threshold = 64 * 1024;
  info.max_caller_data = kMaxConsumerPrivateData;
  info.max_callee_data = kMaxConsumerPrivateData;
  info.adapter_flags = kInOrderDmaSupported | kRdmaReadSinkNotRequired | kRdmaReadLocalInvalidateSupported |
                       kCqInterruptModerationSupported | kCqResizeSupported | kLoopbackConnectionsSupported;
  info.technology = RdmaTechnology::kIwarp;
  return info;
}

}  // namespace rdmabroker::iwarp
