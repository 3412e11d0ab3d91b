// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_ADAPTER_THREAD_H_
#define DATAPLANE_VERBS_ADAPTER_THREAD_H_

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dataplane/data_object.h"
#include "dataplane/unique_fd.h"
#include "dataplane/verbs/event_target.h"

namespace rdmabroker::verbs {

// An adapter's thread that waits for the device's events and calls the consumers' callbacks. All functions may be
// called from any thread.
class AdapterThread {
 public:
  using Clock = std::chrono::steady_clock;

  // Null where the kernel has no descriptors or no thread left. The context must outlive it.
  static std::unique_ptr<AdapterThread> Start(ibv_context* context);

  AdapterThread(const AdapterThread&) = delete;
  AdapterThread& operator=(const AdapterThread&) = delete;
  // Waits for the thread, unless it is the caller: then it ends when it has returned from here.
  ~AdapterThread();

  // Runs `callback` on the thread, after all that were given before.
  void Call(std::function<void()> callback);

  // What an object gives libibverbs as its context. From Register to Unregister, which the object's OnClose calls, its
  // events reach it.
  void* Register(EventTarget* target);
  void Unregister(void* cookie);
  // Has OnTimer called once at that time, in place of a time that was set before, if the object is registered then.
  void SetTimer(const void* cookie, Clock::time_point time);
  // Has all that are registered take in what is completed.
  void ReapAll();
  // Has all that are registered drop the results of the shared queue's receives.
  void Forget(const SharedReceiveQueue* srq);
  // Tells all that are registered that this one is dead.
  void TellOfFailure(const EventTarget& failed);

  ibv_comp_channel* channel() const { return channel_; }

 private:
  struct State;
  struct Held {
    EventTarget* target = nullptr;
    ObjectReference<DataObject> reference;
  };

  struct Registered {
    EventTarget* target = nullptr;
    std::optional<Clock::time_point> time;
  };

  AdapterThread(ibv_context* context, ibv_comp_channel* channel, std::shared_ptr<State> state);
  void Run(State& state);
  bool HandleCompletionEvents();
  bool HandleAsyncEvents();
  void HandleTimers();
  int WaitTimeout();
  void TellAll(ibv_event_type type);
  void Tell(const void* cookie, ibv_event_type type);
  Held Find(const void* cookie);
  std::vector<Held> All();

  ibv_context* const context_;
  ibv_comp_channel* const channel_;
  const std::shared_ptr<State> state_;  // The thread's own, which may outlive this object by a moment.
  std::thread thread_;

  std::mutex mutex_;  // Guards what follows; innermost of all locks.
  uintptr_t next_cookie_ = 1;
  std::unordered_map<uintptr_t, Registered> targets_;
  std::set<std::pair<Clock::time_point, uintptr_t>> timers_;  // Of targets_.
};

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_ADAPTER_THREAD_H_
