// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_INTEGRATION_RUNNING_BROKER_H_
#define TESTS_INTEGRATION_RUNNING_BROKER_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/control/child_process.h"
#include "tests/control/temporary_folder.h"

namespace grpc {
class Channel;
}

namespace rdmabroker {

// rdma-brokerd as a process, which serves over user-space iWARP from its construction on, with its sockets in a folder
// of its own. It may be killed and started again.
class RunningBroker {
 public:
  static constexpr char kDaemon[] = "broker/rdma-brokerd";
  static constexpr char kNoAnswer[] = "no answer";

  // `settings` is TOML; the folder and the group of the sockets need not be in it. `command` is what takes the daemon's
  // options: the daemon, or one that runs it, such as nsenter(1).
  explicit RunningBroker(const std::string& settings = "", std::vector<std::string> command = {kDaemon});
  virtual ~RunningBroker() = default;

  // Where it does not serve soon, the test has failed.
  void Start();
  void Kill();
  // Asks it to end, and waits: its exit status.
  std::optional<int> Stop();
  // Of a command that ends at the end of its input: ends that, and waits. As ChildProcess::Finish.
  int Finish();

  pid_t pid() const { return process_->pid(); }
  // That serves, which may be a child of the command's.
  virtual pid_t Daemon() { return pid(); }
  const std::string& folder() const { return folder_.path(); }
  std::string control_socket() const { return folder() + "/control.sock"; }
  // What the broker itself says that it holds: sessions, endpoints, listeners, shared endpoints, reservations and
  // connectors, each as text; or kNoAnswer alone.
  virtual std::vector<std::string> Objects();
  // To the control socket, until the broker ends.
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  // Of a command that answers each line of its input with one that begins so: the rest of it.
  static constexpr char kAnswer[] = "answer: ";
  virtual std::string Ask(const std::string& line);

 private:
  TemporaryFolder folder_;
  const std::vector<std::string> command_;
  std::unique_ptr<ChildProcess> process_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace rdmabroker

#endif  // TESTS_INTEGRATION_RUNNING_BROKER_H_
