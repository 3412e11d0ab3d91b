// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_TRANSITION_H_
#define DATAPLANE_VERBS_TRANSITION_H_

#include <optional>
#include <string_view>

#include "dataplane/ndk/qp_attributes.h"
#include "dataplane/queue_pair.h"

namespace rdmabroker::verbs {

// What QueuePair::Attach takes for one step of a queue pair. The bytes are good within this process only.
Attachment AttachmentFor(const QpAttributes& transition);
// Nothing where the bytes are not from there.
std::optional<QpAttributes> TransitionOf(std::string_view state);

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_TRANSITION_H_
