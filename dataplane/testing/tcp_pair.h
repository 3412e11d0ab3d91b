// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_TESTING_TCP_PAIR_H_
#define DATAPLANE_TESTING_TCP_PAIR_H_

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "dataplane/ndk/kernel_address.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

struct TcpPair {
  UniqueFd active, passive;
};

// Two connected TCP sockets. `listener` is a new socket, of the network in which the passive one is to be, and `ip` an
// address there; the kernel picks the port.
inline TcpPair ConnectTcpPair(const UniqueFd& listener, const IpAddress& ip) {
  KernelAddress address = ToKernel({ip, 0});
  EXPECT_EQ(::bind(listener.get(), address.get(), address.length), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(::getsockname(listener.get(), address.get(), &address.length), 0);
  TcpPair pair;
  pair.active.Reset(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(pair.active.get(), address.get(), address.length), 0);
  pair.passive.Reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_TRUE(pair.passive);
  return pair;
}

// Over loopback.
inline TcpPair ConnectTcpPair(int family = AF_INET) {
  const UniqueFd listener(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ConnectTcpPair(listener, *IpAddress::Parse(family == AF_INET ? "127.0.0.1" : "::1"));
}

}  // namespace rdmabroker

#endif  // DATAPLANE_TESTING_TCP_PAIR_H_
