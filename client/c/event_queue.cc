// SPDX-License-Identifier: Apache-2.0

#include "client/c/event_queue.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "dataplane/refusal.h"

namespace rdmabroker::c {

EventQueue::EventQueue() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void EventQueue::Post(Events one) noexcept {
  const std::lock_guard lock(mutex_);
  if (shut_) return;
  if (events_.empty()) ::eventfd_write(descriptor_.get(), 1);
  events_.splice(events_.end(), one);
  changed_.notify_all();
}

NdkStatus EventQueue::Take(int timeout_ms, const std::function<bool(const Event&)>& wanted, Event* event) {
  std::unique_lock lock(mutex_);
  auto found = events_.end();
  const auto ready = [&] {
    found = std::find_if(events_.begin(), events_.end(), wanted);
    return shut_ || found != events_.end();
  };
  if (timeout_ms < 0) {
    changed_.wait(lock, ready);
  } else if (!changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), ready)) {
    return Refuse(NdkStatus::kTimeout, "no such event came within %d ms", timeout_ms);
  }
  if (shut_) return Refuse(NdkStatus::kCancelled, "events: the queue was closed during the call");
  *event = std::move(*found);
  events_.erase(found);
  uint64_t written = 0;
  if (events_.empty()) ::eventfd_read(descriptor_.get(), &written);
  return NdkStatus::kSuccess;
}

void EventQueue::Shut() {
  const std::lock_guard lock(mutex_);
  shut_ = true;
  events_.clear();
  ::eventfd_write(descriptor_.get(), 1);  // Nobody reads it any more.
  changed_.notify_all();
}

}  // namespace rdmabroker::c
