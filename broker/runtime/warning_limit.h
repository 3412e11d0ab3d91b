// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_WARNING_LIMIT_H_
#define BROKER_RUNTIME_WARNING_LIMIT_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/time/time.h"

namespace rdmabroker {

// Bounds how often one kind of event is logged, so that a client or peer that does the same again and again does not
// fill the log. One thread.
class WarningLimit {
 public:
  // Long enough that a day of refusals is a few megabytes, short enough that a person who watches sees them go on.
  static constexpr absl::Duration kInterval = absl::Seconds(1);

  WarningLimit() = default;
  // After silence `most` may come at once; each interval gives one of those back. At least 1.
  explicit WarningLimit(int64_t most, absl::Duration interval = kInterval)
      : interval_(interval), ahead_(interval * (most - 1)) {}

  // Asked for each event, with the time on a clock that does not go back. Nothing: leave this one out. Otherwise log
  // it; the number is of those left out since the last one that was logged.
  std::optional<uint64_t> Pass(absl::Time now) {
    if (now < next_ - ahead_) {
      ++left_out_;
      return std::nullopt;
    }
    next_ = std::max(now, next_) + interval_;
    return std::exchange(left_out_, 0);
  }

  // Whether it lets as many pass as a new one.
  bool IsFresh(absl::Time now) const { return next_ <= now; }

 private:
  absl::Duration interval_ = kInterval;
  absl::Duration ahead_ = absl::ZeroDuration();
  absl::Time next_ = absl::InfinitePast();  // When one that comes after silence has given everything back.
  uint64_t left_out_ = 0;
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_WARNING_LIMIT_H_
