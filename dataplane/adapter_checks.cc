// SPDX-License-Identifier: Apache-2.0

#include "dataplane/adapter_checks.h"

#include "dataplane/refusal.h"

namespace rdmabroker {

NdkStatus CheckAttributes(const QueuePairAttributes& attributes, const AdapterInfo& info) {
  struct Limit {
    const char* name;
    uint32_t value;
    uint32_t most;
  };
  const bool own_receives = attributes.srq == nullptr;
  for (const Limit& limit : {
           Limit{"receive_queue_depth", own_receives ? attributes.receive_queue_depth : 0,
                 info.max_receive_queue_depth},
           Limit{"max_receive_request_sge", own_receives ? attributes.max_receive_request_sge : 0,
                 info.max_receive_request_sge},
           Limit{"initiator_queue_depth", attributes.initiator_queue_depth, info.max_initiator_queue_depth},
           Limit{"max_initiator_request_sge", attributes.max_initiator_request_sge, info.max_initiator_request_sge},
           Limit{"inline_data_size", attributes.inline_data_size, info.max_inline_data_size},
       }) {
    if (limit.value > limit.most) {
      return Refuse(NdkStatus::kInvalidParameter, "%s: %d; this adapter has at most %d", limit.name, limit.value,
                    limit.most);
    }
  }
  if (attributes.keepalive != attributes.keepalive.zero() &&
      (attributes.keepalive < kMinKeepalive || attributes.keepalive > kMaxKeepalive)) {
    return Refuse(NdkStatus::kInvalidParameter, "keepalive: %d seconds; 0, for none, or %d to %d",
                  attributes.keepalive.count(), kMinKeepalive.count(), kMaxKeepalive.count());
  }
  return NdkStatus::kSuccess;
}

NdkStatus CheckDepth(uint32_t depth, uint32_t most) {
  if (depth > 0 && depth <= most) return NdkStatus::kSuccess;
  return Refuse(NdkStatus::kInvalidParameter, "depth: %d; 1 to %d on this adapter", depth, most);
}

NdkStatus CheckAttributes(const SharedReceiveQueueAttributes& attributes, const AdapterInfo& info) {
  if (const auto status = CheckDepth(attributes.depth, info.max_srq_depth); status != NdkStatus::kSuccess) {
    return status;
  }
  if (attributes.max_receive_request_sge <= info.max_receive_request_sge) return NdkStatus::kSuccess;
  return Refuse(NdkStatus::kInvalidParameter, "max_receive_request_sge: %d; this adapter has at most %d",
                attributes.max_receive_request_sge, info.max_receive_request_sge);
}

NdkStatus RefuseStrangers() {
  return Refuse(
      NdkStatus::kInvalidParameter,
      "receive_cq, initiator_cq, srq: the first two must be there, both of this adapter, and a shared receive "
      "queue of this protection domain");
}

}  // namespace rdmabroker
