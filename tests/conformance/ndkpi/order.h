// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CONFORMANCE_NDKPI_ORDER_H_
#define TESTS_CONFORMANCE_NDKPI_ORDER_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/testing/side.h"

namespace rdmabroker::ndkpi {

// What callbacks have done, in the order in which they did it. Any thread, as the next.
class Order {
 public:
  void Add(std::string what) const {
    const std::lock_guard lock(events_->mutex);
    events_->all.push_back(std::move(what));
  }
  std::vector<std::string> all() const {
    const std::lock_guard lock(events_->mutex);
    return events_->all;
  }

 private:
  struct Events {
    std::mutex mutex;
    std::vector<std::string> all;
  };

  std::shared_ptr<Events> events_ = std::make_shared<Events>();
};

// A callback that the test holds up, so that what must wait for its return can be seen to wait.
class HeldCallback {
 public:
  // What the callback does: it goes on after Release, or when nobody has had the patience to release it.
  void Run() const {
    std::unique_lock lock(state_->mutex);
    state_->running = true;
    state_->changed.notify_all();
    EXPECT_TRUE(state_->changed.wait_for(lock, kPatience, [this] { return state_->released; }))
        << "nobody lets the callback go on";
    state_->returned = true;
  }
  // Waits until it runs.
  void Await() const {
    std::unique_lock lock(state_->mutex);
    EXPECT_TRUE(state_->changed.wait_for(lock, kPatience, [this] { return state_->running; }))
        << "the callback does not come";
  }
  void Release() const {
    const std::lock_guard lock(state_->mutex);
    state_->released = true;
    state_->changed.notify_all();
  }
  // Nothing of it is to come but its last instruction.
  bool returned() const {
    const std::lock_guard lock(state_->mutex);
    return state_->returned;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool running = false;
    bool released = false;
    bool returned = false;
  };

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace rdmabroker::ndkpi

#endif  // TESTS_CONFORMANCE_NDKPI_ORDER_H_
