// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_WARNING_LIMIT_H_
#define BROKER_RUNTIME_WARNING_LIMIT_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/time/time.h"

namespace rdmabroker {

// Bounds how often one kind of warning is written, so that a client or peer that is refused again and again does not
// fill the log. One thread.
class WarningLimit {
 public:
  // Long enough that a day of refusals is a few megabytes, short enough that a person who watches sees them go on.
  static constexpr absl::Duration kInterval = absl::Seconds(1);

  // Asked for each warning, with the time on a clock that does not go back. Nothing: leave this one out. Otherwise
  // write it; the number is of those left out since the last one that was written.
  std::optional<uint64_t> Pass(absl::Time now) {
    if (now < next_) {
      ++left_out_;
      return std::nullopt;
    }
    next_ = now + kInterval;
    return std::exchange(left_out_, 0);
  }

 private:
  absl::Time next_ = absl::InfinitePast();
  uint64_t left_out_ = 0;
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_WARNING_LIMIT_H_
