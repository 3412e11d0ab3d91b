// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_ADAPTER_THREAD_H_
#define DATAPLANE_VERBS_ADAPTER_THREAD_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "dataplane/data_object.h"
#include "dataplane/pending_call.h"
#include "dataplane/timers.h"
#include "dataplane/verbs/event_target.h"

namespace rdmabroker::verbs {

// An adapter's thread that waits for the device's events and calls the consumers' callbacks. All functions may be
// called from any thread. None but Start and Register needs memory.
class AdapterThread final : public CallingThread {
 public:
  using Clock = Timers::Clock;

  // Null where the kernel has no descriptors or no thread left. The context must outlive it.
  static std::unique_ptr<AdapterThread> Start(ibv_context* context);

  AdapterThread(const AdapterThread&) = delete;
  AdapterThread& operator=(const AdapterThread&) = delete;
  // Waits for the thread, unless it is the caller: then it ends when it has returned from here.
  ~AdapterThread();

  void Call(PendingCall* call) override;

  // What an object gives libibverbs as its context. From Register to Unregister, which the object's OnClose calls, its
  // events reach it, and its timer can be set, if it has one.
  void* Register(EventTarget* target, Timer* timer = nullptr);
  void Unregister(void* cookie);
  // The object's timer, in place of a time that was set before. Nothing where the object is not registered.
  void SetTimer(const void* cookie, Clock::time_point time);
  // Has all that are registered take in what is completed.
  void ReapAll();
  // Has all that are registered drop the results of the shared queue's receives.
  void Forget(const SharedReceiveQueue* srq);
  // Tells all that are registered that this one is dead.
  void TellOfFailure(const EventTarget& failed);

  ibv_comp_channel* channel() const { return channel_.get(); }

 private:
  struct State;
  struct ChannelDestroyer {
    void operator()(ibv_comp_channel* channel) const { ibv_destroy_comp_channel(channel); }
  };
  using Channel = std::unique_ptr<ibv_comp_channel, ChannelDestroyer>;

  struct Registered {
    EventTarget* target = nullptr;
    Timer* timer = nullptr;
  };
  using Targets = std::map<uintptr_t, Registered>;

  struct Held {
    uintptr_t cookie = 0;
    EventTarget* target = nullptr;
    ObjectReference<DataObject> reference;
  };

  AdapterThread(ibv_context* context, Channel channel, std::shared_ptr<State> state);
  void Run(State& state);
  bool HandleCompletionEvents();
  bool HandleAsyncEvents();
  void HandleTimers();
  int WaitTimeout();
  void Tell(const void* cookie, ibv_event_type type);
  Held Find(const void* cookie);
  // The next after this one in the order of registration.
  Held Next(uintptr_t cookie);
  // With the lock held.
  Held Hold(Targets::iterator registered);
  // Calls the function for all that are registered now and still when it is their turn. The last may destroy this
  // object.
  template <typename Function>
  void ForEach(const Function& function);

  ibv_context* const context_;
  const Channel channel_;
  const std::shared_ptr<State> state_;  // The thread's own, which may outlive this object by a moment.
  std::thread thread_;

  std::mutex mutex_;  // Guards what follows; innermost of all locks.
  uintptr_t next_cookie_ = 1;
  Targets targets_;
  Timers timers_;  // Of targets_.
};

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_ADAPTER_THREAD_H_
