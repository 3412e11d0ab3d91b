// SPDX-License-Identifier: Apache-2.0

#include "dataplane/waiting_results.h"

#include <algorithm>

namespace rdmabroker {

bool WaitingResults::Add(const ResultEx& result, const ResultOwner& owner) {
  if (full()) return false;
  waiting_.push_back({result, owner});
  if (owner.untaken != nullptr) owner.untaken->fetch_add(1, std::memory_order_relaxed);
  return true;
}

size_t WaitingResults::Take(std::span<ResultEx> results) {
  const size_t taken = std::min(waiting_.size(), results.size());
  for (size_t i = 0; i < taken; ++i) {
    const Waiting& waiting = waiting_[i];
    results[i] = waiting.result;
    if (waiting.owner.untaken != nullptr) waiting.owner.untaken->fetch_sub(1, std::memory_order_relaxed);
  }
  waiting_.pop_front(taken);
  return taken;
}

bool WaitingResults::Resize(size_t depth) {
  if (waiting_.size() > depth) return false;
  waiting_.fit(depth);
  depth_ = depth;
  return true;
}

template <typename Predicate>
void WaitingResults::DropIf(Predicate predicate) {
  size_t kept = 0;
  for (size_t i = 0; i < waiting_.size(); ++i) {
    if (!predicate(waiting_[i])) waiting_[kept++] = waiting_[i];
  }
  waiting_.truncate(kept);
}

void WaitingResults::ForgetQueuePair(const QueuePair* queue_pair) {
  DropIf([queue_pair](Waiting& waiting) {
    if (waiting.owner.queue_pair != queue_pair) return false;
    waiting.owner.queue_pair = nullptr;
    waiting.owner.untaken = nullptr;
    waiting.result.qp_context = nullptr;
    return waiting.owner.srq == nullptr;
  });
}

void WaitingResults::ForgetSharedReceiveQueue(const SharedReceiveQueue* srq) {
  DropIf([srq](const Waiting& waiting) { return waiting.owner.srq == srq; });
}

}  // namespace rdmabroker
