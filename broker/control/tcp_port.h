// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_TCP_PORT_H_
#define BROKER_CONTROL_TCP_PORT_H_

#include <grpcpp/server_builder.h>

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "broker/control/acceptor.h"
#include "broker/runtime/warning_limit.h"
#include "broker/runtime/watcher.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// Makes the socket, listening. INVALID_ARGUMENT where `address` is no IP:PORT, else what the system says,
// ALREADY_EXISTS where the port is in use; both name tcp.address.
absl::StatusOr<UniqueFd> ListenOnTcp(const std::string& address);
// IP:PORT of such a socket, with the port that it has in fact.
std::string AddressOf(const UniqueFd& listener);

// Accepts connections to the TCP port and gives them to gRPC, which does the TLS handshake. Loop thread only.
//
// gRPC would accept by itself, but it shares its ports with whoever asks, has no bound, and lets go of no connection
// whose certificate has expired or whose authority is not believed any more.
class TcpPort {
 public:
  // People and their tools have a few each; a node has a handful of them.
  static constexpr size_t kMostConnections = 256;
  // A certificate is looked at when its connection is made: so long it may be used beyond its end. Who watches a
  // stream connects again.
  static constexpr absl::Duration kLongestConnection = absl::Hours(1);

  // `give` is gRPC's, of the server that has the services.
  TcpPort(UniqueFd listener, std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> give, Watcher& watcher);
  ~TcpPort();
  TcpPort(const TcpPort&) = delete;
  TcpPort& operator=(const TcpPort&) = delete;

  // Before, and after StopAccepting, there are no new connections.
  void StartAccepting() { acceptor_.Start(); }
  void StopAccepting() { acceptor_.Stop(); }
  // All that there are: whom one lets in is another matter now.
  void EndConnections();

  const std::string& address() const { return address_; }

 private:
  struct Connection {
    UniqueFd duplicate;  // Of gRPC's descriptor: to see the connection's end, and to end it.
    WatchId watch = WatchId::kNone;
    TimerId end = TimerId::kNone;
  };

  void Take(UniqueFd fd);
  void Forget(int duplicate);
  void End(int duplicate);

  const std::string address_;
  const std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> give_;
  Watcher& watcher_;
  std::unordered_map<int, Connection> connections_;  // By the duplicate.
  WarningLimit too_many_;
  Acceptor acceptor_;  // Last: it calls the others.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_TCP_PORT_H_
