// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_SYSTEMD_SUPERVISOR_H_
#define BROKER_RUNTIME_SYSTEMD_SUPERVISOR_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "broker/runtime/notifier.h"
#include "broker/runtime/supervisor.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// The supervisor that listens on NOTIFY_SOCKET. What it keeps comes by libsystemd.
class SystemdSupervisor final : public Supervisor {
 public:
  // Takes LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES, WATCHDOG_PID and WATCHDOG_USEC, and FDSTORE out of the
  // environment; those that are for another process count for nothing. NOTIFY_SOCKET stays. Once, while the process has
  // one thread. INVALID_ARGUMENT where these variables make no sense.
  static absl::StatusOr<std::unique_ptr<SystemdSupervisor>> FromEnvironment();

  bool IsThere() const override { return notifier_ != nullptr; }
  absl::Duration watchdog_interval() const override { return watchdog_interval_; }
  size_t most_kept() const override { return most_kept_; }
  absl::Status Ready() override;
  absl::Status Stopping() override;
  absl::Status ShowStatus(const std::string& text) override;
  absl::Status PingWatchdog() override;
  absl::Status Store(const std::string& name, int fd) override;
  absl::Status Remove(const std::string& name) override;
  absl::StatusOr<UniqueFd> StartBarrier() override;
  std::vector<KeptDescriptor> TakeKept() override { return std::exchange(kept_, {}); }

 private:
  struct Pipe {
    UniqueFd reader, writer;
  };

  SystemdSupervisor() = default;

  absl::Status Tell(const std::string& state, int fd = -1);
  absl::Status TakeDescriptors();
  absl::Status TakeWatchdog();
  absl::Status TakeRoom();
  // Does nothing if the pipe is open.
  absl::Status OpenBarrierPipe();

  std::unique_ptr<Notifier> notifier_;  // Null where nobody supervises this process.
  Pipe barrier_pipe_;  // Open before it is needed, so that a process at its limit of open files can have a barrier.
  absl::Duration watchdog_interval_ = absl::InfiniteDuration();
  size_t most_kept_ = kMostKept;
  std::vector<KeptDescriptor> kept_;
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_SYSTEMD_SUPERVISOR_H_
