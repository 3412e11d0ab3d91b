// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_KEEPER_BACK_OFF_H_
#define BROKER_KEEPER_BACK_OFF_H_

#include <algorithm>

#include "absl/time/time.h"

namespace rdmabroker::keeper {

// How long to wait before the next try, after each failure in a row. One thread.
class BackOff {
 public:
  // The second wait at most; the first is none, since most processes that die do so once. About what a start takes.
  static constexpr absl::Duration kShortest = absl::Milliseconds(100);
  // Long beside what a start costs, short beside what somebody takes to mend the cause.
  static constexpr absl::Duration kLongest = absl::Seconds(10);

  // `random`: from 0 to 1. Each wait but the first is drawn from the upper half of one that doubles, so that many that
  // fail of one cause, such as a full disk, do not all come back in the same moment.
  absl::Duration Next(double random) {
    const absl::Duration bound = next_;
    next_ = std::min(std::max(2 * next_, kShortest), kLongest);
    return bound * (1 + random) / 2;
  }
  void Reset() { next_ = absl::ZeroDuration(); }

 private:
  absl::Duration next_;
};

}  // namespace rdmabroker::keeper

#endif  // BROKER_KEEPER_BACK_OFF_H_
