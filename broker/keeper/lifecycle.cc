// SPDX-License-Identifier: Apache-2.0

#include "broker/keeper/lifecycle.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "broker/runtime/exit_status.h"

namespace rdmabroker::keeper {

int ExitStatusOf(ChildEnd end) { return end.signal != 0 ? 128 + end.signal : end.status; }

Lifecycle::Lifecycle(const Settings& settings, std::function<double()> random)
    : settings_(settings), random_(std::move(random)) {}

void Lifecycle::Enter(Phase phase, absl::Time deadline) {
  phase_ = phase;
  deadline_ = deadline;
}

std::optional<Step> Lifecycle::End(int status) {
  Enter(Phase::kOver, absl::InfiniteFuture());
  return EndKeeper{status};
}

void Lifecycle::Started() {
  watchdog_interval_ = settings_.watchdog_interval;
  ready_since_ = std::nullopt;
  until_ready_.clear();
  Enter(Phase::kRunning, absl::InfiniteFuture());
}

std::optional<Step> Lifecycle::Ended(absl::Time now, ChildEnd end) {
  last_status_ = ExitStatusOf(end);
  const bool hopeless =
      last_status_ == kBadConfiguration || last_status_ == kCannotExecute || last_status_ == kNoCommand;
  if (asked_to_end_ || last_status_ == 0 || (hopeless && !one_was_ready_)) return End(last_status_);
  const bool makes_way = last_status_ == kStartAnother && ready_since_;
  if (makes_way || (ready_since_ && now - *ready_since_ >= kSteady)) back_off_.Reset();
  Enter(Phase::kWaiting, now + back_off_.Next(random_()));
  return std::nullopt;
}

std::optional<Step> Lifecycle::Abort(absl::Time now) {
  Enter(Phase::kAborting, now + settings_.stop_time);
  return SignalChild{{SIGABRT}};
}

std::optional<Step> Lifecycle::Heard(absl::Time now, const Notification& notification) {
  if (phase_ != Phase::kRunning) return std::nullopt;
  if (notification.state == Notification::State::kReady) {
    one_was_ready_ = true;
    if (!ready_since_) ready_since_ = now;
  }
  if (notification.state == Notification::State::kStopping) {
    Enter(Phase::kStopping, now + settings_.stop_time);
    return std::nullopt;
  }
  if (notification.watchdog == Notification::Watchdog::kTrigger) return Abort(now);
  if (notification.watchdog_interval) watchdog_interval_ = *notification.watchdog_interval;
  const bool alive = notification.state == Notification::State::kReady || notification.watchdog_interval ||
                     notification.watchdog == Notification::Watchdog::kPing;
  if (alive) deadline_ = now + watchdog_interval_;
  if (!ready_since_ || until_ready_.empty()) return std::nullopt;
  return SignalChild{std::exchange(until_ready_, {})};
}

std::optional<Step> Lifecycle::Signalled(absl::Time now, int signal) {
  const bool is_end = signal == SIGTERM || signal == SIGINT;
  if (is_end) {
    asked_to_end_ = true;
    if (phase_ == Phase::kWaiting) return End(last_status_);
    if (phase_ == Phase::kRunning) Enter(Phase::kStopping, now + settings_.stop_time);
    if (phase_ == Phase::kKilled) deadline_ = std::min(deadline_, now + settings_.stop_time);
  }
  if (phase_ == Phase::kWaiting || phase_ == Phase::kOver) return std::nullopt;
  if (is_end || ready_since_) return SignalChild{{signal}};
  if (std::find(until_ready_.begin(), until_ready_.end(), signal) == until_ready_.end()) {
    until_ready_.push_back(signal);
  }
  return std::nullopt;
}

std::optional<Step> Lifecycle::Expire(absl::Time now) {
  if (now < deadline_) return std::nullopt;
  switch (phase_) {
    case Phase::kWaiting:
      return StartChild();
    case Phase::kRunning:
      return Abort(now);
    case Phase::kStopping:
    case Phase::kAborting:
      Enter(Phase::kKilled, now + settings_.stop_time);
      return SignalChild{{SIGKILL}};
    case Phase::kKilled:
      break;
    case Phase::kOver:
      return std::nullopt;
  }
  // It is stuck in the kernel. Whoever was asked to end does; a second child would only meet what the first one holds.
  if (asked_to_end_) return End(128 + SIGKILL);
  deadline_ = absl::InfiniteFuture();
  return std::nullopt;
}

}  // namespace rdmabroker::keeper
