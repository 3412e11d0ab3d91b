// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/worker.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "tests/bench/require.h"

namespace rdmabroker::bench {
namespace {

constexpr char kDone = 1;

// Returns when the parent has gone.
void Serve(int socket, const std::function<Worker::Handler()>& make) {
  const Worker::Handler handler = make();
  Command command;
  do {
    Require(::send(socket, &kDone, sizeof kDone, MSG_NOSIGNAL) == sizeof kDone, "send");
    if (::recv(socket, &command, sizeof command, 0) != sizeof command) return;
    handler(command);
  } while (true);
}

}  // namespace

double CpuSeconds(pid_t process) {
  clockid_t clock = 0;
  timespec time = {};
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

Worker::Worker(const std::function<Handler()>& make) {
  int ends[2] = {-1, -1};
  Require(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
  std::fflush(stdout);
  process_ = ::fork();
  Require(process_ >= 0, "fork");
  if (process_ == 0) {
    ::close(ends[0]);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    Serve(ends[1], make);
    ::_exit(0);
  }
  ::close(ends[1]);
  socket_.Reset(ends[0]);
  Await();
}

void Worker::Tell(const Command& command) const {
  Require(::send(socket_.get(), &command, sizeof command, MSG_NOSIGNAL) == sizeof command, "a process has failed");
}

void Worker::Await() const {
  char done = 0;
  errno = 0;
  Require(::recv(socket_.get(), &done, sizeof done, 0) == sizeof done, "a process has failed");
}

}  // namespace rdmabroker::bench
