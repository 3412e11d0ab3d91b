// SPDX-License-Identifier: Apache-2.0

#include "broker/control/tcp_port.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "broker/fabric/kernel_address.h"
#include "broker/log/log.h"
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

absl::Status Cannot(int error, const std::string& address) {
  if (error == EADDRINUSE) {
    return absl::AlreadyExistsError(
        absl::StrCat("tcp.address: ", address, ": the port is in use; name another, or end who has it (ss -ltnp)"));
  }
  return absl::ErrnoToStatus(error, absl::StrCat("tcp.address: ", address, ": cannot be listened on"));
}

}  // namespace

absl::StatusOr<UniqueFd> ListenOnTcp(const std::string& address) {
  const auto parsed = SocketAddress::Parse(address);
  if (!parsed) return absl::InvalidArgumentError(absl::StrCat("tcp.address: ", address, ": is no IP:PORT"));
  KernelAddress kernel = ToKernel(*parsed);
  UniqueFd socket(::socket(kernel.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return Cannot(errno, address);
  // Connections of the process before may linger.
  Set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  // [::] is every address, IPv4's too, whatever the system's default is.
  if (parsed->ip.family == IpFamily::kIpv6) Set(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(socket.get(), kernel.get(), kernel.length) != 0) return Cannot(errno, address);
  if (::listen(socket.get(), SOMAXCONN) != 0) return Cannot(errno, address);
  return socket;
}

std::string AddressOf(const UniqueFd& listener) {
  KernelAddress kernel;
  (void)::getsockname(listener.get(), kernel.get(), &kernel.length);
  return FromKernel(kernel).ToString();
}

TcpPort::TcpPort(UniqueFd listener, std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> give,
                 Watcher& watcher)
    : address_(AddressOf(listener)),
      give_(std::move(give)),
      watcher_(watcher),
      acceptor_(std::move(listener), "tcp", watcher, [this](UniqueFd fd) { Take(std::move(fd)); }) {}

TcpPort::~TcpPort() {
  StopAccepting();
  while (!connections_.empty()) Forget(connections_.begin()->first);
}

void TcpPort::Take(UniqueFd fd) {
  const size_t count = connections_.size();
  UniqueFd duplicate(count < kMostConnections ? ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0) : -1);
  if (!duplicate) {
    if (const auto left_out = too_many_.Pass(Watcher::Now())) {
      LogWarning("connection over tcp refused", {{"connections", count}, {"left_out", *left_out}});
    }
    return;
  }
  KeepAlive(fd.get());
  const int number = duplicate.get();
  Connection& connection = connections_[number];
  connection.duplicate = std::move(duplicate);
  connection.watch = watcher_.Watch(number, EPOLLRDHUP, [this, number](uint32_t) { Forget(number); });
  connection.end = watcher_.StartTimer(Watcher::Now() + kLongestConnection, [this, number] { End(number); });
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.fd = fd.Release();
  give_->HandleNewConnection(&parameters);
}

void TcpPort::EndConnections() {
  while (!connections_.empty()) End(connections_.begin()->first);
}

void TcpPort::End(int duplicate) {
  ::shutdown(duplicate, SHUT_RDWR);
  Forget(duplicate);
}

void TcpPort::Forget(int duplicate) {
  const auto connection = connections_.find(duplicate);
  watcher_.Unwatch(connection->second.watch);
  watcher_.CancelTimer(connection->second.end);
  connections_.erase(connection);
}

}  // namespace rdmabroker
