// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_TCP_PORT_H_
#define BROKER_CONTROL_TCP_PORT_H_

#include <grpcpp/server_builder.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "broker/control/acceptor.h"
#include "broker/control/presented_chain.h"
#include "broker/runtime/warning_limit.h"
#include "broker/runtime/watcher.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// Whose connection a call has come over, by grpc::ServerContext::peer(). Nothing for what is no IP address.
std::optional<SocketAddress> TcpPeerOf(const std::string& peer);

struct TcpBounds {
  // People and their tools have a few each; a node has a handful of them.
  size_t connections = 256;
  // Of one address; of IPv6's, of one network of 64 bits, since each host has a whole one.
  size_t of_host = 32;
  // For a connection's handshake and its first call that is admitted. It counts as long where it ends before without
  // one: a handshake costs the loop thread a millisecond, whoever the other end is, so that at most so many connections
  // in so long a time bound what strangers cost.
  absl::Duration patience = absl::Seconds(10);
  // For who watches a stream, too, who connects again.
  absl::Duration longest = absl::Hours(1);
};

// Accepts connections to the TCP port and gives them to gRPC, which does the TLS handshake. Loop thread only.
//
// gRPC would accept by itself, but it shares its ports with whoever asks, has no bound, and lets go of no connection
// whose certificate has expired or whose authority is not believed any more.
class TcpPort {
 public:
  // `give` is gRPC's, of the server that has the services.
  TcpPort(UniqueFd listener, std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> give, Watcher& watcher,
          const TcpBounds& bounds);
  ~TcpPort();
  TcpPort(const TcpPort&) = delete;
  TcpPort& operator=(const TcpPort&) = delete;

  // Before, and after StopAccepting, there are no new connections.
  void StartAccepting() { acceptor_.Start(); }
  void StopAccepting() { acceptor_.Stop(); }
  // A call has been admitted that came over this one, whose client has presented `chain`: it may stay so long, but no
  // longer than the bounds say.
  void Keep(const SocketAddress& peer, absl::Duration time, std::shared_ptr<const PresentedChain> chain);
  // All that there are: whom one lets in is another matter now.
  void EndConnections();
  // Those that are kept for a chain of which `of` is true.
  void EndConnections(const std::function<bool(const PresentedChain&)>& of);

  const std::string& address() const { return address_; }

 private:
  struct Connection {
    UniqueFd duplicate;  // Of gRPC's descriptor: to see the connection's end, and to end it. None once it has ended.
    SocketAddress peer;
    absl::Time begin;
    bool kept = false;
    std::shared_ptr<const PresentedChain> chain;  // Of one that is kept.
    WatchId watch = WatchId::kNone;
    TimerId end = TimerId::kNone;  // Of the connection, and after that of its counting.
  };

  void Take(UniqueFd fd);
  size_t CountOfHost(const IpAddress& ip) const;
  void RefuseFor(const SocketAddress& peer);
  void EndThose(const std::function<bool(const Connection&)>& which);
  // It has ended by itself.
  void Note(uint64_t id);
  void End(uint64_t id);

  const std::string address_;
  const std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> give_;
  Watcher& watcher_;
  const TcpBounds bounds_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, Connection> connections_;
  WarningLimit too_many_;
  Acceptor acceptor_;  // Last: it calls the others.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_TCP_PORT_H_
