// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SURVIVE_KEPT_BROKER_H_
#define TESTS_SURVIVE_KEPT_BROKER_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/integration/running_broker.h"

namespace rdmabroker {

// rdma-brokerd, or a test's broker in its place, under rdma-broker-keeper, which starts it anew when it has died. The
// process that RunningBroker knows is the keeper.
class KeptBroker : public RunningBroker {
 public:
  // `daemon` is the command that the keeper runs, to which the daemon's options are added.
  // `log`: the file to which the keeper and the daemon write theirs, instead of the test's.
  explicit KeptBroker(const std::string& settings = "", const std::vector<std::string>& daemon = {kDaemon},
                      const std::string& log = "");

  // The daemon's process, which may not serve yet. -1 where the keeper starts none, and the test has failed.
  pid_t Daemon() override;
  // SIGKILL; returns when nothing of it is left, and the next one has been started.
  void KillDaemon();
  // SIGKILL to one that Daemon has returned, without waiting.
  static void Kill(pid_t daemon);
  // Likewise, and `meanwhile` is done when there is none.
  void KillDaemonAnd(const std::function<void()>& meanwhile);
  // Another daemon than that.
  void AwaitAnother(pid_t former);
  // Returns when the keeper has done all that the daemon, which serves, had told it before.
  void AwaitKeeper();
  // What the keeper and the daemons have said, where they have a file for it, from which the next two read.
  std::string Log() const;
  // Whether the daemon's process serves, as it says.
  bool IsReady();
  // For how long the keeper has waited, for the last time, before it started a daemon, as it says: no part of what a
  // recovery takes.
  absl::Duration LastWait() const;
  // From now on Objects leaves out sessions that have nothing and whose client is away, such as one whose opening the
  // dead daemon has not answered: nobody can return to it, and it ends with its grace period.
  void LeaveOutStrays() { leaves_out_strays_ = true; }
  std::vector<std::string> Objects() override;

  // A setting: a session whose opening the dead daemon has not answered ends soon. Nobody can return to it.
  static constexpr char kShortGrace[] = "timeouts.session_grace_ms = 3000\n";
  // Likewise in a guest, where the kernel's devices are. There the daemon has taken nine seconds to start while the
  // machine was busy, and clients must not tire of it; and it is half of a test's patience.
  static constexpr char kGraceInGuests[] = "timeouts.session_grace_ms = 30000\n";
  // So many deaths in a row, and the keeper takes its time to start the next daemon: it starts these at once, or
  // nearly.
  static constexpr int kPromptRestarts = 2;

 private:
  const std::string log_;
  int marks_ = 0;  // In the configuration.
  bool leaves_out_strays_ = false;
};

}  // namespace rdmabroker

#endif  // TESTS_SURVIVE_KEPT_BROKER_H_
