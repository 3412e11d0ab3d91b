// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_WATCHER_H_
#define BROKER_RUNTIME_WATCHER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>
#include <utility>

#include "absl/time/time.h"
#include "broker/runtime/executor.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// Names one watch of a descriptor, and one timer.
enum class WatchId : uint64_t { kNone = 0 };
enum class TimerId : uint64_t { kNone = 0 };

// Waits for descriptors and points in time on a thread of its own, which does nothing but post to the loop thread. All
// functions are called on the loop thread, and so are the callbacks.
class Watcher {
 public:
  // `events` are those of epoll(7) that occurred.
  using Callback = std::function<void(uint32_t events)>;

  // `executor` outlives the watcher. The process ends where the kernel has no epoll, timer or watch for it: it allows
  // more watches (fs.epoll.max_user_watches) than a process has descriptors.
  explicit Watcher(Executor& executor);
  // Stops the thread. Callbacks that are posted already do not run any more.
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // Calls `callback` once when one of `events` occurs on `fd`, which stays the caller's and open until Unwatch. Rearm
  // for the next time.
  WatchId Watch(int fd, uint32_t events, Callback callback);
  void Rearm(WatchId id, uint32_t events);
  // No callback of it runs after this, not even one that is posted already. kNone and unknown ids are ignored.
  void Unwatch(WatchId id);

  // Calls `callback` once at `when`, on the clock of Now().
  TimerId StartTimer(absl::Time when, std::function<void()> callback);
  // The callback does not run after this. kNone and timers that have run are ignored.
  void CancelTimer(TimerId id);

  // Time that never goes back and does not stop while the machine sleeps (CLOCK_BOOTTIME), counted from the epoch of
  // absl::Time: of use for differences only.
  static absl::Time Now();

 private:
  struct Watched {
    int fd = -1;
    Callback callback;
  };

  void Run();
  void Dispatch(uint64_t id, uint32_t events);
  void RunTimers();
  // Sets the kernel's timer to the earliest one.
  void SetKernelTimer();

  Executor& executor_;
  UniqueFd epoll_;
  UniqueFd stop_;                                     // eventfd.
  UniqueFd timer_;                                    // timerfd.
  absl::Time kernel_timer_ = absl::InfiniteFuture();  // When that fires; perhaps for a timer that has gone.
  uint64_t last_id_;
  std::unordered_map<uint64_t, Watched> watched_;  // Loop thread only.
  std::map<std::pair<absl::Time, uint64_t>, std::function<void()>> timers_;
  std::unordered_map<uint64_t, absl::Time> timer_times_;
  std::shared_ptr<Watcher*> self_;  // What posted tasks reach this by; null once it is destroyed.
  std::thread thread_;
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_WATCHER_H_
