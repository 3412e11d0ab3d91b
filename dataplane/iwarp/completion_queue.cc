// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/completion_queue.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "dataplane/iwarp/progress_thread.h"

namespace rdmabroker::iwarp {
namespace {

constexpr uint32_t kUnlimited = std::numeric_limits<uint32_t>::max();

}  // namespace

SoftwareCompletionQueue::SoftwareCompletionQueue(Adapter* adapter, uint32_t depth, CqNotification notification)
    : adapter_(adapter), notification_(std::move(notification)), ring_(depth) {}

size_t SoftwareCompletionQueue::GetResultsEx(std::span<ResultEx> results) {
  if (const size_t taken = Take(results); taken > 0) return taken;
  DriveAll();
  return Take(results);
}

size_t SoftwareCompletionQueue::Take(std::span<ResultEx> results) {
  const std::lock_guard lock(mutex_);
  const size_t taken = std::min(count_, results.size());
  for (size_t i = 0; i < taken; ++i) {
    results[i] = ring_[head_];
    head_ = head_ + 1 == ring_.size() ? 0 : head_ + 1;
  }
  count_ -= taken;
  arming_.HandleTaken(count_);
  return taken;
}

void SoftwareCompletionQueue::DriveAll() {
  const std::lock_guard lock(queue_pairs_mutex_);
  for (DrivenQueuePair* const queue_pair : queue_pairs_) {
    queue_pair->CountPoll();
    queue_pair->Drive();
  }
}

void SoftwareCompletionQueue::Arm(CqNotify type) {
  {
    const std::lock_guard lock(mutex_);
    if (held_back_ > 0) return;  // That notification is this one's, too.
    const bool due = arming_.Arm(type);
    if (dead_ || due) {
      Notify(dead_ ? NdkStatus::kBufferOverflow : NdkStatus::kSuccess);
      return;
    }
    armed_for_results_ = arming_.armed_for_results();
    if (!armed_for_results_) return;
  }
  const std::lock_guard lock(queue_pairs_mutex_);
  for (DrivenQueuePair* const queue_pair : queue_pairs_) queue_pair->OnArm();
}

NdkStatus SoftwareCompletionQueue::Resize(uint32_t depth) {
  if (depth == 0 || depth > adapter_->info().max_cq_depth) return NdkStatus::kInvalidParameter;
  const std::lock_guard lock(mutex_);
  if (depth < count_) return NdkStatus::kBufferOverflow;
  std::vector<ResultEx> ring(depth);
  for (size_t i = 0; i < count_; ++i) ring[i] = ring_[(head_ + i) % ring_.size()];
  ring_ = std::move(ring);
  head_ = 0;
  return NdkStatus::kSuccess;
}

NdkStatus SoftwareCompletionQueue::ControlInterruptModeration(uint32_t interval_us, uint32_t count) {
  const std::lock_guard lock(mutex_);
  if (interval_us == kUnlimited && (count == kUnlimited || count > ring_.size())) {
    return NdkStatus::kInvalidParameterMix;
  }
  interval_us_ = interval_us;
  most_results_ = count;
  // The latest settings hold, and not for what has waited by others.
  if (held_back_ > 0) Notify(NdkStatus::kSuccess);
  return NdkStatus::kSuccess;
}

void SoftwareCompletionQueue::HoldBack() {
  held_back_ = 1;
  if (interval_us_ == kUnlimited) return;
  const auto interval = std::chrono::microseconds(interval_us_);
  ProgressThread::Get().SetTimer(this, ProgressThread::Clock::now() + interval);
}

void SoftwareCompletionQueue::StopHoldingBack() {
  if (std::exchange(held_back_, 0) > 0) ProgressThread::Get().SetTimer(this, std::nullopt);
}

void SoftwareCompletionQueue::OnTimer() {
  const std::lock_guard lock(mutex_);
  if (held_back_ > 0) Notify(NdkStatus::kSuccess);
}

bool SoftwareCompletionQueue::Add(const ResultEx& result, bool solicited) {
  const std::lock_guard lock(mutex_);
  if (dead_) return false;
  if (count_ == ring_.size()) {
    dead_ = true;
    if (arming_.armed()) Notify(NdkStatus::kBufferOverflow);
    AddReference();
    ProgressThread::Get().Call([this] { EndQueuePairs(); });
    return false;
  }
  ring_[(head_ + count_) % ring_.size()] = result;
  ++count_;
  const bool full = count_ == ring_.size();
  if (held_back_ > 0) {
    if (++held_back_ >= most_results_ || full) Notify(NdkStatus::kSuccess);
  } else if (arming_.HandleResult(solicited || result.status != NdkStatus::kSuccess)) {
    moderated() && !full ? HoldBack() : Notify(NdkStatus::kSuccess);
  }
  return true;
}

// The progress thread calls all notifications, so that those of one queue cannot overlap.
void SoftwareCompletionQueue::Notify(NdkStatus status) {
  arming_.Disarm();
  armed_for_results_ = false;
  StopHoldingBack();
  if (!notification_ || closed_) return;
  AddReference();
  ProgressThread::Get().Call([this, status] { RunNotification(status); });
}

void SoftwareCompletionQueue::RunNotification(NdkStatus status) {
  bool closed = false;
  {
    const std::lock_guard lock(mutex_);
    closed = closed_;
  }
  if (!closed) notification_(status);
  ReleaseReference();
}

// Each ends its connection when it sees that the queue is dead. Those to which nothing comes would not look.
void SoftwareCompletionQueue::EndQueuePairs() {
  {
    const std::lock_guard lock(queue_pairs_mutex_);
    for (DrivenQueuePair* const queue_pair : queue_pairs_) queue_pair->OnReady();
  }
  ReleaseReference();
}

void SoftwareCompletionQueue::Attach(DrivenQueuePair* queue_pair) {
  const std::lock_guard lock(queue_pairs_mutex_);
  queue_pairs_.push_back(queue_pair);
}

void SoftwareCompletionQueue::Detach(DrivenQueuePair* queue_pair) {
  const std::lock_guard lock(queue_pairs_mutex_);
  std::erase(queue_pairs_, queue_pair);
}

void SoftwareCompletionQueue::OnClose() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  interval_us_ = 0;
  arming_.Disarm();
  armed_for_results_ = false;
  StopHoldingBack();
}

}  // namespace rdmabroker::iwarp
