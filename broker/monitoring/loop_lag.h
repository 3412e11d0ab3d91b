// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_MONITORING_LOOP_LAG_H_
#define BROKER_MONITORING_LOOP_LAG_H_

#include "absl/time/time.h"
#include "broker/monitoring/metrics.h"
#include "broker/runtime/loop.h"

namespace rdmabroker {

// Sets a timer each second for as long as it lives, and counts how late the loop thread comes to it. Loop thread, or
// before that runs.
class LoopLag {
 public:
  static constexpr absl::Duration kPeriod = absl::Seconds(1);

  // Both outlive it.
  LoopLag(Metrics& metrics, Loop& loop) : metrics_(metrics), loop_(loop) { Wait(); }
  ~LoopLag() { loop_.CancelTimer(timer_); }
  LoopLag(const LoopLag&) = delete;
  LoopLag& operator=(const LoopLag&) = delete;

 private:
  void Wait() {
    const absl::Time due = Loop::Now() + kPeriod;
    timer_ = loop_.StartTimer(due, [this, due] {
      metrics_.CountLag(Loop::Now() - due);
      Wait();
    });
  }

  Metrics& metrics_;
  Loop& loop_;
  TimerId timer_ = TimerId::kNone;
};

}  // namespace rdmabroker

#endif  // BROKER_MONITORING_LOOP_LAG_H_
