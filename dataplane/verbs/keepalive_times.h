// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_KEEPALIVE_TIMES_H_
#define DATAPLANE_VERBS_KEEPALIVE_TIMES_H_

#include <chrono>

namespace rdmabroker::verbs {

// What the time after which a silent peer is known to be dead is made of, at most: two looks that find nothing
// acknowledged, the second of which asks; the hardware's tries; and one look that finds that it has given up.
constexpr std::chrono::milliseconds LookWhenHeard(std::chrono::milliseconds keepalive) { return keepalive / 4; }
constexpr std::chrono::milliseconds TimeToFail(std::chrono::milliseconds keepalive) { return keepalive * 3 / 8; }
constexpr std::chrono::milliseconds LookWhenAsked(std::chrono::milliseconds keepalive) { return keepalive / 16; }

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_KEEPALIVE_TIMES_H_
