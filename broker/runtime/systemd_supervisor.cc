// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/systemd_supervisor.h"

#include <fcntl.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace rdmabroker {
namespace {

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
  if (const char* const path = std::getenv("NOTIFY_SOCKET"); path != nullptr) {
    auto notifier = Notifier::Open(path);
    if (!notifier.ok()) return notifier.status();
    self->notifier_ = *std::move(notifier);
    if (absl::Status opened = self->OpenBarrierPipe(); !opened.ok()) return opened;
  }
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
  if (enabled > 0 && IsThere()) watchdog_interval_ = absl::Microseconds(microseconds);
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

absl::Status SystemdSupervisor::Tell(const std::string& state, int fd) {
  return IsThere() ? notifier_->Send(state, fd) : absl::OkStatus();
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
  return Tell(state, fd);
}

absl::Status SystemdSupervisor::Remove(const std::string& name) {
  if (absl::Status fine = CheckName(name); !fine.ok()) return fine;
  return Tell(absl::StrCat("FDSTOREREMOVE=1\nFDNAME=", name));
}

absl::StatusOr<UniqueFd> SystemdSupervisor::StartBarrier() {
  if (!IsThere()) return UniqueFd();
  if (absl::Status opened = OpenBarrierPipe(); !opened.ok()) return opened;
  Pipe pipe = std::exchange(barrier_pipe_, {});
  // The supervisor closes the descriptor once it has done all that it was told before.
  const absl::Status told = Tell("BARRIER=1", pipe.writer.get());
  pipe.writer.Reset();
  // For the next barrier, which tries again if this fails.
  (void)OpenBarrierPipe();
  if (!told.ok()) return told;
  return std::move(pipe.reader);
}

absl::Status SystemdSupervisor::OpenBarrierPipe() {
  if (barrier_pipe_.reader) return absl::OkStatus();
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "NOTIFY_SOCKET: a barrier needs a pipe");
  barrier_pipe_ = {UniqueFd(ends[0]), UniqueFd(ends[1])};
  return absl::OkStatus();
}

}  // namespace rdmabroker
