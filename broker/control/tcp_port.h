// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_TCP_PORT_H_
#define BROKER_CONTROL_TCP_PORT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "absl/time/time.h"
#include "broker/control/accepting_thread.h"
#include "broker/control/counts.h"
#include "broker/control/presented_chain.h"
#include "broker/control/served_connection.h"
#include "broker/control/services.h"
#include "broker/control/tls.h"
#include "broker/control/user_costs.h"
#include "broker/monitoring/metrics.h"
#include "broker/runtime/loop.h"
#include "broker/runtime/warning_limit.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

struct TcpBounds {
  // People and their tools have a few each; a node has a handful of them.
  size_t connections = 256;
  // Of one address; of IPv6's, of one network of 64 bits, since each host has a whole one.
  size_t of_host = 32;
  // For a connection's handshake and its first call that is admitted. A connection that ends before without one counts
  // as long: a handshake costs a millisecond of processor time, whoever the other end is, so that so many connections
  // in so long a time bound what strangers cost.
  absl::Duration patience = absl::Seconds(10);
  // For who watches a stream, too, who connects again.
  absl::Duration longest = absl::Hours(1);
};

// Which host TcpBounds::of_host counts a connection from this address for: an IPv4 address, or an IPv6 network.
IpAddress HostOf(IpAddress ip);

// Serves connections to the TCP port, over TLS. Loop thread only.
class TcpPort final : public ServedConnection::Port {
 public:
  // How long a connection that is to end stays open for the replies to its open calls.
  static constexpr absl::Duration kLastWords = absl::Milliseconds(500);

  // Says who makes a call, of the name `action` in the contract, by what the client presents.
  using AdmitCall = std::function<rpc::Status(const PresentedChain& chain, const IpAddress& peer,
                                              absl::string_view action, std::shared_ptr<const Caller>* caller)>;

  // All that is referred to must outlive it.
  TcpPort(UniqueFd listener, const Services& services, AcceptingThread& accepting, UserCosts& costs, Loop& loop,
          Metrics& metrics, const TcpBounds& bounds, AdmitCall admit);
  ~TcpPort() override;
  TcpPort(const TcpPort&) = delete;
  TcpPort& operator=(const TcpPort&) = delete;

  // Applies to later handshakes. Connections that are in a handshake with the former settings end. Must be called
  // before StartAccepting.
  void Use(std::shared_ptr<const TlsServer> tls) { tls_ = std::move(tls); }

  // Before, and after StopAccepting, there are no new connections.
  void StartAccepting();
  void StopAccepting() { accepting_.Stop(listening_); }

  // Ends all connections, or those for whose chain `of` returns true. Each stays open for up to kLastWords.
  void EndConnections();
  void EndConnections(const std::function<bool(const PresentedChain&)>& of);
  // Ends each connection when its open calls have ended.
  void Drain();
  // Whether there are open connections whose handshake is complete.
  [[nodiscard]] bool HasConnections() const { return !served_.empty(); }

  const std::string& address() const { return address_; }
  // The number of connections that count against the bounds, including those in their handshake.
  [[nodiscard]] size_t connections() const { return connections_.size(); }

  rpc::Status Admit(ServedConnection& connection, absl::string_view action,
                    std::shared_ptr<const Caller>* caller) override;
  void Exceeds(ServedConnection& connection, absl::string_view cause) override;
  void Ended(ServedConnection& connection) override;

 private:
  struct Connection {
    SocketAddress peer;
    absl::Time begin;
    // From the handshake's end to the connection's.
    std::shared_ptr<ServedConnection> served;
    PresentedChain chain;
    bool kept = false;             // A call has been admitted.
    bool ending = false;           // It ends after kLastWords, whatever is called.
    TimerId end = TimerId::kNone;  // Ends the connection, or erases it when it has ended.
  };

  void Take(UniqueFd socket);
  void Serve(uint64_t id, UniqueFd socket, std::unique_ptr<TlsConnection> tls,
             const std::shared_ptr<const TlsServer>& server);
  void LogFailure(const SocketAddress& peer, const TlsConnection& tls);
  void Refuse(const SocketAddress& peer);
  // Drains it, and ends it after kLastWords.
  void EndSoon(uint64_t id);
  // It has ended, but perhaps it still counts.
  void Release(uint64_t id);
  void Erase(uint64_t id);

  UniqueFd listener_;  // Until StartAccepting.
  const std::string address_;
  const Services& services_;
  AcceptingThread& accepting_;
  UserCosts& costs_;
  Loop& loop_;
  Metrics& metrics_;
  const TcpBounds bounds_;
  const AdmitCall admit_;
  std::shared_ptr<const TlsServer> tls_;
  AcceptingThread::ListenerId listening_ = AcceptingThread::ListenerId::kNone;
  uint64_t last_id_ = 0;
  std::map<uint64_t, Connection> connections_;
  std::unordered_map<const ServedConnection*, uint64_t> served_;
  Counts<IpAddress> of_host_;
  WarningLimit too_many_;
  WarningLimit excess_;
  WarningLimit failures_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_TCP_PORT_H_
