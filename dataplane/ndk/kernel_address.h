// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_NDK_KERNEL_ADDRESS_H_
#define DATAPLANE_NDK_KERNEL_ADDRESS_H_

#include <sys/socket.h>

#include "dataplane/ndk/socket_address.h"

namespace rdmabroker {

// An address as the kernel wants it.
struct KernelAddress {
  sockaddr_storage storage = {};
  socklen_t length = sizeof(sockaddr_storage);

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

KernelAddress ToKernel(const SocketAddress& address);

// Whatever is not AF_INET is taken for AF_INET6.
SocketAddress FromKernel(const KernelAddress& kernel);
// Of a link-local one without the interface it is on, which the connection manager does not tell.
SocketAddress FromKernelWithoutScope(const sockaddr_storage& storage);

}  // namespace rdmabroker

#endif  // DATAPLANE_NDK_KERNEL_ADDRESS_H_
