// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_LIMITS_H_
#define DATAPLANE_IWARP_LIMITS_H_

#include <cstddef>

#include "dataplane/iwarp/wire/adapter_limits.h"
#include "dataplane/iwarp/wire/fpdu.h"
#include "dataplane/memory.h"

namespace rdmabroker::iwarp {

// How many bytes one visit moves in either direction before other connections have their turn, and locks are let go.
inline constexpr size_t kDriveBudget = 1 << 20;

// Bytes that are copied and summed in turn, so that they are in the nearest cache when they are read again.
inline constexpr size_t kCopiedAtOnce = 4096;
// Pieces of memory that the payload of one FPDU lies in: whole pages, and both ends of each SGE.
inline constexpr size_t kMostPieces = kMaxFpduLength / kFastRegisterPageSize + 2 * size_t{kMaxSge};

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_LIMITS_H_
