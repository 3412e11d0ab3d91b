// SPDX-License-Identifier: Apache-2.0

#include "broker/keeper/keeper.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <sysexits.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "broker/keeper/memory_bound.h"
#include "broker/keeper/notification.h"
#include "broker/log/log.h"
#include "broker/runtime/exit_status.h"

namespace rdmabroker::keeper {
namespace {

// Messages, signals and children taken in one turn, so that none of these keeps the others from their turn.
constexpr int kAtATime = 64;
// All that a child has sent is there when it has ended; more than the kernel queues (net.unix.max_dgram_qlen: 10 unless
// an administrator raised it, 512 where systemd has) would be others' messages, of those who go on sending.
constexpr int kMostQueued = 1024;

constexpr int kPassedOn[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};

// The clock of a watchdog, which does not run while the machine sleeps and nobody can send anything.
absl::Time Now() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::TimeFromTimespec(now);
}

// Returns what it was.
rlim_t RaiseDescriptorLimit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return RLIM_INFINITY;
  const rlim_t former = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    LogWarning("cannot raise the limit on open files", {{"cause", std::strerror(errno)}});
  }
  return former;
}

// What this process is told by the kernel comes by a descriptor from now on. As the first process of a pid namespace it
// would not get signals otherwise that it neither blocks nor handles.
UniqueFd BlockSignals() {
  // Whoever ignores SIGPIPE keeps the children although those who read the log are gone. An ignored SIGCHLD, which a
  // parent may have left, would throw the children's exit statuses away.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGCHLD);
  for (const int signal : kPassedOn) ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  return UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

// 0 for no limit.
rlim_t Logged(rlim_t limit) { return limit == RLIM_INFINITY ? 0 : limit; }

ChildEnd EndOf(const siginfo_t& info) {
  return info.si_code == CLD_EXITED ? ChildEnd{.status = info.si_status} : ChildEnd{.signal = info.si_status};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Keeper>> Keeper::Make(Settings settings) {
  UniqueFd signals = BlockSignals();
  if (!signals) return absl::ErrnoToStatus(errno, "signalfd");
  auto socket = NotifySocket::Open();
  if (!socket.ok()) return socket.status();
  return std::unique_ptr<Keeper>(
      new Keeper(std::move(settings), *std::move(socket), std::move(signals), RaiseDescriptorLimit()));
}

Keeper::Keeper(Settings settings, NotifySocket notify_socket, UniqueFd signals, rlim_t descriptor_limit)
    : memory_(settings.memory),
      launch_{.command = std::move(settings.command),
              .notify_address = notify_socket.address(),
              .watchdog_interval = settings.watchdog_interval,
              .descriptor_limit = descriptor_limit},
      notify_socket_(std::move(notify_socket)),
      signals_(std::move(signals)),
      store_(settings.most_descriptors),
      random_(std::random_device()()),
      lifecycle_({.watchdog_interval = settings.watchdog_interval, .stop_time = settings.stop_time},
                 [this] { return std::uniform_real_distribution<>(0, 1)(random_); }) {}

int Keeper::Run() {
  while (!exit_status_) Turn();
  return *exit_status_;
}

void Keeper::Turn() {
  // Looked at even before the first wait: its first deadline, which starts the child, has passed.
  Wait();
  // Before the child's end and the watchdog's deadline, as what was said before them counts.
  notify_socket_.Drain(kAtATime, [this](Datagram datagram) { Take(std::move(datagram)); });
  TakeSignals();
  if (children_may_wait_) Reap();
  Do(lifecycle_.Expire(Now()));
}

void Keeper::Wait() {
  std::vector<pollfd> watched = {{signals_.get(), POLLIN, 0}, {notify_socket_.fd(), POLLIN, 0}};
  for (const auto& stored : store_.stored()) {
    if (stored.polled) watched.push_back({stored.fd.get(), 0, 0});  // A hangup and an error are told of in any case.
  }
  const absl::Duration left = children_may_wait_ ? absl::ZeroDuration() : lifecycle_.deadline() - Now();
  const timespec timeout = absl::ToTimespec(std::max(left, absl::ZeroDuration()));
  if (::ppoll(watched.data(), watched.size(), left < absl::InfiniteDuration() ? &timeout : nullptr, nullptr) <= 0)
    return;
  for (auto each = watched.begin() + 2; each != watched.end(); ++each) {
    if (each->revents == 0) continue;
    LogInfo("descriptor given up, as its other end is gone");
    store_.RemoveBroken(each->fd);
  }
}

void Keeper::Take(Datagram datagram) {
  if (datagram.sender != child_) {
    if (const auto left_out = strangers_.Pass(Now())) {
      LogWarning("message ignored, as it is not the child's", {{"pid", datagram.sender}, {"left_out", *left_out}});
    }
    return;
  }
  const auto notification = datagram.whole ? ReadNotification(datagram.text, datagram.descriptors.size())
                                           : absl::InvalidArgumentError("it or its descriptors were cut off");
  const std::string problem = !notification.ok()                 ? std::string(notification.status().message())
                              : notification->objections.empty() ? std::string()
                                                                 : notification->objections.front();
  if (!problem.empty()) {
    if (const auto left_out = malformed_.Pass(Now())) {
      LogWarning("message ignored, or a part of it", {{"pid", child_}, {"cause", problem}, {"left_out", *left_out}});
    }
  }
  if (notification.ok()) Obey(*notification, std::move(datagram.descriptors));
}

void Keeper::Obey(const Notification& notification, std::vector<UniqueFd> descriptors) {
  if (notification.state == Notification::State::kReady && !std::exchange(child_is_ready_, true)) {
    LogInfo("child ready", {{"pid", child_}});
  }
  if (notification.status) ShowStatus(*notification.status);
  if (notification.descriptors == Notification::Descriptors::kRemove) store_.Remove(notification.name);
  if (notification.descriptors == Notification::Descriptors::kStore) Store(notification, std::move(descriptors));
  if (notification.watchdog == Notification::Watchdog::kTrigger) {
    LogWarning("child asks for its end", {{"pid", child_}});
  }
  Do(lifecycle_.Heard(Now(), notification));
}

void Keeper::Store(const Notification& notification, std::vector<UniqueFd> descriptors) {
  for (UniqueFd& descriptor : descriptors) {
    const auto outcome = store_.Add(notification.name, std::move(descriptor), notification.polled);
    if (outcome != DescriptorStore::Outcome::kNoRoom) continue;
    if (const auto left_out = no_room_.Pass(Now())) {
      LogWarning("descriptor not kept, as there are too many",
                 {{"kept", store_.stored().size()}, {"left_out", *left_out}});
    }
  }
}

void Keeper::ShowStatus(const std::string& status) {
  if (status == status_) return;
  status_ = status;
  if (const auto left_out = statuses_.Pass(Now())) {
    LogInfo("child says", {{"pid", child_}, {"said", status}, {"left_out", *left_out}});
  }
}

void Keeper::TakeSignals() {
  signalfd_siginfo info = {};
  for (int i = 0; i < kAtATime && ::read(signals_.get(), &info, sizeof info) == sizeof info; ++i) {
    if (info.ssi_signo == SIGCHLD) {
      children_may_wait_ = true;
    } else {
      Do(lifecycle_.Signalled(Now(), static_cast<int>(info.ssi_signo)));
    }
  }
}

void Keeper::Reap() {
  for (int i = 0; i < kAtATime; ++i) {
    siginfo_t info = {};
    children_may_wait_ = ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
    if (!children_may_wait_) return;
    // While its number is still its own.
    if (info.si_pid == child_) {
      notify_socket_.Drain(kMostQueued, [this](Datagram datagram) { Take(std::move(datagram)); });
    }
    ::waitpid(info.si_pid, nullptr, 0);
    if (info.si_pid == child_) TakeEnd(info);
  }
}

void Keeper::TakeEnd(const siginfo_t& info) {
  const ChildEnd end = EndOf(info);
  const LogField fields[] = {{"pid", child_}, {"status", end.status}, {"signal", end.signal}};
  const bool makes_way = child_is_ready_ && end == ChildEnd{.status = kStartAnother};
  if (end == ChildEnd() || makes_way) {
    LogInfo("child ended", fields);
  } else {
    LogWarning("child ended", fields);
  }
  child_ = -1;
  const absl::Time now = Now();
  Do(lifecycle_.Ended(now, end));
  if (exit_status_) return;
  LogInfo("child is started again",
          {{"in_ms", absl::ToInt64Milliseconds(lifecycle_.deadline() - now)}, {"kept", store_.stored().size()}});
}

void Keeper::Do(const std::optional<Step>& step) {
  if (!step) return;
  if (const auto* child = std::get_if<SignalChild>(&*step)) {
    for (const int signal : child->signals) {
      LogInfo("child gets a signal", {{"pid", child_}, {"signal", signal}});
      if (child_ > 0) ::kill(child_, signal);  // Less than that would be a number of processes.
    }
  } else if (const auto* end = std::get_if<EndKeeper>(&*step)) {
    exit_status_ = end->status;
  } else {
    Start();
  }
}

void Keeper::Start() {
  child_is_ready_ = false;
  status_.clear();
  // Anew each time, as a pod's limit may be changed while it runs.
  const MemoryBound memory = memory_ ? MemoryBound{.bytes = *memory_} : BoundByCgroup(ReadTextFile);
  launch_.memory_limit = memory.bytes;
  const auto child = SpawnChild(launch_, store_);
  if (!child.ok()) {
    LogError("the child cannot be started", {{"cause", child.status().message()}});
    return Do(lifecycle_.Ended(Now(), {.status = EX_OSERR}));
  }
  child_ = *child;
  LogInfo("child started", {{"pid", child_},
                            {"command", launch_.command.front()},
                            {"kept", store_.stored().size()},
                            {"memory_bytes", Logged(memory.bytes)},
                            {"cgroup_bytes", Logged(memory.cgroup_bytes)}});
  lifecycle_.Started();
}

}  // namespace rdmabroker::keeper
