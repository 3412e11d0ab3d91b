// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_CONNECT_RATES_H_
#define BROKER_CONTROL_CONNECT_RATES_H_

#include <sys/types.h>

#include <cstddef>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/time/time.h"
#include "proto/rpc/frame_budget.h"

namespace rdmabroker {

// How often each user connects to a socket. One thread.
class ConnectRates {
 public:
  // The most users whose connections are remembered. A node has a few dozen users, and one user may have 65536
  // subordinate uids. The user whose tokens are the most is forgotten first: one who has all of them loses and gains
  // nothing.
  static constexpr size_t kMostUsers = 4096;

  explicit ConnectRates(const rpc::TokenRate& rate)
      : interval_(absl::Seconds(1 / rate.a_second)), burst_(interval_ * rate.burst) {}

  // Counts a connection of the user. Returns false if there are too many.
  [[nodiscard]] bool Take(uid_t uid, absl::Time now);

 private:
  const absl::Duration interval_;  // In which a token is added.
  const absl::Duration burst_;     // In which all are.
  // When each user has all tokens again.
  std::unordered_map<uid_t, absl::Time> full_at_;
  std::set<std::pair<absl::Time, uid_t>> by_time_;  // The same.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_CONNECT_RATES_H_
