// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_BENCH_HANDSHAKE_TIMES_H_
#define TESTS_BENCH_HANDSHAKE_TIMES_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace rdmabroker::bench {

// When a handshake came how far, in nanoseconds of the clock that all processes of the machine share (CLOCK_MONOTONIC).
// 0: nobody who takes part sees it.
struct HandshakeTimes {
  int64_t begun = 0;
  int64_t address_resolved = 0;
  int64_t route_resolved = 0;
  int64_t replied = 0;  // The peer has accepted, as the active side sees it.
  int64_t active_established = 0;
  int64_t passive_established = 0;

  int64_t established() const { return std::max(active_established, passive_established); }
};

inline int64_t NanosecondsNow() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace rdmabroker::bench

#endif  // TESTS_BENCH_HANDSHAKE_TIMES_H_
