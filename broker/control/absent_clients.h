// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_ABSENT_CLIENTS_H_
#define BROKER_CONTROL_ABSENT_CLIENTS_H_

#include <sys/types.h>

#include <functional>
#include <unordered_map>

#include "broker/core/ids.h"
#include "broker/runtime/watcher.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// Tells of sessions whose clients cannot return: as long as they are away, their processes are watched. A number that
// another process has by now is as good as its own; then the grace period ends the session. Loop thread only.
class AbsentClients {
 public:
  // `gone` is called once for a session whose process is not there, never inside Await. The session is present then.
  AbsentClients(Watcher& watcher, std::function<void(SessionId)> gone) : watcher_(watcher), gone_(std::move(gone)) {}
  ~AbsentClients();
  AbsentClients(const AbsentClients&) = delete;
  AbsentClients& operator=(const AbsentClients&) = delete;

  // `process`: its client's; 0, which cannot be seen from here, does nothing.
  void Await(SessionId session, pid_t process);
  // The client is there, or the session has ended.
  void Forget(SessionId session);

 private:
  struct Process {
    UniqueFd fd;
    WatchId watch = WatchId::kNone;
    TimerId timer = TimerId::kNone;  // Instead of the watch, where it was not there at once.
  };

  void Tell(SessionId session);

  Watcher& watcher_;
  const std::function<void(SessionId)> gone_;
  std::unordered_map<uint64_t, Process> processes_;  // By SessionId.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_ABSENT_CLIENTS_H_
