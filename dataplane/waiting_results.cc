// SPDX-License-Identifier: Apache-2.0

#include "dataplane/waiting_results.h"

#include <algorithm>
#include <utility>

namespace rdmabroker {

bool WaitingResults::Add(const ResultEx& result, const ResultOwner& owner) {
  if (full()) return false;
  if (size_ == ring_.size()) Rebuild(std::min(depth_, std::max<size_t>(2 * size_, 16)));
  At(size_) = {result, owner};
  ++size_;
  if (owner.untaken != nullptr) owner.untaken->fetch_add(1, std::memory_order_relaxed);
  return true;
}

size_t WaitingResults::Take(std::span<ResultEx> results) {
  const size_t taken = std::min(size_, results.size());
  for (size_t i = 0; i < taken; ++i) {
    const Waiting& waiting = At(i);
    results[i] = waiting.result;
    if (waiting.owner.untaken != nullptr) waiting.owner.untaken->fetch_sub(1, std::memory_order_relaxed);
  }
  size_ -= taken;
  first_ = size_ == 0 ? 0 : first_ + taken;
  if (first_ >= ring_.size()) first_ -= ring_.size();
  return taken;
}

bool WaitingResults::Resize(size_t depth) {
  if (size_ > depth) return false;
  depth_ = depth;
  if (ring_.size() > depth) Rebuild(depth);
  return true;
}

void WaitingResults::Rebuild(size_t places) {
  std::vector<Waiting> ring(places);
  for (size_t i = 0; i < size_; ++i) ring[i] = At(i);
  ring_ = std::move(ring);
  first_ = 0;
}

template <typename Predicate>
void WaitingResults::DropIf(Predicate predicate) {
  size_t kept = 0;
  for (size_t i = 0; i < size_; ++i) {
    if (!predicate(At(i))) At(kept++) = At(i);
  }
  size_ = kept;
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
