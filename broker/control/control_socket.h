// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_CONTROL_SOCKET_H_
#define BROKER_CONTROL_CONTROL_SOCKET_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <unordered_map>

#include "absl/time/time.h"
#include "broker/control/acceptor.h"
#include "broker/control/caller.h"
#include "broker/monitoring/metrics.h"
#include "broker/runtime/warning_limit.h"
#include "broker/runtime/watcher.h"
#include "dataplane/unique_fd.h"

namespace grpc {
class Server;
}

namespace rdmabroker {

// Accepts connections to the control socket, asks the kernel who they are, and gives them to gRPC, which itself never
// asks. Loop thread only.
class ControlSocket {
 public:
  struct Settings {
    Administrators administrators;
    // Connections at a time: every client has one, people's tools come and go.
    uint32_t connections_per_uid = 2048;
    // gRPC lets a connection that says nothing stay for ever.
    absl::Duration silence_timeout = absl::Seconds(10);
  };

  ControlSocket(UniqueFd listener, grpc::Server& server, Watcher& watcher, Metrics& metrics, const Settings& settings);
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  // From now on these hold, for connections that there are, too: but who has more than is allowed keeps them.
  void Set(const Settings& settings);

  // Before, and after StopAccepting, there are no new connections.
  void StartAccepting() { acceptor_.Start(); }
  void StopAccepting() { acceptor_.Stop(); }

  // Who makes the call, by ServerContext::peer(). Ask once, at the call's start: gRPC may use the descriptor's number
  // for another connection after the call has ended. Null for a connection that is not of this socket.
  std::shared_ptr<const Caller> CallerOfCall(const std::string& peer);

 private:
  struct Connection {
    std::shared_ptr<const Caller> caller;
    UniqueFd duplicate;  // Of gRPC's descriptor: to see the connection's end, and to end it.
    WatchId watch = WatchId::kNone;
    TimerId silence = TimerId::kNone;
  };

  void Take(UniqueFd fd);
  void Forget(int fd);

  grpc::Server& server_;
  Watcher& watcher_;
  Metrics& metrics_;
  Settings settings_;
  const int first_fd_;
  const int last_fd_;
  int next_fd_;
  std::unordered_map<int, Connection> connections_;  // By gRPC's descriptor.
  std::unordered_map<uid_t, uint32_t> connections_of_uid_;
  WarningLimit too_many_;
  WarningLimit no_descriptor_;
  Acceptor acceptor_;  // Last: it calls the others.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_CONTROL_SOCKET_H_
