// SPDX-License-Identifier: Apache-2.0

#include "broker/control/connect_rates.h"

#include <algorithm>

namespace rdmabroker {

bool ConnectRates::Take(uid_t uid, absl::Time now) {
  const auto known = full_at_.find(uid);
  const absl::Time full_at = (known == full_at_.end() ? now : std::max(known->second, now)) + interval_;
  if (full_at - now > burst_) return false;
  if (known != full_at_.end()) {
    by_time_.erase({known->second, uid});
  } else if (full_at_.size() == kMostUsers) {
    full_at_.erase(by_time_.begin()->second);
    by_time_.erase(by_time_.begin());
  }
  full_at_[uid] = full_at;
  by_time_.emplace(full_at, uid);
  return true;
}

}  // namespace rdmabroker
