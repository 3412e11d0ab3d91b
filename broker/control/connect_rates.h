// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_CONNECT_RATES_H_
#define BROKER_CONTROL_CONNECT_RATES_H_

#include <sys/types.h>

#include <cstddef>
#include <unordered_map>

#include "broker/runtime/loop.h"
#include "proto/rpc/frame_budget.h"

namespace rdmabroker {

// How often each user connects to a socket. One thread.
class ConnectRates {
 public:
  explicit ConnectRates(rpc::TokenRate rate) : rate_(rate) {}

  // Counts a connection of the user. Returns false if there are too many.
  [[nodiscard]] bool Take(uid_t uid) {
    const absl::Time now = Loop::Now();
    if (buckets_.size() >= kMostUsers && !buckets_.contains(uid)) buckets_.clear();
    return buckets_.try_emplace(uid, rate_, now).first->second.Take(now);
  }

 private:
  // Above this number of users all buckets are reset. A node has a few dozen users.
  static constexpr size_t kMostUsers = 4096;

  const rpc::TokenRate rate_;
  std::unordered_map<uid_t, rpc::TokenBucket> buckets_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_CONNECT_RATES_H_
