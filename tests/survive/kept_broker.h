// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SURVIVE_KEPT_BROKER_H_
#define TESTS_SURVIVE_KEPT_BROKER_H_

#include <sys/types.h>

#include <string>

#include "tests/integration/running_broker.h"

namespace rdmabroker {

// rdma-brokerd under rdma-broker-keeper, which starts it anew when it has died. The process that RunningBroker knows is
// the keeper.
class KeptBroker : public RunningBroker {
 public:
  // `log`: the file to which the keeper and the daemon write theirs, instead of the test's.
  explicit KeptBroker(const std::string& settings = "", const std::string& log = "");

  // The daemon's process, which may not serve yet. -1 where the keeper starts none, and the test has failed.
  pid_t Daemon();
  // SIGKILL; returns when nothing of it is left, and the next one has been started.
  void KillDaemon();
  // Another daemon than that.
  void AwaitAnother(pid_t former);
};

}  // namespace rdmabroker

#endif  // TESTS_SURVIVE_KEPT_BROKER_H_
