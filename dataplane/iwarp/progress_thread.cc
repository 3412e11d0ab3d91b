// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/progress_thread.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "dataplane/become_callback_thread.h"
#include "dataplane/start_thread.h"

namespace rdmabroker::iwarp {

ProgressThread& ProgressThread::Get() {
  static ProgressThread* const kThread = new ProgressThread;
  return *kThread;
}

bool ProgressThread::Start() {
  const std::lock_guard lock(mutex_);
  if (started_) return true;
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  event_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  timer_ = UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = 0;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, event_.get(), &event) != 0) return false;
  // Told of once: nobody has to read it.
  event.events = EPOLLIN | EPOLLET;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), &event) != 0) return false;
  std::thread thread = StartThread([this] { Run(); });
  if (!thread.joinable()) return false;
  thread.detach();
  return started_ = true;
}

void ProgressThread::Call(PendingCall* call) {
  const std::lock_guard lock(mutex_);
  calls_.Add(call);
  Signal();
}

void ProgressThread::LetGo(PendingCall* call) {
  const std::lock_guard lock(mutex_);
  calls_.LetGo(call);
  Signal();
}

uint64_t ProgressThread::Watch(DrivenQueuePair* queue_pair, int fd, uint32_t events) {
  const std::lock_guard lock(mutex_);
  if (const size_t most = polled_.size() + sources_.size() + 1; most > polled_.capacity()) polled_.reserve(2 * most);
  Source& source = sources_[next_handle_];
  const uint64_t handle = next_handle_++;
  epoll_event event = {};
  event.events = events;
  event.data.u64 = handle;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    sources_.erase(handle);
    return 0;
  }
  source.queue_pair = ObjectReference<DrivenQueuePair>(queue_pair);
  source.fd = fd;
  source.events = events;
  source.polls_seen = queue_pair->poll_count();
  return handle;
}

void ProgressThread::Unwatch(uint64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto found = sources_.find(handle);
  if (found == sources_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.fd, nullptr);
  calls_.LetGo(found->second.queue_pair.Release()->let_go());
  sources_.erase(found);
  Signal();
}

void ProgressThread::SetEvents(uint64_t handle, uint32_t events) {
  const std::lock_guard lock(mutex_);
  const auto found = sources_.find(handle);
  if (found == sources_.end()) return;
  found->second.events = events;
  if (!found->second.polled) UpdateEpoll(handle, found->second);
}

void ProgressThread::Resume(uint64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto found = sources_.find(handle);
  if (found == sources_.end() || !found->second.polled) return;
  found->second.polled = false;
  UpdateEpoll(handle, found->second);
}

void ProgressThread::SetTimer(Timer* timer, std::optional<Clock::time_point> time) {
  const std::lock_guard lock(mutex_);
  timers_.Set(timer, time);
  if (time && timers_.first() == time) StartTimer();
}

// Clock is CLOCK_MONOTONIC. One that goes off too early for what is left finds nothing due and starts again.
void ProgressThread::StartTimer() {
  started_for_ = timers_.first();
  const auto at = std::max<int64_t>(1, std::chrono::nanoseconds(started_for_->time_since_epoch()).count());
  constexpr int64_t kSecond = 1'000'000'000;
  itimerspec setting = {};
  setting.it_value = {.tv_sec = at / kSecond, .tv_nsec = at % kSecond};
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &setting, nullptr);
}

void ProgressThread::Signal() {
  if (std::exchange(signalled_, true)) return;
  ::eventfd_write(event_.get(), 1);
}

void ProgressThread::UpdateEpoll(uint64_t handle, const Source& source) {
  epoll_event event = {};
  if (!source.polled) event.events = source.events;
  event.data.u64 = handle;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, source.fd, &event);
}

void ProgressThread::Run() {
  BecomeCallbackThread();
  std::array<epoll_event, 64> events;
  while (true) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), WaitTimeout());
    for (int i = 0; i < count; ++i) {
      if (events[static_cast<size_t>(i)].data.u64 != 0) HandleSocket(events[static_cast<size_t>(i)].data.u64);
    }
    HandleTimers();
    HandlePolled();
    RunCalls();
  }
}

// Milliseconds until something is due that no descriptor tells; -1 for never.
int ProgressThread::WaitTimeout() {
  const std::lock_guard lock(mutex_);
  if (calls_.size() > 0) return 0;
  if (polled_.empty()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(polls_due_ - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

void ProgressThread::HandleSocket(uint64_t handle) {
  ObjectReference<DrivenQueuePair> queue_pair;
  bool left_to_pollers = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = sources_.find(handle);
    if (found == sources_.end()) return;
    Source& source = found->second;
    queue_pair = ObjectReference<DrivenQueuePair>(source.queue_pair.get());
    const uint64_t polls = queue_pair->poll_count();
    const bool polled = polls != std::exchange(source.polls_seen, polls) && !queue_pair->notification_wanted();
    // A socket that is left alone already still tells of a reset, and would go on telling.
    left_to_pollers = polled && !source.polled;
    if (left_to_pollers) {
      source.polled = true;
      if (polled_.empty()) polls_due_ = Clock::now() + kPollGrace;
      // Resume takes nothing out: that would be a search for each of a queue's sockets.
      if (!std::exchange(source.listed, true)) polled_.push_back(handle);
      UpdateEpoll(handle, source);
    }
  }
  left_to_pollers ? queue_pair->OnLeftToPollers() : queue_pair->OnReady();
}

void ProgressThread::HandleTimers() {
  const Clock::time_point now = Clock::now();
  while (true) {
    Timers::Due due;
    {
      const std::lock_guard lock(mutex_);
      due = timers_.Take(now);
      if (!due) {
        // The one that it was set for may have been taken back.
        if (timers_.first() && timers_.first() != started_for_) StartTimer();
        return;
      }
    }
    due.Run();
  }
}

// Takes back the sockets whose polls have stopped. Not before they had the time to go on: a thread that shares its core
// with this one cannot poll meanwhile.
void ProgressThread::HandlePolled() {
  const std::lock_guard lock(mutex_);
  if (polled_.empty() || Clock::now() < polls_due_) return;
  polls_due_ = Clock::now() + kPollGrace;
  std::erase_if(polled_, [this](uint64_t handle) {
    const auto found = sources_.find(handle);
    if (found == sources_.end()) return true;
    Source& source = found->second;
    if (source.polled) {
      const uint64_t polls = source.queue_pair->poll_count();
      if (polls != std::exchange(source.polls_seen, polls)) return false;
      source.polled = false;
      UpdateEpoll(handle, source);
    }
    source.listed = false;
    return true;
  });
}

// Only those that wait now: one that asks for another must not keep the sockets waiting.
void ProgressThread::RunCalls() {
  std::unique_lock lock(mutex_);
  eventfd_t ignored;
  if (std::exchange(signalled_, false)) ::eventfd_read(event_.get(), &ignored);
  for (size_t left = calls_.size(); left > 0; --left) {
    const PendingCalls::Taken call = calls_.Take();
    lock.unlock();
    call.Run();
    lock.lock();
  }
}

}  // namespace rdmabroker::iwarp
