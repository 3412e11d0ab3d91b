// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/iwarp/testing/outsider.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "dataplane/ndk/kernel_address.h"

namespace rdmabroker {

int BindAsOutsider(const SocketAddress& address, bool reuse_address, bool reuse_port, UniqueFd* outsider) {
  const bool ipv4 = address.ip.family == IpFamily::kIpv4;
  UniqueFd socket(::socket(ipv4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int address_option = reuse_address;
  const int port_option = reuse_port;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &address_option, sizeof address_option);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEPORT, &port_option, sizeof port_option);
  KernelAddress kernel = ToKernel(address);
  if (::bind(socket.get(), kernel.get(), kernel.length) != 0) return errno;
  if (outsider != nullptr) *outsider = std::move(socket);
  return 0;
}

void ExpectExclusive(const SocketAddress& address, EndpointUse use) {
  EXPECT_EQ(BindAsOutsider(address, false, false), EADDRINUSE);
  EXPECT_EQ(BindAsOutsider(address, true, false), EADDRINUSE);
  // What connects from an endpoint shares its address, which the kernel allows this test's user id, too.
  if (use == EndpointUse::kShared || use == EndpointUse::kDedicated) return;
  EXPECT_EQ(BindAsOutsider(address, false, true), EADDRINUSE);
  EXPECT_EQ(BindAsOutsider(address, true, true), EADDRINUSE);
}

}  // namespace rdmabroker
