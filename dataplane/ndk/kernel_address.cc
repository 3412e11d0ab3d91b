// SPDX-License-Identifier: Apache-2.0

#include "dataplane/ndk/kernel_address.h"

#include <netinet/in.h>

#include <cstring>

namespace rdmabroker {

KernelAddress ToKernel(const SocketAddress& address) {
  KernelAddress kernel;
  if (address.ip.family == IpFamily::kIpv4) {
    sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(address.port)};
    std::memcpy(&in.sin_addr, address.ip.bytes.data(), sizeof in.sin_addr);
    std::memcpy(&kernel.storage, &in, kernel.length = sizeof in);
  } else {
    sockaddr_in6 in = {.sin6_family = AF_INET6, .sin6_port = htons(address.port)};
    std::memcpy(&in.sin6_addr, address.ip.bytes.data(), sizeof in.sin6_addr);
    in.sin6_scope_id = address.ip.scope_id;
    std::memcpy(&kernel.storage, &in, kernel.length = sizeof in);
  }
  return kernel;
}

SocketAddress FromKernel(const KernelAddress& kernel) {
  SocketAddress address;
  if (kernel.storage.ss_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, &kernel.storage, sizeof in);
    std::memcpy(address.ip.bytes.data(), &in.sin_addr, sizeof in.sin_addr);
    address.port = ntohs(in.sin_port);
  } else {
    sockaddr_in6 in;
    std::memcpy(&in, &kernel.storage, sizeof in);
    address.ip.family = IpFamily::kIpv6;
    std::memcpy(address.ip.bytes.data(), &in.sin6_addr, sizeof in.sin6_addr);
    address.ip.scope_id = in.sin6_scope_id;
    address.port = ntohs(in.sin6_port);
  }
  return address;
}

SocketAddress FromKernelWithoutScope(const sockaddr_storage& storage) {
  SocketAddress address = FromKernel({.storage = storage});
  address.ip.scope_id = 0;
  return address;
}

}  // namespace rdmabroker
