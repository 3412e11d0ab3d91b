// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_LOOP_H_
#define BROKER_RUNTIME_LOOP_H_

#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "broker/runtime/executor.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// Names one watch of a descriptor, and one timer.
enum class WatchId : uint64_t { kNone = 0 };
enum class TimerId : uint64_t { kNone = 0 };

// The line of the source that has given the loop a callback, for logs.
struct CodePlace {
  const char* file = "";
  int line = 0;

  static constexpr CodePlace Here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

// Runs callbacks on one thread, in turns. A turn runs those of descriptors that are ready, then tasks that were posted,
// then timers that are due, and last what these callbacks have left for the turn's end (AtTurnEnd). It takes what there
// is when it begins: what a callback posts, starts or rearms runs in a later turn, and so after all that is left for
// the end of this one.
//
// All functions but Post are called on the loop thread, or before Run. What has not run when the loop is destroyed is
// destroyed with it, and must not call it then.
class Loop final : public Executor {
 public:
  // `events` are those of epoll(7) that occurred.
  using Callback = std::function<void(uint32_t events)>;

  // What is left for a turn's end, in this order: to read from clients; to handle what was noted; to reply to what was
  // handled; to write the replies. While something is left for an earlier stage, no later stage begins.
  enum class Stage : uint8_t { kRead, kHandle, kReply, kWrite };

  // Descriptors whose callbacks run in one turn. Each costs some microseconds, so the others wait for less than a
  // millisecond.
  static constexpr int kEventsAtATime = 64;
  // Where descriptors' callbacks have taken so long in a turn, it begins no more of them, and the same goes for tasks
  // and for timers: the rest runs in the next turn. Each has its own time, so that none keeps the others from running.
  static constexpr absl::Duration kTurnTime = absl::Milliseconds(5);

  // The process ends if the kernel has no epoll, timer or watch for the loop. The kernel allows more watches
  // (fs.epoll.max_user_watches) than a process has descriptors.
  Loop();
  ~Loop() override;
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Calls `callback` once when one of `events` occurs on `fd`, or EPOLLERR or EPOLLHUP. Not EPOLLET or EPOLLONESHOT. A
  // descriptor has one watch at a time; it stays the caller's, and open until Unwatch. Rearm for the next time: a
  // callback that rearms its watch for the same events costs no system call.
  WatchId Watch(int fd, uint32_t events, Callback callback, CodePlace place = CodePlace::Here());
  void Rearm(WatchId id, uint32_t events);
  // The callback does not run after this. kNone and unknown ids are ignored.
  void Unwatch(WatchId id);
  // Unwatch, and closes the descriptor. One system call less than one after the other: the kernel takes a file out of
  // epoll with its last descriptor, so no process may have another one of it.
  void Close(WatchId id, UniqueFd fd);

  // Calls `callback` once at `when`, on the clock of Now().
  TimerId StartTimer(absl::Time when, std::function<void()> callback, CodePlace place = CodePlace::Here());
  // The callback does not run after this. kNone and timers that have run are ignored.
  void CancelTimer(TimerId id);

  void Post(std::function<void()> task) override;

  // Counts turns.
  uint64_t turn() const { return turns_; }

  // Runs `task` at the end of this turn, after those of the same stage that were left before it. Tasks that leave tasks
  // without end would keep the turn from ending.
  void AtTurnEnd(Stage stage, std::function<void()> task, CodePlace place = CodePlace::Here());

  // Runs turns until one has ended in which Stop was called.
  void Run();
  void Stop() { stopped_ = true; }
  // Waits until there is something to do, and runs one turn. Returns false if there was nothing to do until `end`.
  bool RunTurn(absl::Time end = absl::InfiniteFuture());
  // Waits likewise, and runs nothing.
  bool Wait(absl::Time end = absl::InfiniteFuture());

  // How long a turn took, and its longest callback.
  struct Turn {
    absl::Duration took;
    absl::Duration longest;
    CodePlace place;
  };
  // `follower` is called after each turn that has run a callback.
  void FollowTurns(std::function<void(const Turn&)> follower) { follower_ = std::move(follower); }

  // Time that never goes back and does not stop while the machine sleeps (CLOCK_BOOTTIME), counted from the epoch of
  // absl::Time: of use for differences only.
  static absl::Time Now();

 private:
  struct Watched {
    int fd = -1;
    Callback callback;
    CodePlace place;
    // Both include EPOLLERR and EPOLLHUP, of which epoll always tells.
    uint32_t registered = 0;  // Events that epoll waits for; 0 if epoll does not have the descriptor.
    uint32_t armed = 0;       // Events that the callback is to run for; 0 until Rearm.
  };
  struct Timer {
    std::function<void()> callback;
    CodePlace place;
  };
  struct Left {
    std::function<void()> task;
    CodePlace place;
  };
  using Tasks = std::vector<std::function<void()>>;
  using TimerKey = std::pair<absl::Time, uint64_t>;

  // Whether there is something to do besides events. From a false on, Post wakes the thread.
  bool HasWork();
  // Takes what is ready from epoll.
  void TakeEvents(absl::Duration at_most);
  void RunReady();
  Tasks TakeTasks();
  std::vector<TimerKey> TimersDue(absl::Time now) const;
  void RunEvents();
  void Dispatch(uint64_t id, uint32_t events);
  void RunTasks(Tasks tasks);
  void RunTimers(const std::vector<TimerKey>& due);
  void RunLeft();
  // Takes watches that were not rearmed out of epoll, which would report them again and again.
  void RemoveUnarmed();
  void Register(uint64_t id, Watched& watched, uint32_t events);
  // Has the kernel's timer fire by the time of the earliest one.
  void SetKernelTimer();
  // Counts the time since the last call for the callback of `place`.
  void CountTime(CodePlace place);

  UniqueFd epoll_;
  UniqueFd wake_;                                     // eventfd.
  UniqueFd timer_;                                    // timerfd.
  absl::Time kernel_timer_ = absl::InfiniteFuture();  // When that fires; perhaps for a timer that has gone.
  uint64_t last_id_;
  std::unordered_map<uint64_t, Watched> watched_;
  std::vector<uint64_t> unarmed_;  // Watches whose callbacks have run in this turn.
  std::map<TimerKey, Timer> timers_;
  std::unordered_map<uint64_t, absl::Time> timer_times_;
  // What epoll has reported: a turn runs the events from next_event_ on, and asks for more when none are left.
  std::array<epoll_event, kEventsAtATime> events_ = {};
  int event_count_ = 0;
  int next_event_ = 0;
  std::array<std::deque<Left>, 4> left_;  // By Stage.
  bool stopped_ = false;
  std::function<void(const Turn&)> follower_;
  uint64_t turns_ = 0;
  Turn turn_;
  int callbacks_ = 0;  // That have run in this turn.
  absl::Time counted_until_;

  std::mutex mutex_;
  Tasks tasks_;           // Guarded by mutex_. Those who post bound it.
  bool waiting_ = false;  // Guarded by mutex_: the thread may be in epoll_wait.
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_LOOP_H_
