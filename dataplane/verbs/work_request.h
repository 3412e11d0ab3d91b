// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_WORK_REQUEST_H_
#define DATAPLANE_VERBS_WORK_REQUEST_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

#include "dataplane/operation.h"

namespace rdmabroker::verbs {

// In a work request's number: it is a receive, and the rest is its number or, in a shared queue, its place. Nothing
// else tells where a request has failed.
inline constexpr uint64_t kReceiveRequest = uint64_t{1} << 63;

// The number of a request that no consumer has posted. It goes behind all that were posted to a queue pair that is in
// its error state, so that its completion is the last.
inline constexpr uint64_t kLastRequest = uint64_t{1} << 62;

// Returns how many there are now. Those of length 0 are left out: some hardware takes that for the greatest length
// there is, and siw looks for the memory of each. `at_least_one`: an empty one where there is none.
int CopySges(std::span<const Sge> from, bool at_least_one, ibv_sge* to);

// `pieces` has room for the SGEs, and for one at least; it must stay until the request is posted.
ibv_recv_wr ReceiveRequest(uint64_t number, std::span<const Sge> sges, bool iwarp, ibv_sge* pieces);

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_WORK_REQUEST_H_
