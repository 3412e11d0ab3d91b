// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_IWARP_TESTING_TASK_QUEUE_H_
#define BROKER_FABRIC_IWARP_TESTING_TASK_QUEUE_H_

#include <deque>
#include <functional>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "broker/runtime/executor.h"

namespace rdmabroker {

// An event loop that goes on only when the test lets it: the thread that calls RunOne is the loop thread.
class TaskQueue final : public Executor {
 public:
  void Post(std::function<void()> task) override {
    const absl::MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
  }

  // Waits for a task and runs it; false if none came.
  bool RunOne(absl::Duration at_most) {
    std::function<void()> task;
    {
      const absl::MutexLock lock(&mutex_);
      const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !tasks_.empty(); };
      if (!mutex_.AwaitWithTimeout(absl::Condition(&ready), at_most)) return false;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
    return true;
  }

 private:
  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_IWARP_TESTING_TASK_QUEUE_H_
