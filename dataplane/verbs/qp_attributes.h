// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_QP_ATTRIBUTES_H_
#define DATAPLANE_VERBS_QP_ATTRIBUTES_H_

#include <infiniband/verbs.h>

#include <chrono>
#include <optional>

#include "dataplane/ndk/qp_attributes.h"

namespace rdmabroker::verbs {

// Nothing where a number does not fit its field, or the transition is to no state between INIT and RTS.
std::optional<ibv_qp_attr> AttributesOf(const QpAttributes& transition);

// Of the transition to RTS: lowers what is too long for a request that nobody acknowledges to fail within `most`. An
// adapter may take up to four times its timeout (InfiniBand Architecture Specification, 9.7.6.1.3).
void FailWithin(std::chrono::nanoseconds most, ibv_qp_attr* attributes);

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_QP_ATTRIBUTES_H_
