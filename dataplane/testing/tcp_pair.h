// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_TESTING_TCP_PAIR_H_
#define DATAPLANE_TESTING_TCP_PAIR_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

#include "dataplane/unique_fd.h"

namespace rdmabroker {

struct TcpPair {
  UniqueFd active, passive;
};

// Two connected TCP sockets over loopback, on a port that the kernel picks.
inline TcpPair ConnectTcpPair(int family = AF_INET) {
  sockaddr_storage address = {};
  address.ss_family = static_cast<sa_family_t>(family);
  socklen_t length = sizeof(sockaddr_in);
  if (family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else {
    reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr = in6addr_loopback;
    length = sizeof(sockaddr_in6);
  }
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const UniqueFd listener(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(listener.get(), generic, length), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(::getsockname(listener.get(), generic, &length), 0);
  TcpPair pair;
  pair.active.Reset(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(pair.active.get(), generic, length), 0);
  pair.passive.Reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_TRUE(pair.passive);
  return pair;
}

}  // namespace rdmabroker

#endif  // DATAPLANE_TESTING_TCP_PAIR_H_
