// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/heartbeat.h"

namespace rdmabroker {

Heartbeat::Heartbeat(Supervisor& supervisor, Loop& loop) : supervisor_(supervisor), loop_(loop) {
  if (supervisor_.watchdog_interval() < absl::InfiniteDuration()) Beat();
}

Heartbeat::~Heartbeat() { loop_.CancelTimer(timer_); }

void Heartbeat::Beat() {
  // A supervisor that cannot hear it does what it does after silence; there is nothing to do about that here.
  supervisor_.PingWatchdog().IgnoreError();
  timer_ = loop_.StartTimer(Loop::Now() + PeriodOf(supervisor_.watchdog_interval()), [this] { Beat(); });
}

}  // namespace rdmabroker
