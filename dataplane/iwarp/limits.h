// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_LIMITS_H_
#define DATAPLANE_IWARP_LIMITS_H_

#include <cstddef>

namespace rdmabroker::iwarp {

// How many bytes one visit moves in either direction before other connections have their turn, and locks are let go.
inline constexpr size_t kDriveBudget = 1 << 20;

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_LIMITS_H_
