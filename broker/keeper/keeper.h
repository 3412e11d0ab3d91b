// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_KEEPER_KEEPER_H_
#define BROKER_KEEPER_KEEPER_H_

#include <signal.h>
#include <sys/resource.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "broker/keeper/child.h"
#include "broker/keeper/descriptor_store.h"
#include "broker/keeper/lifecycle.h"
#include "broker/keeper/notify_socket.h"
#include "broker/runtime/warning_limit.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker::keeper {

// Runs a command as its child, starts it anew when it dies, and keeps descriptors for it: what systemd is to a service
// of Type=notify. One thread: a fork would copy the locks that others hold. It waits in one place only, for as long as
// it does not read it holds up the child that speaks to it.
class Keeper {
 public:
  struct Settings {
    std::vector<std::string> command;  // Not empty.
    absl::Duration watchdog_interval = absl::InfiniteDuration();
    absl::Duration stop_time;
    size_t most_descriptors = 0;
    // The child's bound, RLIM_INFINITY for none; nothing: what the cgroup says at each start (BoundByCgroup).
    std::optional<rlim_t> memory;
  };

  // Takes the process over: its signals, its children, orphans among them, and its limit on open files. Whoever has
  // threads must not. What the system lacks, where it fails.
  static absl::StatusOr<std::unique_ptr<Keeper>> Make(Settings settings);
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // Until the child has ended for good; returns the exit status that is due.
  int Run();

 private:
  Keeper(Settings settings, NotifySocket notify_socket, UniqueFd signals, rlim_t descriptor_limit);

  // Waits until something happens, and deals with it.
  void Turn();
  void Wait();
  void Take(Datagram datagram);
  void Obey(const Notification& notification, std::vector<UniqueFd> descriptors);
  void Store(const Notification& notification, std::vector<UniqueFd> descriptors);
  void ShowStatus(const std::string& status);
  void TakeSignals();
  void Reap();
  void Do(const std::optional<Step>& step);
  void Start();
  void TakeEnd(const siginfo_t& info);

  const std::optional<rlim_t> memory_;
  Launch launch_;
  NotifySocket notify_socket_;
  const UniqueFd signals_;  // signalfd.
  DescriptorStore store_;
  std::minstd_rand random_;
  Lifecycle lifecycle_;
  pid_t child_ = -1;  // Not reaped yet, so that the number is nobody else's.
  bool child_is_ready_ = false;
  bool children_may_wait_ = false;  // More have ended than were reaped in the last turn.
  std::optional<int> exit_status_;
  std::string status_;
  WarningLimit strangers_;
  WarningLimit malformed_;
  WarningLimit no_room_;
  WarningLimit statuses_;
};

}  // namespace rdmabroker::keeper

#endif  // BROKER_KEEPER_KEEPER_H_
