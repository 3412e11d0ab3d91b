// SPDX-License-Identifier: Apache-2.0

#include "broker/control/tcp_port.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "broker/log/log.h"
#include "broker/runtime/tcp_listener.h"
#include "dataplane/ndk/kernel_address.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker {
namespace {

// A machine that has gone without a word: asked after so many seconds of silence, so often, so many seconds apart. An
// inspection that is watched may be silent for hours, and holds one of few connections.
constexpr int kIdleSeconds = 60;
constexpr int kProbeSeconds = 10;
constexpr int kProbes = 3;
// As long without an acknowledgement of what was sent.
constexpr int kUnacknowledgedMs = (kIdleSeconds + kProbeSeconds * kProbes) * 1000;

void Set(int fd, int level, int option, int value) { (void)::setsockopt(fd, level, option, &value, sizeof value); }

void KeepAlive(int fd) {
  Set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  Set(fd, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  Set(fd, IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  Set(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  Set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUnacknowledgedMs);
  Set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

// An IPv4 client of a socket for both is one of IPv4.
SocketAddress Unmapped(SocketAddress address) {
  constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  const auto& bytes = address.ip.bytes;
  if (address.ip.family == IpFamily::kIpv4 || !std::equal(kMapped.begin(), kMapped.end(), bytes.begin())) {
    return address;
  }
  IpAddress ip;
  std::copy(bytes.begin() + kMapped.size(), bytes.end(), ip.bytes.begin());
  return {ip, address.port};
}

}  // namespace

IpAddress HostOf(IpAddress ip) {
  if (ip.family == IpFamily::kIpv6) std::fill(ip.bytes.begin() + 8, ip.bytes.end(), uint8_t{0});
  return ip;
}

TcpPort::TcpPort(UniqueFd listener, const Services& services, AcceptingThread& accepting, UserCosts& costs, Loop& loop,
                 Metrics& metrics, const TcpBounds& bounds, AdmitCall admit)
    : listener_(std::move(listener)),
      address_(AddressOf(listener_).ToString()),
      services_(services),
      accepting_(accepting),
      costs_(costs),
      loop_(loop),
      metrics_(metrics),
      bounds_(bounds),
      admit_(std::move(admit)) {}

TcpPort::~TcpPort() {
  StopAccepting();
  for (const auto& [id, connection] : connections_) loop_.CancelTimer(connection.end);
}

void TcpPort::StartAccepting() {
  listening_ = accepting_.Accept(
      std::move(listener_),
      {.name = "tcp", .may_enter = nullptr, .take = [this](UniqueFd socket) { Take(std::move(socket)); }});
}

void TcpPort::Take(UniqueFd socket) {
  KernelAddress kernel;
  // It has gone already.
  if (::getpeername(socket.get(), kernel.get(), &kernel.length) != 0) return;
  const SocketAddress peer = Unmapped(FromKernel(kernel));
  const IpAddress host = HostOf(peer.ip);
  if (connections_.size() >= bounds_.connections || of_host_.of(host) >= bounds_.of_host) return Refuse(peer);
  KeepAlive(socket.get());
  const uint64_t id = ++last_id_;
  Connection& connection = connections_[id];
  of_host_.Enter(host);
  connection.peer = peer;
  connection.begin = Loop::Now();
  accepting_.Shake(std::move(socket), tls_, connection.begin + bounds_.patience,
                   [this, id, server = tls_](UniqueFd shaken, std::unique_ptr<TlsConnection> tls) {
                     Serve(id, std::move(shaken), std::move(tls), server);
                   });
}

void TcpPort::Serve(uint64_t id, UniqueFd socket, std::unique_ptr<TlsConnection> tls,
                    const std::shared_ptr<const TlsServer>& server) {
  Connection& connection = connections_.at(id);
  const bool is_open = tls != nullptr && tls->state() == TlsConnection::State::kOpen;
  if (!is_open && tls != nullptr) LogFailure(connection.peer, *tls);
  // The current authorities may not include the one that has signed the client's certificate.
  if (!is_open || server != tls_) return Release(id);
  connection.chain = tls->chain();
  connection.served =
      std::make_shared<ServedConnection>(std::move(socket), std::move(tls), *this, services_,
                                         rpc::ServerConnection::Limits(), costs_, HostOf(connection.peer.ip), loop_);
  served_[connection.served.get()] = id;
  connection.end =
      loop_.StartTimer(connection.begin + bounds_.patience, [this, id] { connections_.at(id).served->End(); });
  connection.served->Start();
}

void TcpPort::LogFailure(const SocketAddress& peer, const TlsConnection& tls) {
  const bool in_time = tls.state() != TlsConnection::State::kHandshake;
  // The client has ended the connection in order.
  if (in_time && tls.why().empty()) return;
  const auto left_out = failures_.Pass(Loop::Now());
  if (!left_out) return;
  LogWarning("tls handshake failed", {{"peer", peer.ip.ToString()},
                                      {"cause", in_time ? tls.why() : "it has taken too long"},
                                      {"left_out", *left_out}});
}

void TcpPort::Refuse(const SocketAddress& peer) {
  const auto left_out = too_many_.Pass(Loop::Now());
  if (!left_out) return;
  LogWarning("connection over tcp refused", {{"peer", peer.ip.ToString()},
                                             {"of_peer", of_host_.of(HostOf(peer.ip))},
                                             {"connections", connections_.size()},
                                             {"left_out", *left_out}});
}

rpc::Status TcpPort::Admit(ServedConnection& served, absl::string_view action, std::shared_ptr<const Caller>* caller) {
  const uint64_t id = served_.at(&served);
  Connection& connection = connections_.at(id);
  rpc::Status admitted = admit_(connection.chain, connection.peer.ip, action, caller);
  if (!admitted.ok() || connection.ending || std::exchange(connection.kept, true)) return admitted;
  served.ChargeTo((*caller)->spiffe_id);
  const absl::Duration time = connection.chain.End() - absl::Now();
  loop_.CancelTimer(connection.end);
  connection.end =
      loop_.StartTimer(std::min(connection.begin + bounds_.longest, Loop::Now() + time), [this, id] { EndSoon(id); });
  return admitted;
}

void TcpPort::EndConnections() {
  EndConnections([](const PresentedChain&) { return true; });
}

void TcpPort::EndConnections(const std::function<bool(const PresentedChain&)>& of) {
  for (const auto& [served, id] : served_) {
    if (of(connections_.at(id).chain)) EndSoon(id);
  }
}

void TcpPort::EndSoon(uint64_t id) {
  Connection& connection = connections_.at(id);
  connection.ending = true;
  loop_.CancelTimer(connection.end);
  connection.end = loop_.StartTimer(Loop::Now() + kLastWords, [this, id] { connections_.at(id).served->End(); });
  connection.served->Drain();
}

void TcpPort::Drain() {
  for (const auto& [served, id] : served_) connections_.at(id).served->Drain();
}

void TcpPort::Exceeds(ServedConnection& served, absl::string_view cause) {
  metrics_.CountRefusedCaller(CallerRefusal::kExcess);
  if (const auto left_out = excess_.Pass(Loop::Now())) {
    const std::string peer = connections_.at(served_.at(&served)).peer.ip.ToString();
    LogWarning("connection over tcp ended", {{"peer", peer}, {"cause", cause}, {"left_out", *left_out}});
  }
}

void TcpPort::Ended(ServedConnection& connection) {
  const auto known = served_.extract(&connection);
  connections_.at(known.mapped()).served.reset();
  Release(known.mapped());
}

void TcpPort::Release(uint64_t id) {
  Connection& connection = connections_.at(id);
  loop_.CancelTimer(std::exchange(connection.end, TimerId::kNone));
  const absl::Time counts_until = connection.begin + bounds_.patience;
  if (connection.kept || Loop::Now() >= counts_until) return Erase(id);
  connection.end = loop_.StartTimer(counts_until, [this, id] { Erase(id); });
}

void TcpPort::Erase(uint64_t id) {
  const auto connection = connections_.extract(id);
  of_host_.Leave(HostOf(connection.mapped().peer.ip));
}

}  // namespace rdmabroker
