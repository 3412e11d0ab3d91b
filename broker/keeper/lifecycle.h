// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_KEEPER_LIFECYCLE_H_
#define BROKER_KEEPER_LIFECYCLE_H_

#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "broker/keeper/back_off.h"
#include "broker/keeper/notification.h"

namespace rdmabroker::keeper {

// How a process ended: the signal that ended it, or 0 and its exit status.
struct ChildEnd {
  int signal = 0;
  int status = 0;

  bool operator==(const ChildEnd&) const = default;
};

// What is to be done next.
struct StartChild {
  bool operator==(const StartChild&) const = default;
};
struct SignalChild {
  std::vector<int> signals;  // In this order.

  bool operator==(const SignalChild&) const = default;
};
struct EndKeeper {
  int status = 0;

  bool operator==(const EndKeeper&) const = default;
};
using Step = std::variant<StartChild, SignalChild, EndKeeper>;

// When the child is started, signalled and given up. Decides only: it has no clock, randomness, input or output. Each
// event is told with its time, which does not go back, and says what to do at once, if anything; Expire is due at
// deadline(). One thread.
//
// There is no bound on how long a child takes to be ready, as one that takes over what its predecessor left may have
// much to do; without READY=1 or WATCHDOG=1 the watchdog does not begin.
class Lifecycle {
 public:
  struct Settings {
    // Longer than this a child that is ready may not be silent; infinite: for ever.
    absl::Duration watchdog_interval = absl::InfiniteDuration();
    // From the request to end, or SIGABRT, to SIGKILL, and from there until it is given up.
    absl::Duration stop_time;
  };
  // A child that was ready for so long before it died has not failed to start: the next is started at once. One that
  // dies each time after so long is started no more often than one that never comes up.
  static constexpr absl::Duration kSteady = BackOff::kLongest;
  // Exit statuses that another try mends no more than kBadConfiguration: the shells' for a command that cannot be
  // executed or is not there.
  static constexpr int kCannotExecute = 126;
  static constexpr int kNoCommand = 127;

  // `random` returns numbers from 0 to 1.
  Lifecycle(const Settings& settings, std::function<double()> random);

  absl::Time deadline() const { return deadline_; }
  std::optional<Step> Expire(absl::Time now);
  // StartChild is done.
  void Started();
  // The child has, or could not be started.
  std::optional<Step> Ended(absl::Time now, ChildEnd end);
  // Of the child: its states and its watchdog.
  std::optional<Step> Heard(absl::Time now, const Notification& notification);
  // The keeper got SIGTERM or SIGINT, which ask it to end, or another signal that is the child's. A child that is not
  // ready may die of such a one, so it waits for READY=1, and goes with a child that ends before: the next one finds
  // all as it is by then. So does SIGUSR2, though the child is a new process: it may have begun before what the restart
  // is for was there, such as a newer program.
  std::optional<Step> Signalled(absl::Time now, int signal);

 private:
  // Each waits for one thing until the deadline; the last one for nothing any more.
  enum class Phase { kWaiting, kRunning, kStopping, kAborting, kKilled, kOver };

  std::optional<Step> Abort(absl::Time now);
  std::optional<Step> End(int status);
  void Enter(Phase phase, absl::Time deadline);

  const Settings settings_;
  const std::function<double()> random_;
  Phase phase_ = Phase::kWaiting;
  absl::Time deadline_ = absl::InfinitePast();
  absl::Duration watchdog_interval_;  // The child's own, where it has set one.
  std::optional<absl::Time> ready_since_;
  std::vector<int> until_ready_;  // The child's signals that wait, each once, as the kernel has them wait.
  bool asked_to_end_ = false;
  bool one_was_ready_ = false;
  int last_status_ = 0;
  BackOff back_off_;
};

// What a keeper returns for a child that ended so: as shells have it, 128 and the signal.
int ExitStatusOf(ChildEnd end);

}  // namespace rdmabroker::keeper

#endif  // BROKER_KEEPER_LIFECYCLE_H_
