// SPDX-License-Identifier: Apache-2.0

#include "broker/control/acceptor.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/time/time.h"
#include "broker/log/log.h"

namespace rdmabroker {
namespace {

// Short beside what a client waits, long beside what an accept costs.
constexpr absl::Duration kRest = absl::Milliseconds(100);

}  // namespace

Acceptor::Acceptor(UniqueFd listener, const char* name, Loop& loop, std::function<void(UniqueFd)> take)
    : listener_(std::move(listener)), name_(name), loop_(loop), take_(std::move(take)) {}

Acceptor::~Acceptor() { Stop(); }

void Acceptor::Start() {
  watch_ = loop_.Watch(listener_.get(), EPOLLIN, [this](uint32_t) { AcceptSome(); });
}

void Acceptor::Resume() {
  if (!std::exchange(paused_, false) || watch_ == WatchId::kNone || rest_ != TimerId::kNone) return;
  loop_.Rearm(watch_, EPOLLIN);
}

void Acceptor::Stop() {
  // Once it has stopped, the loop may have gone.
  if (!listener_) return;
  loop_.Unwatch(std::exchange(watch_, WatchId::kNone));
  loop_.CancelTimer(std::exchange(rest_, TimerId::kNone));
  listener_.Reset();
}

void Acceptor::AcceptSome() {
  for (int i = 0; i < kAcceptsAtATime && !paused_; ++i) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd && errno == EAGAIN) break;
    if (!fd && errno != ECONNABORTED && errno != EINTR) return Rest(errno);
    if (fd) take_(std::move(fd));
  }
  if (!paused_) loop_.Rearm(watch_, EPOLLIN);
}

void Acceptor::Rest(int error) {
  if (const auto left_out = failures_.Pass(Loop::Now())) {
    LogWarning("cannot accept", {{"socket", name_}, {"cause", std::strerror(error)}, {"left_out", *left_out}});
  }
  rest_ = loop_.StartTimer(Loop::Now() + kRest, [this] {
    rest_ = TimerId::kNone;
    if (!paused_) loop_.Rearm(watch_, EPOLLIN);
  });
}

}  // namespace rdmabroker
