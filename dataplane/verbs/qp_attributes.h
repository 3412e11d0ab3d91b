// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_QP_ATTRIBUTES_H_
#define DATAPLANE_VERBS_QP_ATTRIBUTES_H_

#include <infiniband/verbs.h>

#include <optional>

#include "dataplane/ndk/qp_attributes.h"

namespace rdmabroker::verbs {

// Nothing where a number does not fit its field, or the transition is to no state between INIT and RTS.
std::optional<ibv_qp_attr> AttributesOf(const QpAttributes& transition);

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_QP_ATTRIBUTES_H_
