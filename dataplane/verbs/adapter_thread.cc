// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/adapter_thread.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "dataplane/become_callback_thread.h"
#include "dataplane/start_thread.h"
#include "dataplane/unique_fd.h"
#include "dataplane/verbs/verbs_status.h"

namespace rdmabroker::verbs {

struct AdapterThread::State {
  UniqueFd epoll;
  UniqueFd event;
  std::mutex mutex;  // Guards what follows; innermost of all locks.
  PendingCalls calls;
  bool signalled = false;
  bool stopping = false;

  // With the lock held.
  void Signal() {
    if (!std::exchange(signalled, true)) ::eventfd_write(event.get(), 1);
  }
};

namespace {

bool Watch(int epoll, int fd) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool WatchWithoutBlocking(int epoll, int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 && Watch(epoll, fd);
}

// Of the object that an event is about; null where it is about the device or one of its ports.
const void* CookieOf(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return event.element.cq->cq_context;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return event.element.srq->srq_context;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      return event.element.qp->qp_context;
    default:
      return nullptr;
  }
}

}  // namespace

std::unique_ptr<AdapterThread> AdapterThread::Start(ibv_context* context) {
  auto state = std::make_shared<State>();
  state->epoll = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  state->event = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Channel channel(ibv_create_comp_channel(context));
  if (channel == nullptr) return nullptr;
  std::unique_ptr<AdapterThread> thread(new AdapterThread(context, std::move(channel), state));
  const int epoll = state->epoll.get();
  if (!Watch(epoll, state->event.get()) || !WatchWithoutBlocking(epoll, thread->channel()->fd) ||
      !WatchWithoutBlocking(epoll, context->async_fd)) {
    return nullptr;
  }
  thread->thread_ = StartThread([self = thread.get(), state] { self->Run(*state); });
  return thread->thread_.joinable() ? std::move(thread) : nullptr;
}

AdapterThread::AdapterThread(ibv_context* context, Channel channel, std::shared_ptr<State> state)
    : context_(context), channel_(std::move(channel)), state_(std::move(state)) {}

AdapterThread::~AdapterThread() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->Signal();
  }
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else if (thread_.joinable()) {
    thread_.join();
  }
}

void AdapterThread::Call(PendingCall* call) {
  const std::lock_guard lock(state_->mutex);
  state_->calls.Add(call);
  state_->Signal();
}

void* AdapterThread::Register(EventTarget* target, Timer* timer) {
  const std::lock_guard lock(mutex_);
  targets_[next_cookie_] = {.target = target, .timer = timer};
  return reinterpret_cast<void*>(next_cookie_++);
}

void AdapterThread::Unregister(void* cookie) {
  const std::lock_guard lock(mutex_);
  const auto found = targets_.find(reinterpret_cast<uintptr_t>(cookie));
  if (found == targets_.end()) return;
  if (found->second.timer != nullptr) timers_.Set(found->second.timer, std::nullopt);
  targets_.erase(found);
}

void AdapterThread::SetTimer(const void* cookie, Clock::time_point time) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = targets_.find(reinterpret_cast<uintptr_t>(cookie));
    if (found == targets_.end()) return;
    timers_.Set(found->second.timer, time);
    if (timers_.first() < time) return;
  }
  // The thread itself looks before it waits.
  if (thread_.get_id() == std::this_thread::get_id()) return;
  const std::lock_guard lock(state_->mutex);
  state_->Signal();
}

// An object is registered as long as its consumer's own reference is there, so that another one may be taken.
AdapterThread::Held AdapterThread::Find(const void* cookie) {
  const std::lock_guard lock(mutex_);
  return Hold(targets_.find(reinterpret_cast<uintptr_t>(cookie)));
}

AdapterThread::Held AdapterThread::Next(uintptr_t cookie) {
  const std::lock_guard lock(mutex_);
  return Hold(targets_.upper_bound(cookie));
}

AdapterThread::Held AdapterThread::Hold(Targets::iterator registered) {
  if (registered == targets_.end()) return {};
  EventTarget* const target = registered->second.target;
  return {registered->first, target, ObjectReference<DataObject>(target->data_object())};
}

