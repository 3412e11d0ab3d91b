// SPDX-License-Identifier: Apache-2.0

#include "tests/survive/outside.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "dataplane/unique_fd.h"

namespace rdmabroker {

int BindOutside(const SocketAddress& address) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
  sockaddr_in wanted = {.sin_family = AF_INET, .sin_port = htons(address.port)};
  std::memcpy(&wanted.sin_addr, address.ip.bytes.data(), sizeof wanted.sin_addr);
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&wanted), sizeof wanted) == 0 ? 0 : errno;
}

}  // namespace rdmabroker
