// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONTROL_DISCONNECT_DELAYS_H_
#define TESTS_CONTROL_DISCONNECT_DELAYS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <vector>

#include "absl/base/config.h"
#include "absl/time/time.h"

namespace rdmabroker {

// How long after a client's SIGKILL its peer knew of it, a trial each. It is to be a tenth of a second at most.
//
// A machine that builds or runs other tests holds processes up, and now and then for longer than that. So two of twenty
// trials may be late, and where more are, further ones follow until the last twenty are as they should be; a machine
// that was held up for a while is forgiven, whatever it did to the first ones. What is forgiven does not hide a broker
// that does not notice: one that looks for dead clients once a second is late in nine of ten trials, so that twenty
// with two late ones come about by chance once in 6 * 10^15; at four times a second once in 200,000.
class DisconnectDelays {
 public:
  // Whether another trial is needed.
  bool GoOn() const { return !InTime() && delays_.size() < kMostTrials; }
  void Add(absl::Duration delay) { delays_.push_back(delay); }
  size_t trials() const { return delays_.size(); }

  void ExpectInTime() const {
    ASSERT_FALSE(delays_.empty());
    std::vector<absl::Duration> sorted = delays_;
    std::sort(sorted.begin(), sorted.end());
    std::printf("from SIGKILL until the peer knows, ms: median %.1f, most %.1f of %zu\n",
                absl::ToDoubleMilliseconds(sorted[sorted.size() / 2]), absl::ToDoubleMilliseconds(sorted.back()),
                sorted.size());
    EXPECT_TRUE(InTime()) << "of the last " << kTrials << " more than " << kMostLate << " were later than " << kLimit;
  }

 private:
  static constexpr size_t kTrials = 20;
  static constexpr ptrdiff_t kMostLate = 2;
  static constexpr size_t kMostTrials = 40;
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
  // The kernel takes longer to clear away a process that has a sanitizer's shadow.
  static constexpr absl::Duration kLimit = absl::Seconds(1);
#else
  static constexpr absl::Duration kLimit = absl::Milliseconds(100);
#endif

  bool InTime() const {
    if (delays_.size() < kTrials) return false;
    return std::count_if(delays_.end() - kTrials, delays_.end(), [](absl::Duration delay) { return delay > kLimit; }) <=
           kMostLate;
  }

  std::vector<absl::Duration> delays_;
};

}  // namespace rdmabroker

#endif  // TESTS_CONTROL_DISCONNECT_DELAYS_H_
