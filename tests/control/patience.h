// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONTROL_PATIENCE_H_
#define TESTS_CONTROL_PATIENCE_H_

#include <functional>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace rdmabroker {

// How long a test waits for what must happen: far longer than it takes on a busy machine under a sanitizer, since only
// a failing test waits so long.
inline constexpr absl::Duration kTestPatience = absl::Seconds(60);

// Asks until it is so; false where it is not so within the patience. For what tells nobody when it happens.
inline bool Becomes(const std::function<bool()>& condition, absl::Duration patience = kTestPatience) {
  const absl::Time end = absl::Now() + patience;
  while (!condition()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

}  // namespace rdmabroker

#endif  // TESTS_CONTROL_PATIENCE_H_
