// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_LOOP_FOR_TEST_H_
#define BROKER_RUNTIME_LOOP_FOR_TEST_H_

#include <functional>

#include "absl/time/time.h"
#include "broker/runtime/loop.h"

namespace rdmabroker {

// Runs turns on the test's own thread until `condition` holds. Returns false if it does not hold after 30 s, which only
// a bug takes.
inline bool RunUntil(Loop& loop, const std::function<bool()>& condition) {
  const absl::Time end = Loop::Now() + absl::Seconds(30);
  while (!condition()) {
    if (!loop.RunTurn(end)) return false;
  }
  return true;
}

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_LOOP_FOR_TEST_H_
