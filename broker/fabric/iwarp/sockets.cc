// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/iwarp/sockets.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "dataplane/ndk/kernel_address.h"

namespace rdmabroker {
namespace {

int Set(int socket, int level, int option, int value) {
  return ::setsockopt(socket, level, option, &value, sizeof value) == 0 ? 0 : errno;
}

int Get(int socket, int level, int option) {
  int value = 0;
  socklen_t length = sizeof value;
  return ::getsockopt(socket, level, option, &value, &length) == 0 ? value : 0;
}

// Asks a silent peer after ten seconds whether it is there, and gives it up twenty seconds later: its host has lost its
// power, or its way here. One that is only slow answers, since its kernel does.
int EndIfPeerIsGone(int socket) {
  int error = Set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  if (error == 0) error = Set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  if (error == 0) error = Set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  if (error == 0) error = Set(socket, IPPROTO_TCP, TCP_KEEPCNT, 4);
  return error;
}

int StateOf(int socket) {
  tcp_info info = {};
  socklen_t length = sizeof info;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 ? info.tcpi_state : -1;
}

// Sets the options of a connection. Accepted sockets inherit them from their listener.
int PrepareConnection(int socket) {
  ResetOnClose(socket, true);
  return EndIfPeerIsGone(socket);
}

SocketAddress LocalAddress(int socket) {
  KernelAddress address;
  if (::getsockname(socket, address.get(), &address.length) != 0) return {};
  return FromKernel(address);
}

// Port 0 where the peer is gone already.
SocketAddress PeerAddress(int socket) {
  KernelAddress address;
  if (::getpeername(socket, address.get(), &address.length) != 0) return {};
  return FromKernel(address);
}

int SetReuseAddress(int socket, bool on) { return Set(socket, SOL_SOCKET, SO_REUSEADDR, on ? 1 : 0); }

// Binds with these of SO_REUSEADDR and SO_REUSEPORT.
NewSocket Bind(const SocketAddress& local, bool reuse_address, bool reuse_port) {
  const bool ipv4 = local.ip.family == IpFamily::kIpv4;
  UniqueFd socket(::socket(ipv4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket) return {UniqueFd(), errno};
  int error = reuse_address ? SetReuseAddress(socket.get(), true) : 0;
  if (error == 0 && reuse_port) error = Set(socket.get(), SOL_SOCKET, SO_REUSEPORT, 1);
  if (error == 0 && !ipv4) error = Set(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (error != 0) return {UniqueFd(), error};
  KernelAddress address = ToKernel(local);
  if (::bind(socket.get(), address.get(), address.length) != 0) return {UniqueFd(), errno};
  return {std::move(socket), 0};
}

}  // namespace

NewSocket BindAnchor(const SocketAddress& local) {
  NewSocket bound = Bind(local, false, false);
  if (bound.error != EADDRINUSE) return bound;
  bound = Bind(local, false, true);
  if (bound.error != 0) return bound;
  // Clearing the option is not enough. The kernel notes down for the port whether it can be shared and then asks no
  // socket any more (inet_bind_bucket: fastreuse, fastreuseport); a socket that listens without SO_REUSEPORT corrects
  // that. To listen it has to get past what is left of connections once more.
  bound.error = Set(bound.socket.get(), SOL_SOCKET, SO_REUSEPORT, 0);
  if (bound.error == 0) bound.error = StartListening(bound.socket.get());
  StopListening(bound.socket.get());
  return bound;
}

int ShareAnchor(int anchor) { return Set(anchor, SOL_SOCKET, SO_REUSEPORT, 1); }

int StartListening(int anchor) {
  int error = PrepareConnection(anchor);
  if (error == 0) error = SetReuseAddress(anchor, true);
  if (error != 0) return error;
  // The kernel cuts it to net.core.somaxconn.
  return ::listen(anchor, INT_MAX) == 0 ? 0 : errno;
}

void StopListening(int anchor) {
  ::shutdown(anchor, SHUT_RDWR);
  (void)SetReuseAddress(anchor, false);
}

void LetGoOf(int anchor) {
  ::shutdown(anchor, SHUT_RDWR);
  (void)SetReuseAddress(anchor, true);
  (void)Set(anchor, SOL_SOCKET, SO_REUSEPORT, 1);
}

std::optional<SocketAddress> AddressOfAnchor(int socket) {
  if (Get(socket, SOL_SOCKET, SO_PROTOCOL) != IPPROTO_TCP) return std::nullopt;
  if (const int state = StateOf(socket); state != TCP_CLOSE && state != TCP_LISTEN) return std::nullopt;
  // Only one of them: its process died while it began to listen, or it is shared.
  const bool let_go = Get(socket, SOL_SOCKET, SO_REUSEADDR) != 0 && Get(socket, SOL_SOCKET, SO_REUSEPORT) != 0;
  if (let_go || (::fcntl(socket, F_GETFL) & O_NONBLOCK) == 0) return std::nullopt;
  const SocketAddress address = LocalAddress(socket);
  const bool both_families = address.ip.family == IpFamily::kIpv6 && Get(socket, IPPROTO_IPV6, IPV6_V6ONLY) == 0;
  if (both_families) return std::nullopt;
  return address;
}

NewSocket BindBeside(const SocketAddress& local) {
  NewSocket bound = Bind(local, true, true);
  if (bound.error == 0) bound.error = PrepareConnection(bound.socket.get());
  return bound;
}

int StartConnecting(int socket, const SocketAddress& peer) {
  KernelAddress address = ToKernel(peer);
  return ::connect(socket, address.get(), address.length) == 0 ? 0 : errno;
}

// SO_ERROR also tells what a router has said of a single packet (sk_err_soft), which is the end of nothing.
int SocketError(int socket) { return StateOf(socket) == TCP_CLOSE ? Get(socket, SOL_SOCKET, SO_ERROR) : 0; }

int AcceptOne(int listener, const SocketAddress& local, AcceptedSocket* accepted) {
  KernelAddress peer;
  accepted->socket.Reset(::accept4(listener, peer.get(), &peer.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!accepted->socket) return errno;
  accepted->local = local;
  accepted->peer = FromKernel(peer);
  return Set(accepted->socket.get(), SOL_SOCKET, SO_REUSEPORT, 1);
}

void ResetConnection(int socket) {
  // Dissolving the association resets it at once (tcp_disconnect), while closing would wait for the last holder.
  sockaddr nobody = {.sa_family = AF_UNSPEC};
  (void)::connect(socket, &nobody, sizeof nobody);
}

void ResetOnClose(int socket, bool reset) {
  const linger at_once = {.l_onoff = reset ? 1 : 0, .l_linger = 0};
  (void)::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

bool IsConnection(int socket, const SocketAddress& local, const SocketAddress& peer) {
  return Get(socket, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP && LocalAddress(socket) == local &&
         PeerAddress(socket) == peer;
}

void MarkSent(int socket, bool sent) { (void)Set(socket, SOL_SOCKET, SO_BROADCAST, sent ? 1 : 0); }

bool WasSent(int socket) { return Get(socket, SOL_SOCKET, SO_BROADCAST) != 0; }

int SendWhole(int socket, std::span<const uint8_t> bytes) {
  const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(bytes.size())) return 0;
  return sent >= 0 || errno == EAGAIN ? ENOBUFS : errno;
}

int Receive(int socket, size_t limit, std::string* input) {
  const size_t before = input->size();
  input->resize(before + limit);
  const ssize_t received = ::recv(socket, input->data() + before, limit, MSG_DONTWAIT);
  const int error = received > 0 ? 0 : received == 0 ? ENODATA : errno;
  input->resize(before + static_cast<size_t>(std::max<ssize_t>(received, 0)));
  return error;
}

uint32_t PathSegmentSize(int socket) { return static_cast<uint32_t>(Get(socket, IPPROTO_TCP, TCP_MAXSEG)); }

}  // namespace rdmabroker
