// SPDX-License-Identifier: Apache-2.0

#include "broker/control/absent_clients.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace rdmabroker {
namespace {

// pidfd_open(2); the header of glibc 2.36 that declares it is for C only.
UniqueFd OpenProcess(pid_t process) { return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, process, 0))); }

}  // namespace

AbsentClients::~AbsentClients() {
  while (!processes_.empty()) Forget(SessionId(processes_.begin()->first));
}

void AbsentClients::Await(SessionId session, pid_t process) {
  if (process == 0) return;
  Forget(session);
  UniqueFd fd = OpenProcess(process);
  // For want of a descriptor it is left to the grace period.
  if (!fd && errno != ESRCH) return;
  Process& watched = processes_[session.value()];
  if (!fd) {
    watched.timer = watcher_.StartTimer(Watcher::Now(), [this, session] { Tell(session); });
    return;
  }
  watched.fd = std::move(fd);
  watched.watch = watcher_.Watch(watched.fd.get(), EPOLLIN, [this, session](uint32_t) { Tell(session); });
}

void AbsentClients::Forget(SessionId session) {
  const auto found = processes_.find(session.value());
  if (found == processes_.end()) return;
  watcher_.Unwatch(found->second.watch);
  watcher_.CancelTimer(found->second.timer);
  processes_.erase(found);
}

void AbsentClients::Tell(SessionId session) {
  Forget(session);
  gone_(session);
}

}  // namespace rdmabroker
