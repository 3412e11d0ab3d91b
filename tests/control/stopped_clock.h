// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONTROL_STOPPED_CLOCK_H_
#define TESTS_CONTROL_STOPPED_CLOCK_H_

#include "absl/time/time.h"

namespace rdmabroker {

// While it lives, CLOCK_BOOTTIME, which is Loop::Now(), stands still for this process but for what the test moves it
// on. Timers that are due by that run in the next turn of their loop; a loop that waits for them waits on. One at a
// time. A test that links this has a clock_gettime of its own.
class StoppedClock {
 public:
  StoppedClock();
  ~StoppedClock();
  StoppedClock(const StoppedClock&) = delete;
  StoppedClock& operator=(const StoppedClock&) = delete;

  void Move(absl::Duration by);
};

}  // namespace rdmabroker

#endif  // TESTS_CONTROL_STOPPED_CLOCK_H_
