// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/watcher.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>
#include <vector>

namespace rdmabroker {
namespace {

constexpr uint64_t kStop = 1;
constexpr uint64_t kTimer = 2;
// Events taken from the kernel at a time; what is left over comes with the next call.
constexpr int kEventsAtATime = 64;

// Without these the daemon can do nothing; a process that has just started can do no better than say so.
void Require(bool fine, const char* what) {
  if (fine) return;
  std::perror(what);
  std::abort();
}

UniqueFd Created(int fd, const char* what) {
  Require(fd >= 0, what);
  return UniqueFd(fd);
}

}  // namespace

Watcher::Watcher(Executor& executor)
    : executor_(executor),
      epoll_(Created(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      stop_(Created(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
      timer_(Created(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create")),
      last_id_(kTimer),
      self_(std::make_shared<Watcher*>(this)) {
  epoll_event stop{.events = EPOLLIN, .data = {.u64 = kStop}};
  Require(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stop_.get(), &stop) == 0, "epoll_ctl");
  epoll_event timer{.events = EPOLLIN | EPOLLET, .data = {.u64 = kTimer}};
  Require(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), &timer) == 0, "epoll_ctl");
  thread_ = std::thread([this] { Run(); });
}

Watcher::~Watcher() {
  *self_ = nullptr;
  const uint64_t one = 1;
  Require(::write(stop_.get(), &one, sizeof one) == sizeof one, "eventfd write");
  thread_.join();
}

WatchId Watcher::Watch(int fd, uint32_t events, Callback callback) {
  const uint64_t id = ++last_id_;
  watched_[id] = {fd, std::move(callback)};
  epoll_event event{.events = events | EPOLLONESHOT, .data = {.u64 = id}};
  Require(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl: watch");
  return static_cast<WatchId>(id);
}

void Watcher::Rearm(WatchId id, uint32_t events) {
  const auto watched = watched_.find(static_cast<uint64_t>(id));
  if (watched == watched_.end()) return;
  epoll_event event{.events = events | EPOLLONESHOT, .data = {.u64 = watched->first}};
  Require(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, watched->second.fd, &event) == 0, "epoll_ctl: rearm");
}

void Watcher::Unwatch(WatchId id) {
  const auto watched = watched_.find(static_cast<uint64_t>(id));
  if (watched == watched_.end()) return;
  Require(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watched->second.fd, nullptr) == 0, "epoll_ctl: unwatch");
  watched_.erase(watched);
}

TimerId Watcher::StartTimer(absl::Time when, std::function<void()> callback) {
  const uint64_t id = ++last_id_;
  const auto [timer, _] = timers_.emplace(std::pair(when, id), std::move(callback));
  timer_times_[id] = when;
  // Most timers are cancelled and started anew; that the kernel's fires for one that has gone costs less than to set it
  // each time.
  if (timer == timers_.begin() && when < kernel_timer_) SetKernelTimer();
  return static_cast<TimerId>(id);
}

void Watcher::CancelTimer(TimerId id) {
  const auto time = timer_times_.find(static_cast<uint64_t>(id));
  if (time == timer_times_.end()) return;
  timers_.erase({time->second, time->first});
  timer_times_.erase(time);
}

void Watcher::SetKernelTimer() {
  kernel_timer_ = timers_.empty() ? absl::InfiniteFuture() : timers_.begin()->first.first;
  if (timers_.empty()) return;
  itimerspec setting = {};
  // All zeros would switch the timer off.
  setting.it_value = absl::ToTimespec(std::max(kernel_timer_, absl::UnixEpoch() + absl::Nanoseconds(1)));
  Require(::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &setting, nullptr) == 0, "timerfd_settime");
}

// Timers that the callbacks start wait for the next round, even where their time has passed, so this ends.
void Watcher::RunTimers() {
  const absl::Time now = Now();
  std::vector<std::pair<absl::Time, uint64_t>> due;
  for (auto timer = timers_.begin(); timer != timers_.end() && timer->first.first <= now; ++timer) {
    due.push_back(timer->first);
  }
  for (const auto& key : due) {
    // Another one's callback may have cancelled it.
    const auto timer = timers_.extract(key);
    if (!timer) continue;
    timer_times_.erase(key.second);
    timer.mapped()();
  }
  SetKernelTimer();
}

absl::Time Watcher::Now() {
  timespec now = {};
  Require(::clock_gettime(CLOCK_BOOTTIME, &now) == 0, "clock_gettime");
  return absl::TimeFromTimespec(now);
}

void Watcher::Dispatch(uint64_t id, uint32_t events) {
  if (id == kTimer) {
    uint64_t expirations = 0;
    // Nothing to read: the timer has been set anew since, and will fire again.
    if (::read(timer_.get(), &expirations, sizeof expirations) == sizeof expirations) RunTimers();
    return;
  }
  const auto watched = watched_.find(id);
  if (watched == watched_.end()) return;
  const Callback callback = watched->second.callback;
  callback(events);
}

void Watcher::Run() {
  epoll_event events[kEventsAtATime];
  while (true) {
    const int count = ::epoll_wait(epoll_.get(), events, kEventsAtATime, -1);
    Require(count >= 0 || errno == EINTR, "epoll_wait");
    for (int i = 0; i < count; ++i) {
      if (events[i].data.u64 == kStop) return;
      executor_.Post([self = self_, id = events[i].data.u64, occurred = uint32_t{events[i].events}] {
        if (*self != nullptr) (*self)->Dispatch(id, occurred);
      });
    }
  }
}

}  // namespace rdmabroker
