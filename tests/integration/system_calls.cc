// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/system_calls.h"

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rdmabroker {
namespace {

// Of this thread's own: the children of the test's other threads are not to be waited for here.
constexpr int kTracees = __WALL | __WNOTHREAD;
constexpr int kSystemCall = SIGTRAP | 0x80;

// Those of a broker that serves.
const std::map<uint64_t, const char*> kNames = {
    {SYS_accept4, "accept4"},
    {SYS_bind, "bind"},
    {SYS_clock_gettime, "clock_gettime"},
    {SYS_close, "close"},
    {SYS_connect, "connect"},
    {SYS_dup, "dup"},
    {SYS_epoll_ctl, "epoll_ctl"},
    {SYS_epoll_wait, "epoll_wait"},
    {SYS_fcntl, "fcntl"},
    {SYS_futex, "futex"},
    {SYS_getrandom, "getrandom"},
    {SYS_getpeername, "getpeername"},
    {SYS_getsockname, "getsockname"},
    {SYS_getsockopt, "getsockopt"},
    {SYS_ioctl, "ioctl"},
    {SYS_listen, "listen"},
    {SYS_madvise, "madvise"},
    {SYS_mmap, "mmap"},
    {SYS_munmap, "munmap"},
    {SYS_openat, "openat"},
    {SYS_pidfd_open, "pidfd_open"},
    {SYS_poll, "poll"},
    {SYS_pread64, "pread64"},
    {SYS_pwrite64, "pwrite64"},
    {SYS_read, "read"},
    {SYS_recvfrom, "recvfrom"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_sendto, "sendto"},
    {SYS_setsockopt, "setsockopt"},
    {SYS_shutdown, "shutdown"},
    {SYS_socket, "socket"},
    {SYS_timerfd_settime, "timerfd_settime"},
    {SYS_write, "write"},
};

std::set<pid_t> ThreadsOf(pid_t process) {
  std::set<pid_t> threads;
  for (const auto& entry : std::filesystem::directory_iterator(absl::StrCat("/proc/", process, "/task"))) {
    threads.insert(std::atoi(entry.path().filename().c_str()));
  }
  return threads;
}

}  // namespace

SystemCalls::SystemCalls(pid_t process) : process_(process), tracer_([this] { Trace(); }) {
  EXPECT_TRUE(traced_.get_future().get()) << "process " << process << " cannot be traced";
}

SystemCalls::~SystemCalls() {
  over_ = true;
  // A stop, for which the tracing thread waits; the process ignores the signal.
  ::kill(process_, SIGWINCH);
  tracer_.join();
}

SystemCalls::Counts SystemCalls::Read() {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void SystemCalls::Trace() {
  const std::set<pid_t> threads = ThreadsOf(process_);
  traced_.set_value(std::all_of(threads.begin(), threads.end(), [this](pid_t thread) { return Seize(thread); }));
  int status = 0;
  while (!over_) {
    const pid_t thread = ::waitpid(-1, &status, kTracees);
    if (thread < 0) return;  // The process has ended.
    HandleStop(thread, status);
  }
  LetGo();
}

bool SystemCalls::Seize(pid_t thread) {
  if (::ptrace(PTRACE_SEIZE, thread, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE) != 0) return false;
  threads_.insert(thread);
  return ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) == 0;
}

void SystemCalls::HandleStop(pid_t thread, int status) {
  if (!WIFSTOPPED(status)) {
    threads_.erase(thread);
    return;
  }
  threads_.insert(thread);
  if (WSTOPSIG(status) != kSystemCall) {
    // What is no signal is an event of the tracing.
    return GoOn(thread, (status >> 16) == 0 ? WSTOPSIG(status) : 0);
  }
  __ptrace_syscall_info info = {};
  ::ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info);
  if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
    const std::lock_guard lock(mutex_);
    ++counts_[info.entry.nr];
  }
  GoOn(thread, 0);
}

void SystemCalls::GoOn(pid_t thread, int signal) { ::ptrace(PTRACE_SYSCALL, thread, nullptr, signal); }

// Only a thread that has stopped can be let go.
void SystemCalls::LetGo() {
  for (const pid_t thread : threads_) ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
  while (!threads_.empty()) {
    int status = 0;
    const pid_t thread = ::waitpid(-1, &status, kTracees);
    if (thread < 0) return;
    const bool is_signal = WIFSTOPPED(status) && (status >> 16) == 0 && WSTOPSIG(status) != kSystemCall;
    ::ptrace(PTRACE_DETACH, thread, nullptr, is_signal ? WSTOPSIG(status) : 0);
    threads_.erase(thread);
  }
}

std::string Described(const SystemCalls::Counts& counts) {
  std::vector<std::pair<uint64_t, int>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return absl::StrJoin(sorted, ", ", [](std::string* out, const std::pair<uint64_t, int>& call) {
    const auto name = kNames.find(call.first);
    absl::StrAppend(out, name == kNames.end() ? absl::StrCat("call ", call.first) : name->second, " ", call.second);
  });
}

}  // namespace rdmabroker
