// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_TESTING_ATTACH_H_
#define DATAPLANE_VERBS_TESTING_ATTACH_H_

#include <cstdint>
#include <vector>

#include "dataplane/ndk/qp_attributes.h"
#include "dataplane/queue_pair.h"

namespace rdmabroker::verbs {

// How often a send asks for a receive that is missing.
inline constexpr uint32_t kOneRetry = 1;
inline constexpr uint32_t kRetryForever = 7;

// The transitions of a queue pair that is to be connected to the one with this number, in their order.
std::vector<QpAttributes> TransitionsTo(uint32_t peer, uint32_t receiver_retries = kOneRetry);

// Connects two queue pairs of the stand-in, by the attachments that a broker would send.
void AttachToEachOther(QueuePair* one, const ConnectionEndCallback& on_end_of_one, QueuePair* other,
                       const ConnectionEndCallback& on_end_of_other, uint32_t receiver_retries = kOneRetry);

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_TESTING_ATTACH_H_
