// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_PROGRESS_THREAD_H_
#define DATAPLANE_IWARP_PROGRESS_THREAD_H_

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dataplane/data_object.h"
#include "dataplane/iwarp/driven_queue_pair.h"
#include "dataplane/pending_call.h"
#include "dataplane/timers.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker::iwarp {

// The one background thread of a process. It calls consumers' callbacks, keeps deadlines, and drives queue pairs, the
// last only where nobody polls: a socket that turns out to be polled is left alone until its polls have stopped for
// kPollGrace. All functions may be called from any thread, with or without a queue pair's locks held; only Watch needs
// memory. A process that forks goes on without the thread in the child, where no adapter works.
class ProgressThread final : public CallingThread {
 public:
  using Clock = Timer::Clock;

  // The process's. Once started, and costing nothing while nothing happens, it never ends: an object's last reference
  // may go on the thread itself, which could not wait for its own end.
  static ProgressThread& Get();

  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // Starts the thread if it does not run. False: there is no descriptor or no thread for it; it may be tried again.
  // Everything else needs it to run.
  bool Start();

  void Call(PendingCall* call) override;

  // Gives a reference back on the thread, as the last one to an object may complete its close, which calls the consumer
  // and must not happen under a caller's locks.
  template <typename Object>
  void LetGo(ObjectReference<Object> reference) {
    if (reference) LetGo(reference.Release()->let_go());
  }

  // Watches a queue pair's socket for these events until Unwatch; holds a reference to it. Returns its handle; 0 where
  // the kernel watches no more (fs.epoll.max_user_watches). It may throw std::bad_alloc.
  uint64_t Watch(DrivenQueuePair* queue_pair, int fd, uint32_t events);
  // The reference is given back on the thread. The socket must still be open.
  void Unwatch(uint64_t handle);
  void SetEvents(uint64_t handle, uint32_t events);
  // Watches the socket at once even if it has been polled: from now on someone waits for a notification.
  void Resume(uint64_t handle);
  // Has the timer run once at that time, in place of a time that was set before; none: not at all.
  void SetTimer(Timer* timer, std::optional<Clock::time_point> time);

 private:
  // Long enough that a thread that polls between pieces of work counts as polling, short enough for one-sided traffic
  // that comes after it has stopped.
  static constexpr std::chrono::milliseconds kPollGrace{2};

  struct Source {
    ObjectReference<DrivenQueuePair> queue_pair;
    int fd = -1;
    uint32_t events = 0;
    bool polled = false;  // Left to those who poll.
    bool listed = false;  // In polled_, perhaps no longer polled.
    uint64_t polls_seen = 0;
  };

  ProgressThread() = default;
  [[noreturn]] void Run();
  int WaitTimeout();
  void HandleSocket(uint64_t handle);
  void HandleTimers();
  void HandlePolled();
  void RunCalls();
  void LetGo(PendingCall* call);
  void StartTimer();
  void Signal();
  void UpdateEpoll(uint64_t handle, const Source& source);

  UniqueFd epoll_;
  UniqueFd event_;
  UniqueFd timer_;    // Set to the first of timers_: epoll_wait(2) would round a microsecond up to a millisecond.
  std::mutex mutex_;  // Guards what follows; innermost of all locks.
  bool started_ = false;
  bool signalled_ = false;
  uint64_t next_handle_ = 1;  // 0 is the other descriptors.
  std::unordered_map<uint64_t, Source> sources_;
  // None twice. There is room for all sources, those that are listed already and watched no more among them.
  std::vector<uint64_t> polled_;
  Clock::time_point polls_due_;  // When to look at the polls of `polled_`, if there are any.
  PendingCalls calls_;
  Timers timers_;
  std::optional<Clock::time_point> started_for_;  // What timer_ was last set to.
};

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_PROGRESS_THREAD_H_
