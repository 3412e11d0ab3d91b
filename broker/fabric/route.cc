// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/route.h"

#include <sys/socket.h>

#include <cerrno>

#include "dataplane/ndk/kernel_address.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {
namespace {

Route NoRoute(int error) {
  switch (error) {
    case EHOSTUNREACH:
      return {.status = NdkStatus::kHostUnreachable, .source = {}};
    case EACCES:  // A route of the type "prohibit", or to a broadcast address.
    case EPERM:   // A security module.
      return {.status = NdkStatus::kAccessDenied, .source = {}};
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return {.status = NdkStatus::kInsufficientResources, .source = {}};
    default:
      return {.status = NdkStatus::kNetworkUnreachable, .source = {}};
  }
}

}  // namespace

// Connecting a datagram socket looks the route up and chooses the source, as connect(2) of a stream would.
Route KernelRouteTo(const SocketAddress& destination) {
  KernelAddress to = ToKernel(destination);
  const UniqueFd socket(::socket(to.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), to.get(), to.length) != 0) return NoRoute(errno);
  KernelAddress from;
  if (::getsockname(socket.get(), from.get(), &from.length) != 0) return NoRoute(errno);
  return {.status = NdkStatus::kSuccess, .source = FromKernel(from).ip};
}

}  // namespace rdmabroker
