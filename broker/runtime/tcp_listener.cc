// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/tcp_listener.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "dataplane/ndk/kernel_address.h"

namespace rdmabroker {
namespace {

bool Set(const UniqueFd& socket, int level, int option, int value) {
  return ::setsockopt(socket.get(), level, option, &value, sizeof value) == 0;
}

// Else errno tells why not.
bool Listens(const UniqueFd& socket, KernelAddress& address, int backlog) {
  // Connections of the process before may linger (TIME_WAIT).
  if (!Set(socket, SOL_SOCKET, SO_REUSEADDR, 1)) return false;
  // Whatever the system's default is (net.ipv6.bindv6only).
  if (address.storage.ss_family == AF_INET6 && !Set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0)) return false;
  return ::bind(socket.get(), address.get(), address.length) == 0 && ::listen(socket.get(), backlog) == 0;
}

}  // namespace

absl::StatusOr<UniqueFd> ListenOnTcp(const std::string& key, const std::string& address, int backlog) {
  std::string problem;
  const auto parsed = SocketAddress::Parse(address, &problem);
  if (!parsed) return absl::InvalidArgumentError(absl::StrCat(key, ": ", address, ": ", problem));
  KernelAddress kernel = ToKernel(*parsed);
  UniqueFd socket(::socket(kernel.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket && Listens(socket, kernel, backlog)) return socket;
  const int error = errno;
  const char* const remedy = error == EADDRINUSE      ? "; name another port, or end who has this one (ss -ltnp)"
                             : error == EADDRNOTAVAIL ? "; name an address of this machine"
                                                      : "";
  return absl::Status(error == EADDRINUSE ? absl::StatusCode::kAlreadyExists : absl::StatusCode::kUnavailable,
                      absl::StrCat(key, ": ", address, ": cannot be listened on: ", std::strerror(error), remedy));
}

SocketAddress AddressOf(const UniqueFd& socket) {
  KernelAddress kernel;
  if (::getsockname(socket.get(), kernel.get(), &kernel.length) != 0) return {};
  return FromKernel(kernel);
}

}  // namespace rdmabroker
