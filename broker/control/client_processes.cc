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
  loop_.CancelTimer(report_);
  while (!processes_.empty()) Forget(SessionId(processes_.begin()->first));
}

void ClientProcesses::Watch(SessionId session, pid_t process) {
  if (process == 0) return;
  if (const auto known = processes_.find(session.value()); known != processes_.end()) {
    known->second.listened_to = true;
    return;
  }
  UniqueFd fd = OpenProcess(process);
  // For want of a descriptor the session ends with its connection or after its grace period.
  if (!fd && errno != ESRCH) return;
  Process& watched = processes_[session.value()];
  if (!fd) return AwaitLastWords(session, watched);
  watched.fd = std::move(fd);
  watched.watch = loop_.Watch(watched.fd.get(), EPOLLIN, [this, session](uint32_t) {
    Process& ended = processes_.at(session.value());
    loop_.Unwatch(std::exchange(ended.watch, WatchId::kNone));
    ended.fd.Reset();
    AwaitLastWords(session, ended);
  });
}

void ClientProcesses::AwaitLastWords(SessionId session, Process& process) {
  const absl::Duration wait = process.listened_to ? kLastWords : absl::ZeroDuration();
  process.last_words = loop_.StartTimer(Loop::Now() + wait, [this, session] {
    processes_.at(session.value()).last_words = TimerId::kNone;
    due_.push_back(session);
    if (report_ == TimerId::kNone) ReportSoon();
  });
}

void ClientProcesses::ReportSoon() {
  report_ = loop_.StartTimer(Loop::Now(), [this] {
    report_ = TimerId::kNone;
    ReportSome();
  });
}

void ClientProcesses::ReportSome() {
  for (size_t left = kInATurn; left > 0 && !due_.empty();) {
    const SessionId session = due_.front();
    due_.pop_front();
    if (!processes_.contains(session.value())) continue;
    Forget(session);
    ended_(session);
    --left;
  }
  if (!due_.empty()) ReportSoon();
}

void ClientProcesses::StopListening(SessionId session) {
  const auto found = processes_.find(session.value());
  if (found == processes_.end()) return;
  Process& process = found->second;
  process.listened_to = false;
  if (process.last_words == TimerId::kNone) return;
  loop_.CancelTimer(process.last_words);
  AwaitLastWords(session, process);
}

void ClientProcesses::Forget(SessionId session) {
  const auto found = processes_.find(session.value());
  if (found == processes_.end()) return;
  loop_.Unwatch(found->second.watch);
  loop_.CancelTimer(found->second.last_words);
  processes_.erase(found);
}

}  // namespace rdmabroker
