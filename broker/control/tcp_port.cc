// SPDX-License-Identifier: Apache-2.0

#include "broker/control/tcp_port.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
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

// Whom it stands for as one host.
IpAddress HostOf(IpAddress ip) {
  if (ip.family == IpFamily::kIpv6) std::fill(ip.bytes.begin() + 8, ip.bytes.end(), uint8_t{0});
  return ip;
}

}  // namespace

std::optional<SocketAddress> TcpPeerOf(const std::string& peer) {
  // A URI of gRPC's: ipv4:192.0.2.1:4711, ipv6:%5Bfe80::1%253%5D:4711.
  const size_t scheme = peer.find(':');
  if (scheme == std::string::npos) return std::nullopt;
  return SocketAddress::Parse(absl::StrReplaceAll(peer.substr(scheme + 1), {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}}));
}

TcpPort::TcpPort(UniqueFd listener, std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> give,
                 Watcher& watcher, const TcpBounds& bounds)
    : address_(AddressOf(listener).ToString()),
      give_(std::move(give)),
      watcher_(watcher),
      bounds_(bounds),
      acceptor_(std::move(listener), "tcp", watcher, [this](UniqueFd fd) { Take(std::move(fd)); }) {}

TcpPort::~TcpPort() {
  StopAccepting();
  for (const auto& [id, connection] : connections_) {
    watcher_.Unwatch(connection.watch);
    watcher_.CancelTimer(connection.end);
  }
}

size_t TcpPort::CountOfHost(const IpAddress& ip) const {
  return static_cast<size_t>(std::count_if(connections_.begin(), connections_.end(), [&](const auto& entry) {
    return HostOf(entry.second.peer.ip) == HostOf(ip);
  }));
}

void TcpPort::Take(UniqueFd fd) {
  KernelAddress kernel;
  // It has gone already.
  if (::getpeername(fd.get(), kernel.get(), &kernel.length) != 0) return;
  const SocketAddress peer = Unmapped(FromKernel(kernel));
  const bool has_room = connections_.size() < bounds_.connections && CountOfHost(peer.ip) < bounds_.of_host;
  UniqueFd duplicate(has_room ? ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0) : -1);
  if (!duplicate) return RefuseFor(peer);
  KeepAlive(fd.get());
  const uint64_t id = ++last_id_;
  Connection& connection = connections_[id];
  connection.peer = peer;
  connection.begin = Watcher::Now();
  connection.watch = watcher_.Watch(duplicate.get(), EPOLLRDHUP, [this, id](uint32_t) { Note(id); });
  connection.duplicate = std::move(duplicate);
  connection.end = watcher_.StartTimer(connection.begin + bounds_.patience, [this, id] { End(id); });
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.fd = fd.Release();
  give_->HandleNewConnection(&parameters);
}

void TcpPort::RefuseFor(const SocketAddress& peer) {
  const auto left_out = too_many_.Pass(Watcher::Now());
  if (!left_out) return;
  LogWarning("connection over tcp refused", {{"peer", peer.ip.ToString()},
                                             {"of_peer", CountOfHost(peer.ip)},
                                             {"connections", connections_.size()},
                                             {"left_out", *left_out}});
}

// There may be more than one, from behind a router that translates addresses to several of this machine's. It is all
// the same host as far as anybody here can tell.
void TcpPort::Keep(const SocketAddress& peer, absl::Duration time, std::shared_ptr<const PresentedChain> chain) {
  for (auto& [number, connection] : connections_) {
    if (connection.peer != peer || connection.kept || !connection.duplicate) continue;
    connection.kept = true;
    connection.chain = chain;
    watcher_.CancelTimer(connection.end);
    connection.end = watcher_.StartTimer(std::min(connection.begin + bounds_.longest, Watcher::Now() + time),
                                         [this, id = number] { End(id); });
  }
}

void TcpPort::EndConnections() {
  EndThose([](const Connection&) { return true; });
}

void TcpPort::EndConnections(const std::function<bool(const PresentedChain&)>& of) {
  EndThose([&of](const Connection& connection) { return connection.chain != nullptr && of(*connection.chain); });
}

void TcpPort::EndThose(const std::function<bool(const Connection&)>& which) {
  std::vector<uint64_t> ids;
  for (const auto& [id, connection] : connections_) {
    if (connection.duplicate && which(connection)) ids.push_back(id);
  }
  for (const uint64_t id : ids) End(id);
}

void TcpPort::End(uint64_t id) {
  ::shutdown(connections_.at(id).duplicate.get(), SHUT_RDWR);
  Note(id);
}

void TcpPort::Note(uint64_t id) {
  const auto found = connections_.find(id);
  Connection& connection = found->second;
  watcher_.Unwatch(std::exchange(connection.watch, WatchId::kNone));
  watcher_.CancelTimer(std::exchange(connection.end, TimerId::kNone));
  connection.duplicate.Reset();
  const absl::Time counts_until = connection.begin + bounds_.patience;
  if (connection.kept || Watcher::Now() >= counts_until) {
    connections_.erase(found);
  } else {
    connection.end = watcher_.StartTimer(counts_until, [this, id] { connections_.erase(id); });
  }
}

}  // namespace rdmabroker
