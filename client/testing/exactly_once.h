// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_TESTING_EXACTLY_ONCE_H_
#define CLIENT_TESTING_EXACTLY_ONCE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace rdmabroker::client {

// A callback that fails the test if it is called twice, or destroyed without having been called.
template <typename Function>
class ExactlyOnce {
 public:
  ExactlyOnce(std::string name, Function function)
      : bomb_(std::make_shared<Bomb>(std::move(name))), function_(std::move(function)) {}

  template <typename... Args>
  void operator()(Args&&... args) const {
    EXPECT_EQ(++bomb_->calls, 1) << bomb_->name << " is called again";
    function_(std::forward<Args>(args)...);
  }

 private:
  struct Bomb {
    explicit Bomb(std::string text) : name(std::move(text)) {}
    ~Bomb() { EXPECT_EQ(calls, 1) << name << " is destroyed uncalled"; }
    const std::string name;
    std::atomic<int> calls = 0;
  };

  std::shared_ptr<Bomb> bomb_;
  Function function_;
};

// What has happened, in order, from whatever thread.
class Log {
 public:
  void Add(std::string line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
    changed_.notify_all();
  }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  // Waits until there are that many lines, and returns all.
  std::vector<std::string> WaitFor(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(20), [&] { return lines_.size() >= count; }))
        << "only " << lines_.size() << " of " << count;
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_TESTING_EXACTLY_ONCE_H_
