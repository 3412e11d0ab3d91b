// SPDX-License-Identifier: Apache-2.0

// A program for a supervisor to run, which does what its standard input says, an order a line, and answers each on its
// standard output: what SupervisedScript has, and what only a process can do:
//
//   arguments                 its own
//   variable NAME             of the environment in which it was started; LISTEN_PID and WATCHDOG_PID: mine or not
//   descriptors               the numbers of those with which it was started
//   signals                   the masks of those that were blocked and ignored when it was started
//   limit                     on the number of open files
//   memory-limit              RLIMIT_DATA
//   exit STATUS, raise SIGNAL how it ends
//   die-storing NAME CONTENTS stores a file and dies in the same moment
//   block                     from now on the signals that a keeper passes on wait for:
//   signal                    the number of the next one
//   ignore SIGNAL
//   hang                      does nothing more
//   exhaust BYTES             takes memory until there is no more, or ends well with so much
//   message COUNT TEXT        sends the text, whose lines end at "|", with so many descriptors, and a barrier behind
//   it;
//                             whether these are open or closed then
//   foreign COUNT TEXT        likewise, but another process sends the text
//   shut-stored NAME NAME     stores two, the first as one that goes with its other end, and shuts the other ends
//   orphan                    the number of a process whose parents are gone, and which has ended since
//   exists NUMBER             whether there is such a process, be it one that has ended

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "broker/runtime/systemd_supervisor.h"
#include "dataplane/unique_fd.h"
#include "tests/keeper/supervised_script.h"

namespace rdmabroker {
namespace {

// 32 and 33, which glibc keeps for its threads and does not let anybody touch (signal(7)).
constexpr uint64_t kReservedSignals = uint64_t{3} << 31;
constexpr uint64_t kPatienceMicroseconds = 30'000'000;

int NumberIn(absl::string_view text) {
  int number = 0;
  if (!absl::SimpleAtoi(text, &number)) std::abort();
  return number;
}

// What this process was when it began.
struct Beginning {
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::vector<int> descriptors;
  std::string signals;
};

std::vector<int> OpenDescriptors() {
  std::vector<int> numbers;
  DIR* const folder = ::opendir("/proc/self/fd");
  for (const dirent* entry = ::readdir(folder); entry != nullptr; entry = ::readdir(folder)) {
    int number = -1;
    if (absl::SimpleAtoi(entry->d_name, &number) && number != ::dirfd(folder)) numbers.push_back(number);
  }
  ::closedir(folder);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::string SignalMasks() {
  std::ifstream status("/proc/self/status");
  std::vector<std::string> masks;
  for (std::string line; std::getline(status, line);) {
    uint64_t mask = 0;
    if (line.rfind("SigBlk", 0) != 0 && line.rfind("SigIgn", 0) != 0) continue;
    if (!absl::SimpleHexAtoi(line.substr(8), &mask)) std::abort();
    masks.push_back(absl::StrCat(absl::Hex(mask & ~kReservedSignals)));
  }
  return absl::StrJoin(masks, " ");
}

std::string Variable(const Beginning& beginning, const std::string& name) {
  for (const std::string& variable : beginning.environment) {
    if (variable.rfind(name + "=", 0) != 0) continue;
    std::string value = variable.substr(name.size() + 1);
    if (name != "LISTEN_PID" && name != "WATCHDOG_PID") return value;
    return value == std::to_string(::getpid()) ? "mine" : "not mine";
  }
  return "none";
}

sigset_t PassedOn() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) ::sigaddset(&signals, signal);
  return signals;
}

std::string NextSignal() {
  const sigset_t signals = PassedOn();
  const timespec patience = {.tv_sec = kPatienceMicroseconds / 1'000'000};
  return std::to_string(::sigtimedwait(&signals, nullptr, &patience));
}

bool IsClosed(int reader) {
  pollfd end = {reader, POLLIN, 0};
  return ::poll(&end, 1, 0) == 1 && (end.revents & POLLHUP) != 0;
}

std::string Message(bool foreign, int count, const std::string& text) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const std::vector<int> descriptors(static_cast<size_t>(count), writer.get());
  const std::string state = absl::StrReplaceAll(text, {{"|", "\n"}});
  const auto send = [&] {
    return ::sd_pid_notify_with_fds(0, 0, state.c_str(), descriptors.data(), static_cast<unsigned>(count));
  };
  if (foreign) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(send() > 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    int status = -1;
    if (::waitpid(pid, &status, 0) != pid || status != 0) return "cannot send";
  } else if (send() <= 0) {
    return "cannot send";
  }
  writer.Reset();
  if (::sd_notify_barrier(0, kPatienceMicroseconds) <= 0) return "no barrier";
  return IsClosed(reader.get()) ? "closed" : "open";
}

