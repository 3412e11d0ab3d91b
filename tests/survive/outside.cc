// SPDX-License-Identifier: Apache-2.0

#include "tests/survive/outside.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>

#include "dataplane/ndk/kernel_address.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

int BindOutside(const SocketAddress& address) {
  KernelAddress kernel = ToKernel(address);
  const UniqueFd socket(::socket(kernel.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
  return ::bind(socket.get(), kernel.get(), kernel.length) == 0 ? 0 : errno;
}

}  // namespace rdmabroker
