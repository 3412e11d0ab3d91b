// SPDX-License-Identifier: Apache-2.0

#include "dataplane/notifications.h"

#include <utility>

namespace rdmabroker {

Notifications::Notifications(DataObject* queue, CallingThread* thread, Function function)
    : function_(std::move(function)), thread_(thread), call_(queue, [this] { Run(); }) {}

void Notifications::Call(NdkStatus status) {
  const std::lock_guard lock(mutex_);
  if (!function_ || closed_) return;
  if (status == NdkStatus::kSuccess) {
    ++successes_;
  } else {
    ++failures_;
    failure_ = status;
  }
  thread_->Call(&call_);
}

void Notifications::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

// One at a time: a consumer that arms its queue again at once must not keep the thread from other queues.
void Notifications::Run() {
  NdkStatus status = NdkStatus::kSuccess;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    if (successes_ > 0) {
      --successes_;
    } else {
      --failures_;
      status = failure_;
    }
    if (successes_ + failures_ > 0) thread_->Call(&call_);
  }
  function_(status);
}

}  // namespace rdmabroker