std::string ShutStored(const std::string& polled, const std::string& unpolled) {
  for (const auto& [name, suffix] : {std::pair(polled, ""), std::pair(unpolled, "\nFDPOLL=0")}) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    const UniqueFd stored(ends[0]);
    const UniqueFd other(ends[1]);
    const std::string state = absl::StrCat("FDSTORE=1\nFDNAME=", name, suffix);
    if (::sd_pid_notify_with_fds(0, 0, state.c_str(), &ends[0], 1) <= 0) return "cannot send";
  }
  return ::sd_notify_barrier(0, kPatienceMicroseconds) > 0 ? "done" : "no barrier";
}

// Nobody catches std::bad_alloc.
[[noreturn]] void Exhaust(size_t most) {
  constexpr size_t kPortion = 1 << 20;
  std::vector<std::string> portions;
  while (portions.size() * kPortion < most) portions.emplace_back(kPortion, 'x');
  ::_exit(EXIT_SUCCESS);
}

std::string LimitOn(decltype(RLIMIT_DATA) resource) {
  rlimit limit = {};
  return ::getrlimit(resource, &limit) == 0 ? std::to_string(limit.rlim_cur) : "cannot";
}

std::string Orphan() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  const pid_t middle = ::fork();
  if (middle == 0) {
    const pid_t parent = ::getpid();
    const pid_t orphan = ::fork();
    if (orphan != 0) ::_exit(EXIT_SUCCESS);
    while (::getppid() == parent) ::poll(nullptr, 0, 1);
    const pid_t self = ::getpid();
    ::_exit(::write(ends[1], &self, sizeof self) == sizeof self ? EXIT_SUCCESS : EXIT_FAILURE);
  }
  ::close(ends[1]);
  const UniqueFd reader(ends[0]);
  ::waitpid(middle, nullptr, 0);
  pid_t orphan = -1;
  return ::read(reader.get(), &orphan, sizeof orphan) == sizeof orphan ? std::to_string(orphan) : "lost";
}

// What the process does besides the script; empty: there is no such order.
std::string Obey(const Beginning& beginning, SupervisedScript& script, absl::string_view order) {
  const std::vector<std::string> words = absl::StrSplit(order, ' ');
  const std::string& verb = words.front();
  const std::string& object = words.back();
  if (verb == "arguments") return absl::StrJoin(beginning.arguments, " ");
  if (verb == "variable") return Variable(beginning, object);
  if (verb == "descriptors") return absl::StrJoin(beginning.descriptors, " ");
  if (verb == "signals") return beginning.signals;
  if (verb == "signal") return NextSignal();
  if (verb == "orphan") return Orphan();
  if (verb == "exists") return ::kill(NumberIn(object), 0) == 0 ? "yes" : "no";
  if (verb == "exit") ::_exit(NumberIn(object));
  if (verb == "raise") ::raise(NumberIn(object));
  while (verb == "hang") ::pause();
  if (verb == "ignore") return ::signal(NumberIn(object), SIG_IGN) == SIG_ERR ? "cannot" : "ignored";
  if (verb == "shut-stored") return ShutStored(words[1], words[2]);
  if (verb == "message" || verb == "foreign") {
    const std::vector<std::string> parts = absl::StrSplit(order, absl::MaxSplits(' ', 2));
    return Message(verb == "foreign", NumberIn(parts[1]), parts[2]);
  }
  if (verb == "block") {
    const sigset_t signals = PassedOn();
    return ::sigprocmask(SIG_BLOCK, &signals, nullptr) == 0 ? "blocked" : "cannot";
  }
  if (verb == "limit") return LimitOn(RLIMIT_NOFILE);
  if (verb == "memory-limit") return LimitOn(RLIMIT_DATA);
  if (verb == "exhaust") Exhaust(static_cast<size_t>(NumberIn(object)));
  if (verb == "die-storing") {
    script.Obey(absl::StrCat("store ", words[1], " ", words[2]));
    ::raise(SIGKILL);
  }
  return "";
}

// Byte by byte: what follows the line may be for the next process.
bool ReadLine(std::string* line) {
  line->clear();
  for (char byte = 0; ::read(STDIN_FILENO, &byte, 1) == 1;) {
    if (byte == '\n') return true;
    line->push_back(byte);
  }
  return false;
}

void Say(const std::string& text) {
  const std::string line = absl::StrCat("child: ", text, "\n");
  if (::write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) ::_exit(EXIT_FAILURE);
}

int Main(int argc, char** argv) {
  Beginning beginning = {.arguments = {argv + 1, argv + argc}, .descriptors = OpenDescriptors()};
  for (char** variable = environ; *variable != nullptr; ++variable) beginning.environment.emplace_back(*variable);
  beginning.signals = SignalMasks();
  const auto supervisor = SystemdSupervisor::FromEnvironment();
  if (!supervisor.ok()) {
    Say(supervisor.status().ToString());
    return EXIT_FAILURE;
  }
  SupervisedScript script(**supervisor);
  Say(absl::StrCat("started ", ::getpid()));
  for (std::string line; ReadLine(&line);) {
    std::string answer = Obey(beginning, script, line);
    if (answer.empty()) answer = script.Obey(line);
    Say(answer);
  }
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) { return rdmabroker::Main(argc, argv); }
