// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/loop.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iterator>
#include <utility>

namespace rdmabroker {
namespace {

constexpr uint64_t kWake = 1;
constexpr uint64_t kTimer = 2;

constexpr CodePlace kTaskPlace = {"a posted task", 0};

// Longer waits are made of several: epoll_wait has 32 bits for milliseconds.
constexpr absl::Duration kLongestWait = absl::Hours(1);

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

Loop::Loop()
    : epoll_(Created(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      wake_(Created(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
      timer_(Created(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create")),
      last_id_(kTimer) {
  // Edge-triggered, so that neither needs to be read.
  epoll_event wake{.events = EPOLLIN | EPOLLET, .data = {.u64 = kWake}};
  Require(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &wake) == 0, "epoll_ctl");
  epoll_event timer{.events = EPOLLIN | EPOLLET, .data = {.u64 = kTimer}};
  Require(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), &timer) == 0, "epoll_ctl");
}

Loop::~Loop() = default;

WatchId Loop::Watch(int fd, uint32_t events, Callback callback, CodePlace place) {
  const uint64_t id = ++last_id_;
  Watched& watched = watched_[id];
  watched.fd = fd;
  watched.callback = std::move(callback);
  watched.place = place;
  Register(id, watched, events);
  return static_cast<WatchId>(id);
}

void Loop::Rearm(WatchId id, uint32_t events) {
  const auto watched = watched_.find(static_cast<uint64_t>(id));
  if (watched != watched_.end()) Register(watched->first, watched->second, events);
}

void Loop::Register(uint64_t id, Watched& watched, uint32_t events) {
  events |= EPOLLERR | EPOLLHUP;
  watched.armed = events;
  if (watched.registered == events) return;
  epoll_event event{.events = events, .data = {.u64 = id}};
  const int operation = watched.registered == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  Require(::epoll_ctl(epoll_.get(), operation, watched.fd, &event) == 0, "epoll_ctl: watch");
  watched.registered = events;
}

void Loop::Unwatch(WatchId id) {
  const auto watched = watched_.find(static_cast<uint64_t>(id));
  if (watched == watched_.end()) return;
  if (watched->second.registered != 0) {
    Require(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watched->second.fd, nullptr) == 0, "epoll_ctl: unwatch");
  }
  watched_.erase(watched);
}

void Loop::Close(WatchId id, UniqueFd fd) {
  fd.Reset();
  watched_.erase(static_cast<uint64_t>(id));
}

TimerId Loop::StartTimer(absl::Time when, std::function<void()> callback, CodePlace place) {
  const uint64_t id = ++last_id_;
  timers_.emplace(TimerKey(when, id), Timer{std::move(callback), place});
  timer_times_[id] = when;
  return static_cast<TimerId>(id);
}

void Loop::CancelTimer(TimerId id) {
  const auto time = timer_times_.find(static_cast<uint64_t>(id));
  if (time == timer_times_.end()) return;
  timers_.erase({time->second, time->first});
  timer_times_.erase(time);
}

// Most timers are cancelled and started anew: that the kernel's fires for one that has gone costs less than to set it
// each time.
void Loop::SetKernelTimer() {
  if (timers_.empty() || timers_.begin()->first.first >= kernel_timer_) return;
  kernel_timer_ = timers_.begin()->first.first;
  itimerspec setting = {};
  // All zeros would switch the timer off.
  setting.it_value = absl::ToTimespec(std::max(kernel_timer_, absl::UnixEpoch() + absl::Nanoseconds(1)));
  Require(::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &setting, nullptr) == 0, "timerfd_settime");
}

absl::Time Loop::Now() {
  timespec now = {};
  Require(::clock_gettime(CLOCK_BOOTTIME, &now) == 0, "clock_gettime");
  return absl::TimeFromTimespec(now);
}

void Loop::Post(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  if (!std::exchange(waiting_, false)) return;
  const uint64_t one = 1;
  Require(::write(wake_.get(), &one, sizeof one) == sizeof one, "eventfd write");
}

void Loop::AtTurnEnd(Stage stage, std::function<void()> task, CodePlace place) {
  left_.at(static_cast<size_t>(stage)).push_back({std::move(task), place});
}

void Loop::Run() {
  while (!stopped_) RunTurn();
}

bool Loop::RunTurn(absl::Time end) {
  do {
    if (!Wait(end)) return false;
    RunReady();
    // Watches whose events were taken may have ended since.
  } while (callbacks_ == 0 && Now() < end);
  return callbacks_ > 0;
}

bool Loop::Wait(absl::Time end) {
  if (next_event_ < event_count_) return true;
  while (true) {
    const bool has_work = HasWork();
    if (!has_work) SetKernelTimer();
    TakeEvents(has_work ? absl::ZeroDuration() : end - Now());
    if (has_work || event_count_ > 0 || HasWork()) return true;
    if (Now() >= end) return false;
  }
}

bool Loop::HasWork() {
  const bool has_left = std::any_of(left_.begin(), left_.end(), [](const auto& stage) { return !stage.empty(); });
  const bool has_due_timer = !timers_.empty() && timers_.begin()->first.first <= Now();
  const std::lock_guard lock(mutex_);
  const bool has_work = has_left || has_due_timer || !tasks_.empty();
  waiting_ = !has_work;
  return has_work;
}

void Loop::TakeEvents(absl::Duration at_most) {
  // Rounded up: it is not to end before its time.
  const absl::Duration wait =
      absl::Ceil(std::clamp(at_most, absl::ZeroDuration(), kLongestWait), absl::Milliseconds(1));
  const int count =
      ::epoll_wait(epoll_.get(), events_.data(), kEventsAtATime, static_cast<int>(absl::ToInt64Milliseconds(wait)));
  Require(count >= 0 || errno == EINTR, "epoll_wait");
  auto* const end = events_.data() + std::max(count, 0);
  const auto is_own = [](const epoll_event& event) { return event.data.u64 == kWake || event.data.u64 == kTimer; };
  if (std::any_of(events_.data(), end, [](const epoll_event& event) { return event.data.u64 == kTimer; })) {
    kernel_timer_ = absl::InfiniteFuture();
  }
  next_event_ = 0;
  event_count_ = static_cast<int>(std::remove_if(events_.data(), end, is_own) - events_.data());
}

void Loop::RunReady() {
  ++turns_;
  turn_ = {};
  callbacks_ = 0;
  counted_until_ = Now();
  Tasks tasks = TakeTasks();
  const std::vector<TimerKey> due = TimersDue(counted_until_);
  RunEvents();
  RunTasks(std::move(tasks));
  RunTimers(due);
  RunLeft();
  RemoveUnarmed();
  if (follower_ && callbacks_ > 0) follower_(turn_);
}

Loop::Tasks Loop::TakeTasks() {
  const std::lock_guard lock(mutex_);
  waiting_ = false;
  return std::exchange(tasks_, {});
}

std::vector<Loop::TimerKey> Loop::TimersDue(absl::Time now) const {
  std::vector<TimerKey> due;
  for (auto timer = timers_.begin(); timer != timers_.end() && timer->first.first <= now; ++timer) {
    due.push_back(timer->first);
  }
  return due;
}

void Loop::RunEvents() {
  while (next_event_ < event_count_ && turn_.took <= kTurnTime) {
    const epoll_event& event = events_.at(static_cast<size_t>(next_event_++));
    Dispatch(event.data.u64, event.events);
  }
}

void Loop::Dispatch(uint64_t id, uint32_t events) {
  const auto found = watched_.find(id);
  if (found == watched_.end()) return;
  Watched& watched = found->second;
  // Another callback may have rearmed it for other events.
  const uint32_t awaited = events & watched.armed;
  if (awaited == 0) return;
  watched.armed = 0;
  unarmed_.push_back(id);
  const CodePlace place = watched.place;
  // The callback may end the watch, and with it itself.
  Callback callback = std::move(watched.callback);
  callback(awaited);
  if (const auto still = watched_.find(id); still != watched_.end()) still->second.callback = std::move(callback);
  CountTime(place);
}

void Loop::RunTasks(Tasks tasks) {
  const absl::Duration before = turn_.took;
  auto task = tasks.begin();
  for (; task != tasks.end() && turn_.took - before <= kTurnTime; ++task) {
    (*task)();
    // What it holds may matter to what comes next.
    *task = nullptr;
    CountTime(kTaskPlace);
  }
  if (task == tasks.end()) return;
  const std::lock_guard lock(mutex_);
  tasks_.insert(tasks_.begin(), std::make_move_iterator(task), std::make_move_iterator(tasks.end()));
}

void Loop::RunTimers(const std::vector<TimerKey>& due) {
  const absl::Duration before = turn_.took;
  for (const TimerKey& key : due) {
    if (turn_.took - before > kTurnTime) return;
    // A callback may have cancelled it.
    const auto timer = timers_.extract(key);
    if (!timer) continue;
    timer_times_.erase(key.second);
    timer.mapped().callback();
    CountTime(timer.mapped().place);
  }
}

void Loop::RunLeft() {
  while (true) {
    const auto stage = std::find_if(left_.begin(), left_.end(), [](const auto& each) { return !each.empty(); });
    if (stage == left_.end()) return;
    const Left left = std::move(stage->front());
    stage->pop_front();
    left.task();
    CountTime(left.place);
  }
}

void Loop::RemoveUnarmed() {
  for (const uint64_t id : unarmed_) {
    const auto watched = watched_.find(id);
    if (watched == watched_.end() || watched->second.armed != 0 || watched->second.registered == 0) continue;
    Require(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watched->second.fd, nullptr) == 0, "epoll_ctl: unwatch");
    watched->second.registered = 0;
  }
  unarmed_.clear();
}

void Loop::CountTime(CodePlace place) {
  const absl::Time now = Now();
  const absl::Duration took = now - std::exchange(counted_until_, now);
  turn_.took += took;
  ++callbacks_;
  if (took <= turn_.longest) return;
  turn_.longest = took;
  turn_.place = place;
}

}  // namespace rdmabroker
