// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_IWARP_TESTING_TASK_QUEUE_H_
#define BROKER_FABRIC_IWARP_TESTING_TASK_QUEUE_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

#include "absl/time/time.h"
#include "broker/runtime/executor.h"

namespace rdmabroker {

// An event loop that goes on only when the test lets it: the thread that calls RunOne is the loop thread.
class TaskQueue final : public Executor {
 public:
  void Post(std::function<void()> task) override {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    posted_.notify_one();
  }

  // Waits for a task, which stays; false if none came.
  bool Wait(absl::Duration at_most) {
    std::unique_lock lock(mutex_);
    return posted_.wait_for(lock, absl::ToChronoNanoseconds(at_most), [this] { return !tasks_.empty(); });
  }

  // Waits for a task and runs it; false if none came.
  bool RunOne(absl::Duration at_most) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      if (!posted_.wait_for(lock, absl::ToChronoNanoseconds(at_most), [this] { return !tasks_.empty(); })) return false;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> tasks_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_IWARP_TESTING_TASK_QUEUE_H_
