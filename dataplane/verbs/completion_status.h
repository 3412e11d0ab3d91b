// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_COMPLETION_STATUS_H_
#define DATAPLANE_VERBS_COMPLETION_STATUS_H_

#include <infiniband/verbs.h>

#include "dataplane/ndk/status.h"

namespace rdmabroker::verbs {

// How a request ended. Only a length error says different things of sends and of receives.
NdkStatus CompletionStatus(ibv_wc_status status, bool receive);

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_COMPLETION_STATUS_H_
