// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/server_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "tests/bench/require.h"
#include "tests/bench/worker.h"
#include "tests/control/network_thread.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker::bench {

ServerProcess::ServerProcess(const Serve& serve) {
  int up[2] = {-1, -1}, down[2] = {-1, -1};
  Require(::pipe2(up, O_CLOEXEC) == 0 && ::pipe2(down, O_CLOEXEC) == 0, "no pipes to a server");
  process_ = ::fork();
  Require(process_ >= 0, "no process for a server");
  if (process_ == 0) {
    ::close(down[1]);
    serve([&](const std::string& target) {
      char told = 0;
      if (::write(up[1], target.data(), target.size()) > 0) (void)!::read(down[0], &told, 1);
    });
    std::fflush(nullptr);
    ::_exit(0);
  }
  ::close(up[1]);
  ::close(down[0]);
  until_told_.Reset(down[1]);
  const UniqueFd says(up[0]);
  char target[256];
  const ssize_t length = ::read(says.get(), target, sizeof target);
  Require(length > 0, "a server did not start");
  target_.assign(target, static_cast<size_t>(length));
}

ServerProcess::~ServerProcess() {
  until_told_.Reset();
  int status = 0;
  Require(::waitpid(process_, &status, 0) == process_ && status == 0, "a server failed");
}

double ServerProcess::CpuMicroseconds() const { return CpuSeconds(process_) * 1e6; }

void ServeAsBroker(const std::string& state_directory,
                   const std::function<void(const std::string& target)>& serve_until_told) {
  Configuration configuration = TestConfiguration();
  configuration.state_directory = state_directory;
  NetworkThread network;
  const TestDaemon daemon(network, {TestDevice(1)}, configuration);
  serve_until_told(daemon.target());
}

}  // namespace rdmabroker::bench
