// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_HEARTBEAT_H_
#define BROKER_RUNTIME_HEARTBEAT_H_

#include "absl/time/time.h"
#include "broker/runtime/loop.h"
#include "broker/runtime/supervisor.h"

namespace rdmabroker {

// Tells the supervisor for as long as it lives that the loop goes on, from the loop thread, so that it is heard no more
// once that is stuck. Nothing where the supervisor does not wait for it.
class Heartbeat {
 public:
  // Half of the supervisor's interval, as sd_watchdog_enabled(3) recommends.
  static absl::Duration PeriodOf(absl::Duration watchdog_interval) { return watchdog_interval / 2; }

  // Both outlive it. On the loop thread or before that runs, as all functions of the loop.
  Heartbeat(Supervisor& supervisor, Loop& loop);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  void Beat();

  Supervisor& supervisor_;
  Loop& loop_;
  TimerId timer_ = TimerId::kNone;
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_HEARTBEAT_H_
