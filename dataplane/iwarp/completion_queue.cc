// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/completion_queue.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "dataplane/adapter_checks.h"
#include "dataplane/catch_exceptions.h"
#include "dataplane/forked_child.h"
#include "dataplane/iwarp/progress_thread.h"
#include "dataplane/post_checks.h"
#include "dataplane/refusal.h"

namespace rdmabroker::iwarp {
namespace {

constexpr uint32_t kUnlimited = std::numeric_limits<uint32_t>::max();
// Queue pairs that one poll drives at most, so that a poll has an end. The kernel names the others first next time.
constexpr size_t kDrivenAtOnce = 64;

}  // namespace

void CompletionQueueList::Add(SoftwareCompletionQueue* queue) {
  const std::lock_guard lock(mutex_);
  queues_.insert(queue);
}

void CompletionQueueList::Remove(SoftwareCompletionQueue* queue) {
  const std::lock_guard lock(mutex_);
  queues_.erase(queue);
}

void CompletionQueueList::Forget(const SharedReceiveQueue* srq) {
  const std::lock_guard lock(mutex_);
  for (SoftwareCompletionQueue* const queue : queues_) queue->Forget(srq);
}

SoftwareCompletionQueue::SoftwareCompletionQueue(Adapter* adapter, CompletionQueueList* list, UniqueFd sockets,
                                                 uint32_t depth, CqNotification notification)
    : adapter_(adapter),
      list_(list),
      sockets_(std::move(sockets)),
      notifications_(this, &ProgressThread::Get(), std::move(notification)),
      waiting_(depth) {
  list_->Add(this);
}

size_t SoftwareCompletionQueue::GetResultsEx(std::span<ResultEx> results) {
  if (IsForkedChild()) return 0;
  if (const size_t taken = Take(results); taken > 0) return taken;
  DriveReady();
  return Take(results);
}

size_t SoftwareCompletionQueue::Take(std::span<ResultEx> results) {
  const std::lock_guard lock(mutex_);
  const size_t taken = waiting_.Take(results);
  arming_.HandleTaken(waiting_.size());
  return taken;
}

void SoftwareCompletionQueue::DriveReady() {
  polls_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(queue_pairs_mutex_);
  // A look at one socket costs less than to ask whether to look.
  if (queue_pairs_.size() == 1) return queue_pairs_.front()->Drive();
  std::array<epoll_event, kDrivenAtOnce> ready;
  const int count = ::epoll_wait(sockets_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  // None is detached meanwhile.
  for (int i = 0; i < count; ++i) static_cast<DrivenQueuePair*>(ready[static_cast<size_t>(i)].data.ptr)->Drive();
}

bool SoftwareCompletionQueue::WatchSocket(DrivenQueuePair* queue_pair, int fd, uint32_t events) {
  epoll_event event = {.events = events, .data = {.ptr = queue_pair}};
  return ::epoll_ctl(sockets_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void SoftwareCompletionQueue::SetSocketEvents(DrivenQueuePair* queue_pair, int fd, uint32_t events) {
  epoll_event event = {.events = events, .data = {.ptr = queue_pair}};
  ::epoll_ctl(sockets_.get(), EPOLL_CTL_MOD, fd, &event);
}

void SoftwareCompletionQueue::UnwatchSocket(int fd) { ::epoll_ctl(sockets_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void SoftwareCompletionQueue::CallOnArm(DrivenQueuePair* queue_pair) {
  const std::lock_guard lock(to_arm_mutex_);
  armed() ? queue_pair->OnArm() : void(to_arm_.insert(not_to_arm_.extract(queue_pair)));
}

void SoftwareCompletionQueue::Arm(CqNotify type) {
  if (IsForkedChild()) return;
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
  const std::lock_guard lock(to_arm_mutex_);
  for (DrivenQueuePair* const queue_pair : to_arm_) queue_pair->OnArm();
  not_to_arm_.merge(to_arm_);
}

NdkStatus SoftwareCompletionQueue::Resize(uint32_t depth) {
  if (IsForkedChild()) return RefuseInForkedChild();
  if (const auto fits = CheckDepth(depth, adapter_->info().max_cq_depth); fits != NdkStatus::kSuccess) return fits;
  return CatchExceptions([&] {
    const std::lock_guard lock(mutex_);
    return waiting_.Resize(depth) ? NdkStatus::kSuccess : RefuseShorterQueue(depth, waiting_.size());
  });
}

NdkStatus SoftwareCompletionQueue::ControlInterruptModeration(uint32_t interval_us, uint32_t count) {
  if (IsForkedChild()) return RefuseInForkedChild();
  const std::lock_guard lock(mutex_);
  if (interval_us == kUnlimited && (count == kUnlimited || count > waiting_.depth())) {
    return RefuseModeration(count, waiting_.depth());
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
  ProgressThread::Get().SetTimer(&hold_back_timer_, ProgressThread::Clock::now() + interval);
}

void SoftwareCompletionQueue::StopHoldingBack() {
  if (std::exchange(held_back_, 0) > 0) ProgressThread::Get().SetTimer(&hold_back_timer_, std::nullopt);
}

void SoftwareCompletionQueue::EndHoldingBack() {
  const std::lock_guard lock(mutex_);
  if (held_back_ > 0) Notify(NdkStatus::kSuccess);
}

bool SoftwareCompletionQueue::Add(const ResultEx& result, const ResultOwner& owner, bool solicited) {
  const std::lock_guard lock(mutex_);
  if (dead_) return false;
  if (!waiting_.Add(result, owner)) {
    dead_ = true;
    if (arming_.armed()) Notify(NdkStatus::kBufferOverflow);
    ProgressThread::Get().Call(&end_queue_pairs_);
    return false;
  }
  const bool full = waiting_.full();
  if (held_back_ > 0) {
    if (++held_back_ >= most_results_ || full) Notify(NdkStatus::kSuccess);
  } else if (arming_.HandleResult(solicited || result.status != NdkStatus::kSuccess)) {
    moderated() && !full ? HoldBack() : Notify(NdkStatus::kSuccess);
  }
  return true;
}

void SoftwareCompletionQueue::Notify(NdkStatus status) {
  arming_.Disarm();
  armed_for_results_ = false;
  StopHoldingBack();
  notifications_.Call(status);
}

// Each ends its connection when it sees that the queue is dead. Those to which nothing comes would not look.
void SoftwareCompletionQueue::EndQueuePairs() {
  const std::lock_guard lock(queue_pairs_mutex_);
  for (DrivenQueuePair* const queue_pair : queue_pairs_) queue_pair->OnReady();
}

void SoftwareCompletionQueue::Attach(DrivenQueuePair* queue_pair) {
  std::set<DrivenQueuePair*> one = {queue_pair};
  {
    const std::lock_guard lock(queue_pairs_mutex_);
    queue_pairs_.push_back(queue_pair);
  }
  const std::lock_guard lock(to_arm_mutex_);
  not_to_arm_.merge(one);
}

void SoftwareCompletionQueue::Detach(DrivenQueuePair* queue_pair) {
  {
    const std::lock_guard lock(queue_pairs_mutex_);
    std::erase(queue_pairs_, queue_pair);
  }
  {
    const std::lock_guard lock(to_arm_mutex_);
    to_arm_.erase(queue_pair);
    not_to_arm_.erase(queue_pair);
  }
  const std::lock_guard lock(mutex_);
  waiting_.ForgetQueuePair(queue_pair);
  arming_.HandleTaken(waiting_.size());
}

void SoftwareCompletionQueue::Forget(const SharedReceiveQueue* srq) {
  const std::lock_guard lock(mutex_);
  waiting_.ForgetSharedReceiveQueue(srq);
  arming_.HandleTaken(waiting_.size());
}

void SoftwareCompletionQueue::OnClose() {
  const std::lock_guard lock(mutex_);
  notifications_.Close();
  interval_us_ = 0;
  arming_.Disarm();
  armed_for_results_ = false;
  StopHoldingBack();
}

}  // namespace rdmabroker::iwarp
