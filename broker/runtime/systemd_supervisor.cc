// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/systemd_supervisor.h"

#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace rdmabroker {
namespace {

// Of what libsystemd's functions return: a negative error, 0 where there is no NOTIFY_SOCKET, or more.
absl::Status Told(int result) {
  if (result >= 0) return absl::OkStatus();
  return absl::ErrnoToStatus(-result, "NOTIFY_SOCKET: the supervisor cannot be told; is it still there?");
}

absl::Status Tell(const std::string& state) { return Told(::sd_notify(0, state.c_str())); }

absl::Status BadVariable(const char* names, int result) {
  return absl::InvalidArgumentError(
      absl::StrCat(names, ": ", std::strerror(-result), "; start the process without them, or as systemd does"));
}

absl::Status CheckName(const std::string& name) {
  if (IsDescriptorName(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a kept descriptor's name: it has ", name.size(),
                                                 " bytes; use at most ", kMaxDescriptorName,
                                                 ", ASCII without control characters and colons"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SystemdSupervisor>> SystemdSupervisor::FromEnvironment() {
  std::unique_ptr<SystemdSupervisor> self(new SystemdSupervisor);
  self->there_ = std::getenv("NOTIFY_SOCKET") != nullptr;
  if (absl::Status taken = self->TakeDescriptors(); !taken.ok()) return taken;
  if (absl::Status taken = self->TakeWatchdog(); !taken.ok()) return taken;
  if (absl::Status taken = self->TakeRoom(); !taken.ok()) return taken;
  return self;
}

absl::Status SystemdSupervisor::TakeDescriptors() {
  char** names = nullptr;
  const int count = ::sd_listen_fds_with_names(/*unset_environment=*/1, &names);
  if (count < 0) return BadVariable("LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES", count);
  for (int i = 0; i < count; ++i) {
    kept_.push_back({names[i], UniqueFd(SD_LISTEN_FDS_START + i)});
    std::free(names[i]);
  }
  std::free(names);
  return absl::OkStatus();
}

absl::Status SystemdSupervisor::TakeWatchdog() {
  uint64_t microseconds = 0;
  const int enabled = ::sd_watchdog_enabled(/*unset_environment=*/1, &microseconds);
  if (enabled < 0) return BadVariable("WATCHDOG_PID, WATCHDOG_USEC", enabled);
  if (enabled > 0 && there_) watchdog_interval_ = absl::Microseconds(microseconds);
  return absl::OkStatus();
}

absl::Status SystemdSupervisor::TakeRoom() {
  const char* const room = std::getenv("FDSTORE");  // systemd.exec(5).
  if (room == nullptr) return absl::OkStatus();
  uint32_t most = 0;
  if (!absl::SimpleAtoi(room, &most)) return BadVariable("FDSTORE", -EINVAL);
  ::unsetenv("FDSTORE");
  most_kept_ = most;
  return absl::OkStatus();
}

absl::Status SystemdSupervisor::Ready() { return Tell("READY=1"); }

absl::Status SystemdSupervisor::Stopping() { return Tell("STOPPING=1"); }

absl::Status SystemdSupervisor::ShowStatus(const std::string& text) {
  // Behind a line's end it would be taken for another message.
  if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; })) {
    return absl::InvalidArgumentError("the status has control characters; make it one line of text");
  }
  return Tell(absl::StrCat("STATUS=", text));
}

absl::Status SystemdSupervisor::PingWatchdog() { return Tell("WATCHDOG=1"); }

absl::Status SystemdSupervisor::Store(const std::string& name, int fd) {
  if (absl::Status fine = CheckName(name); !fine.ok()) return fine;
  // Without FDPOLL=0 it would go once its other end has gone, or at once: a TCP socket that does not listen yet is one
  // without an other end.
  const std::string state = absl::StrCat("FDSTORE=1\nFDNAME=", name, "\nFDPOLL=0");
  return Told(::sd_pid_notify_with_fds(0, 0, state.c_str(), &fd, 1));
}

absl::Status SystemdSupervisor::Remove(const std::string& name) {
  if (absl::Status fine = CheckName(name); !fine.ok()) return fine;
  return Tell(absl::StrCat("FDSTOREREMOVE=1\nFDNAME=", name));
}

absl::Status SystemdSupervisor::Barrier(absl::Duration patience) {
  return Told(::sd_notify_barrier(0, static_cast<uint64_t>(absl::ToInt64Microseconds(patience))));
}

}  // namespace rdmabroker
