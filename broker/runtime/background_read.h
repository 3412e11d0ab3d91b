// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_BACKGROUND_READ_H_
#define BROKER_RUNTIME_BACKGROUND_READ_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "broker/runtime/executor.h"

namespace rdmabroker {

// Reads the same thing again and again on a thread of its own, since a file system may block for minutes or for ever.
// One read at a time. All functions are called on the loop thread.
template <typename Value>
class BackgroundRead {
 public:
  // `read` runs on the thread, `done` on the loop thread, once for each read. `executor` outlives this object; what
  // `read` uses must outlive the process, or be its own.
  BackgroundRead(Executor& executor, std::function<Value()> read, std::function<void(Value)> done)
      : state_(std::make_shared<State>()) {
    state_->executor = &executor;
    state_->done = std::move(done);
    std::thread([state = state_, read = std::move(read)] { Serve(state, read); }).detach();
  }
  // Does not wait for a read that blocks: its thread ends with the process. `done` does not run any more.
  ~BackgroundRead() {
    state_->done = nullptr;
    const std::lock_guard lock(state_->mutex);
    state_->executor = nullptr;
    state_->changed.notify_one();
  }
  BackgroundRead(const BackgroundRead&) = delete;
  BackgroundRead& operator=(const BackgroundRead&) = delete;

  // True: a read begins now. False: one is under way, which may have seen the old, so one more begins after it, for all
  // who ask until then.
  bool Ask() {
    if (state_->busy) {
      state_->again = true;
      return false;
    }
    Begin(*state_);
    return true;
  }

 private:
  struct State {
    // Loop thread only.
    std::function<void(Value)> done;
    bool busy = false;
    bool again = false;

    std::mutex mutex;
    std::condition_variable changed;
    Executor* executor = nullptr;  // Guarded by mutex; null: the owner has gone.
    bool wanted = false;           // Guarded by mutex.
  };

  static void Begin(State& state) {
    state.busy = true;
    const std::lock_guard lock(state.mutex);
    state.wanted = true;
    state.changed.notify_one();
  }

  static void Serve(const std::shared_ptr<State>& state, const std::function<Value()>& read) {
    std::unique_lock lock(state->mutex);
    for (;;) {
      state->changed.wait(lock, [&] { return state->wanted || state->executor == nullptr; });
      if (state->executor == nullptr) return;
      state->wanted = false;
      lock.unlock();
      auto value = std::make_shared<Value>(read());
      lock.lock();
      if (state->executor == nullptr) return;
      state->executor->Post([state, value] { Finish(*state, std::move(*value)); });
    }
  }

  static void Finish(State& state, Value value) {
    if (state.done == nullptr) return;
    state.busy = false;
    if (std::exchange(state.again, false)) Begin(state);
    state.done(std::move(value));
  }

  const std::shared_ptr<State> state_;
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_BACKGROUND_READ_H_
