// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_QUEUE_EXECUTOR_FOR_TEST_H_
#define BROKER_RUNTIME_QUEUE_EXECUTOR_FOR_TEST_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

#include "broker/runtime/executor.h"

namespace rdmabroker {

// Makes the test's own thread the loop thread, for as long as it asks.
class QueueExecutor final : public Executor {
 public:
  void Post(std::function<void()> task) override {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    posted_.notify_one();
  }

  // Runs tasks, and waits for more, until it is so. False where it is not so after 30 s, which only a bug takes.
  bool RunUntil(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
      if (!RunOne(end)) return false;
    }
    return true;
  }

  // Waits until there are `count` tasks, without running them. False likewise.
  bool WaitForTasks(size_t count) {
    std::unique_lock lock(mutex_);
    return posted_.wait_for(lock, std::chrono::seconds(30), [&] { return tasks_.size() >= count; });
  }

 private:
  bool RunOne(std::chrono::steady_clock::time_point end) {
    std::unique_lock lock(mutex_);
    if (!posted_.wait_until(lock, end, [this] { return !tasks_.empty(); })) return false;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    return true;
  }

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> tasks_;
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_QUEUE_EXECUTOR_FOR_TEST_H_
