// SPDX-License-Identifier: Apache-2.0

#include "broker/control/client_processes.h"

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

ClientProcesses::~ClientProcesses() {
  while (!processes_.empty()) Forget(SessionId(processes_.begin()->first));
}

void ClientProcesses::Watch(SessionId session, pid_t process) {
  if (process == 0 || processes_.contains(session.value())) return;
  UniqueFd fd = OpenProcess(process);
  // For want of a descriptor the session ends with its connection or after its grace period.
  if (!fd && errno != ESRCH) return;
  Process& watched = processes_[session.value()];
  if (!fd) return AwaitLastWords(session, watched);
  watched.fd = std::move(fd);
  watched.watch = watcher_.Watch(watched.fd.get(), EPOLLIN, [this, session](uint32_t) {
    Process& ended = processes_.at(session.value());
    watcher_.Unwatch(std::exchange(ended.watch, WatchId::kNone));
    ended.fd.Reset();
    AwaitLastWords(session, ended);
  });
}

void ClientProcesses::AwaitLastWords(SessionId session, Process& process) {
  process.last_words = watcher_.StartTimer(Watcher::Now() + kLastWords, [this, session] {
    Forget(session);
    ended_(session);
  });
}

void ClientProcesses::Forget(SessionId session) {
  const auto found = processes_.find(session.value());
  if (found == processes_.end()) return;
  watcher_.Unwatch(found->second.watch);
  watcher_.CancelTimer(found->second.last_words);
  processes_.erase(found);
}

}  // namespace rdmabroker
