// SPDX-License-Identifier: Apache-2.0

#ifndef PROTO_RPC_DEADLINES_H_
#define PROTO_RPC_DEADLINES_H_

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/time/time.h"
#include "proto/rpc/inbound.h"

namespace rdmabroker::rpc {

// The deadlines of a connection's calls. A call has at most one.
class Deadlines {
 public:
  // The call must have none.
  void Add(CallId call, absl::Time deadline) {
    by_call_.emplace(call, deadline);
    by_time_.emplace(deadline, call);
  }
  // Does nothing for a call without a deadline.
  void Erase(CallId call) {
    const auto found = by_call_.find(call);
    if (found == by_call_.end()) return;
    by_time_.erase({found->second, call});
    by_call_.erase(found);
  }
  // Erases the earliest deadline that is not after `now`, and returns its call.
  std::optional<CallId> TakeDue(absl::Time now) {
    if (by_time_.empty() || by_time_.begin()->first > now) return std::nullopt;
    const CallId call = by_time_.begin()->second;
    Erase(call);
    return call;
  }
  [[nodiscard]] std::optional<absl::Time> Next() const {
    if (by_time_.empty()) return std::nullopt;
    return by_time_.begin()->first;
  }

 private:
  std::map<CallId, absl::Time> by_call_;
  std::set<std::pair<absl::Time, CallId>> by_time_;
};

}  // namespace rdmabroker::rpc

#endif  // PROTO_RPC_DEADLINES_H_
