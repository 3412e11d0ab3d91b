// SPDX-License-Identifier: Apache-2.0

#include "dataplane/adapter.h"

namespace rdmabroker {

bool Fits(const QueuePairAttributes& attributes, const AdapterInfo& info) {
  const bool receives_fit =
      attributes.srq != nullptr || (attributes.receive_queue_depth <= info.max_receive_queue_depth &&
                                    attributes.max_receive_request_sge <= info.max_receive_request_sge);
  const bool keepalive_fits = attributes.keepalive == attributes.keepalive.zero() ||
                              (attributes.keepalive >= kMinKeepalive && attributes.keepalive <= kMaxKeepalive);
  return receives_fit && keepalive_fits && attributes.initiator_queue_depth <= info.max_initiator_queue_depth &&
         attributes.max_initiator_request_sge <= info.max_initiator_request_sge &&
         attributes.inline_data_size <= info.max_inline_data_size;
}

}  // namespace rdmabroker
