// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_FRAME_BUDGETS_H_
#define BROKER_CONTROL_FRAME_BUDGETS_H_

#include <cstddef>
#include <map>
#include <memory>

#include "absl/time/time.h"
#include "broker/runtime/loop.h"
#include "proto/rpc/frame_budget.h"

namespace rdmabroker {

// Counts the connections of each user, or of each host, and has one budget of frames for each: all connections share
// it, and who connects again has still the same. Loop thread only.
template <typename Who>
class FrameBudgets {
 public:
  // How long a budget is kept after the last connection has ended. An empty one is full again by then.
  static constexpr absl::Duration kKept = absl::Seconds(10);

  explicit FrameBudgets(Loop& loop) : loop_(loop) {}
  ~FrameBudgets() {
    for (const auto& [who, entry] : entries_) loop_.CancelTimer(entry.forget);
  }
  FrameBudgets(const FrameBudgets&) = delete;
  FrameBudgets& operator=(const FrameBudgets&) = delete;

  [[nodiscard]] size_t CountOf(const Who& who) const {
    const auto found = entries_.find(who);
    return found == entries_.end() ? 0 : found->second.connections;
  }

  // One connection more, and one less.
  std::shared_ptr<rpc::FrameBudget> Enter(const Who& who) {
    Entry& entry = entries_[who];
    if (entry.budget == nullptr) {
      entry.budget = std::make_shared<rpc::FrameBudget>(rpc::FrameBudget::Rates(), Loop::Now());
    }
    ++entry.connections;
    loop_.CancelTimer(entry.forget);
    return entry.budget;
  }
  void Leave(const Who& who) {
    Entry& entry = entries_.at(who);
    if (--entry.connections > 0) return;
    entry.forget = loop_.StartTimer(Loop::Now() + kKept, [this, who] { entries_.erase(who); });
  }

 private:
  struct Entry {
    std::shared_ptr<rpc::FrameBudget> budget;
    size_t connections = 0;
    TimerId forget = TimerId::kNone;
  };

  Loop& loop_;
  std::map<Who, Entry> entries_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_FRAME_BUDGETS_H_
