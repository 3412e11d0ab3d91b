// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_BENCH_SERVER_PROCESS_H_
#define TESTS_BENCH_SERVER_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <string>

#include "dataplane/unique_fd.h"

namespace rdmabroker::bench {

// A server in a process of its own, since gRPC's completion queues hinder each other in one. Made before this process
// has used gRPC. `serve` says what its target is, and returns when it is told to end.
class ServerProcess {
 public:
  using Serve = std::function<void(const std::function<void(const std::string& target)>& serve_until_told)>;

  explicit ServerProcess(const Serve& serve);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  const std::string& target() const { return target_; }
  // That it has had of the processors.
  double CpuMicroseconds() const;

 private:
  pid_t process_ = -1;
  UniqueFd until_told_;  // Closed, it tells.
  std::string target_;
};

// For a ServerProcess. `state_directory`: where its core is stored; "" for nowhere.
void ServeAsBroker(const std::string& state_directory,
                   const std::function<void(const std::string& target)>& serve_until_told);

}  // namespace rdmabroker::bench

#endif  // TESTS_BENCH_SERVER_PROCESS_H_
