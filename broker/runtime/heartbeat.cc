// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/heartbeat.h"

namespace rdmabroker {

Heartbeat::Heartbeat(Supervisor& supervisor, Watcher& watcher) : supervisor_(supervisor), watcher_(watcher) {
  if (supervisor_.watchdog_interval() < absl::InfiniteDuration()) Beat();
}

Heartbeat::~Heartbeat() { watcher_.CancelTimer(timer_); }

void Heartbeat::Beat() {
  // A supervisor that cannot hear it does what it does after silence; there is nothing to do about that here.
  supervisor_.PingWatchdog().IgnoreError();
  timer_ = watcher_.StartTimer(Watcher::Now() + PeriodOf(supervisor_.watchdog_interval()), [this] { Beat(); });
}

}  // namespace rdmabroker
