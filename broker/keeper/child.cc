// SPDX-License-Identifier: Apache-2.0

#include "broker/keeper/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "broker/keeper/lifecycle.h"
#include "broker/keeper/memory_bound.h"
#include "broker/log/log.h"

namespace rdmabroker::keeper {
namespace {

constexpr int kFirst = 3;  // SD_LISTEN_FDS_START of sd-daemon.h.

// sd_notify(3), sd_listen_fds(3), sd_watchdog_enabled(3) and systemd.exec(5).
constexpr absl::string_view kSupervisorsVariables[] = {
    "NOTIFY_SOCKET=", "LISTEN_PID=", "LISTEN_FDS=", "LISTEN_FDNAMES=", "WATCHDOG_PID=", "WATCHDOG_USEC=", "FDSTORE="};

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

[[noreturn]] void Fail(const char* what, int status) {
  LogError("the child cannot be started", {{"step", what}, {"cause", std::strerror(errno)}});
  ::_exit(status);
}

// Gives the descriptors the numbers from kFirst on. Whoever is in the way of another is moved first: so it takes one
// more descriptor than there are, even where all numbers but one are taken.
void Place(std::vector<int> descriptors) {
  const int end = kFirst + static_cast<int>(descriptors.size());
  for (size_t i = 0; i < descriptors.size(); ++i) {
    const int place = kFirst + static_cast<int>(i);
    if (descriptors[i] == place) {
      if (::fcntl(place, F_SETFD, 0) != 0) Fail("fcntl", EXIT_FAILURE);
      continue;
    }
    const auto in_the_way = std::find(descriptors.begin() + static_cast<ptrdiff_t>(i), descriptors.end(), place);
    if (in_the_way != descriptors.end()) {
      *in_the_way = ::fcntl(place, F_DUPFD_CLOEXEC, end);
      if (*in_the_way < 0) Fail("fcntl", EXIT_FAILURE);
    }
    if (::dup2(descriptors[i], place) < 0) Fail("dup2", EXIT_FAILURE);
    ::close(descriptors[i]);
  }
  if (::close_range(static_cast<unsigned>(end), ~0u, 0) != 0) Fail("close_range", EXIT_FAILURE);
}

void ResetSignals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);  // Fails for those that have no other.
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void LimitDescriptors(rlim_t limit) {
  rlimit both = {};
  ::getrlimit(RLIMIT_NOFILE, &both);
  both.rlim_cur = std::min(limit, both.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &both);
}

// Lowers the soft limit, and returns what both were.
template <typename Resource>
rlimit Lower(Resource resource, rlim_t most) {
  rlimit former = {};
  ::getrlimit(resource, &former);
  const rlimit both = {.rlim_cur = std::min(most, former.rlim_cur), .rlim_max = former.rlim_max};
  if (::setrlimit(resource, &both) != 0) {
    LogWarning("memory of the child not bounded", {{"cause", std::strerror(errno)}});
  }
  return former;
}

// Returns where the command cannot be executed. The C library makes threads' stacks as large as RLIMIT_STACK, and all
// of each counts.
void Execute(const std::vector<char*>& arguments, const std::vector<char*>& variables, rlim_t memory_limit) {
  const auto execute = [&] { ::execvpe(arguments[0], arguments.data(), variables.data()); };
  if (memory_limit == RLIM_INFINITY) return execute();
  Lower(RLIMIT_DATA, memory_limit);
  const rlimit stack = Lower(RLIMIT_STACK, kStackBytes);
  execute();
  // The kernel takes arguments and environment of a quarter of the stack's limit.
  if (errno != E2BIG) return;
  ::setrlimit(RLIMIT_STACK, &stack);
  execute();
}

// In the child.
[[noreturn]] void Become(const Launch& launch, std::vector<std::string> environment, const DescriptorStore& store,
                         pid_t parent) {
  // Without the second look, a parent that died before the first line would leave the child alone for ever.
  if (::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) Fail("prctl", EXIT_FAILURE);
  if (::getppid() != parent) ::_exit(EXIT_FAILURE);
  std::vector<int> descriptors;
  for (const auto& stored : store.stored()) descriptors.push_back(stored.fd.get());
  Place(std::move(descriptors));
  LimitDescriptors(launch.descriptor_limit);
  // Whoever these reach further on, they are for this process.
  environment.push_back(absl::StrCat("LISTEN_PID=", ::getpid()));
  environment.push_back(absl::StrCat("WATCHDOG_PID=", ::getpid()));
  std::vector<std::string> command = launch.command;
  const std::vector<char*> arguments = Pointers(command);
  const std::vector<char*> variables = Pointers(environment);
  ResetSignals();
  Execute(arguments, variables, launch.memory_limit);
  Fail(arguments[0], errno == ENOENT ? Lifecycle::kNoCommand : Lifecycle::kCannotExecute);
}

}  // namespace

std::vector<std::string> ChildEnvironment(const char* const* environment, const Launch& launch,
                                          const DescriptorStore& store) {
  std::vector<std::string> result;
  for (; *environment != nullptr; ++environment) {
    const auto names_it = [variable = *environment](absl::string_view name) {
      return absl::StartsWith(variable, name);
    };
    if (std::none_of(std::begin(kSupervisorsVariables), std::end(kSupervisorsVariables), names_it)) {
      result.emplace_back(*environment);
    }
  }
  result.push_back("NOTIFY_SOCKET=" + launch.notify_address);
  if (launch.watchdog_interval < absl::InfiniteDuration()) {
    result.push_back(absl::StrCat("WATCHDOG_USEC=", absl::ToInt64Microseconds(launch.watchdog_interval)));
  }
  result.push_back(absl::StrCat("FDSTORE=", store.most()));
  if (!store.stored().empty()) {
    result.push_back(absl::StrCat("LISTEN_FDS=", store.stored().size()));
    result.push_back("LISTEN_FDNAMES=" + store.Names());
  }
  return result;
}

absl::StatusOr<pid_t> SpawnChild(const Launch& launch, const DescriptorStore& store) {
  std::vector<std::string> environment = ChildEnvironment(::environ, launch, store);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "fork");
  if (pid == 0) Become(launch, std::move(environment), store, parent);
  return pid;
}

}  // namespace rdmabroker::keeper