// An object is let go of when the next one is held: the last object of a device that is released takes this one with
// it.
template <typename Function>
void AdapterThread::ForEach(const Function& function) {
  uintptr_t end = 0;
  {
    const std::lock_guard lock(mutex_);
    end = next_cookie_;
  }
  Held held = Next(0);
  while (held.target != nullptr && held.cookie < end) {
    function(*held.target);
    held = Next(held.cookie);
  }
}

void AdapterThread::ReapAll() {
  ForEach([](EventTarget& target) { target.Reap(); });
}

void AdapterThread::Forget(const SharedReceiveQueue* srq) {
  ForEach([srq](EventTarget& target) { target.Forget(srq); });
}

void AdapterThread::TellOfFailure(const EventTarget& failed) {
  ForEach([&failed](EventTarget& target) { target.OnFailure(failed); });
}

// Whatever runs here may destroy this object, but not `state`.
void AdapterThread::Run(State& state) {
  BecomeCallbackThread();
  const int completions = channel_->fd;
  std::array<epoll_event, 8> events;
  while (true) {
    const int count = ::epoll_wait(state.epoll.get(), events.data(), static_cast<int>(events.size()), WaitTimeout());
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == state.event.get()) continue;
      const bool good = fd == completions ? HandleCompletionEvents() : HandleAsyncEvents();
      {
        const std::lock_guard lock(state.mutex);
        if (state.stopping) return;
      }
      // The device is gone, and would say so for ever.
      if (!good) ::epoll_ctl(state.epoll.get(), EPOLL_CTL_DEL, fd, nullptr);
    }
    HandleTimers();
    std::unique_lock lock(state.mutex);
    if (state.stopping) return;
    eventfd_t ignored;
    if (std::exchange(state.signalled, false)) ::eventfd_read(state.event.get(), &ignored);
    for (size_t due = state.calls.size(); due > 0; --due) {
      const PendingCalls::Taken call = state.calls.Take();
      lock.unlock();
      call.Run();
      lock.lock();
      if (state.stopping) return;
    }
  }
}

// Acknowledges before it does anything else: destroying a queue waits for its events' acknowledgements. After that the
// queue may be gone, which the cookie stands.
bool AdapterThread::HandleCompletionEvents() {
  const auto state = state_;
  ibv_cq* queue = nullptr;
  void* cookie = nullptr;
  while (FromMinusOne(ibv_get_cq_event(channel(), &queue, &cookie)) == NdkStatus::kSuccess) {
    ibv_ack_cq_events(queue, 1);
    if (const Held held = Find(cookie); held.target != nullptr) held.target->OnCompletionEvent();
    const std::lock_guard lock(state->mutex);
    if (state->stopping) return true;
  }
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

bool AdapterThread::HandleAsyncEvents() {
  const auto state = state_;
  ibv_async_event event = {};
  while (FromMinusOne(ibv_get_async_event(context_, &event)) == NdkStatus::kSuccess) {
    const void* const cookie = CookieOf(event);
    const ibv_event_type type = event.event_type;
    ibv_ack_async_event(&event);
    if (cookie != nullptr) {
      Tell(cookie, type);
    } else if (type == IBV_EVENT_DEVICE_FATAL) {
      ForEach([type](EventTarget& target) { target.OnAsyncEvent(type); });
    }
    const std::lock_guard lock(state->mutex);
    if (state->stopping) return true;
  }
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

// Milliseconds until the first timer; -1 for never.
int AdapterThread::WaitTimeout() {
  const std::lock_guard lock(mutex_);
  const auto first = timers_.first();
  if (!first) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*first - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

void AdapterThread::HandleTimers() {
  const auto state = state_;
  const Clock::time_point now = Clock::now();
  while (true) {
    {
      Timers::Due due;
      {
        const std::lock_guard lock(mutex_);
        due = timers_.Take(now);
      }
      if (!due) return;
      due.Run();
    }
    const std::lock_guard lock(state->mutex);
    if (state->stopping) return;
  }
}

void AdapterThread::Tell(const void* cookie, ibv_event_type type) {
  if (const Held held = Find(cookie); held.target != nullptr) held.target->OnAsyncEvent(type);
}

}  // namespace rdmabroker::verbs
