// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_TESTING_PLAIN_LISTENER_H_
#define BROKER_FABRIC_RDMACM_TESTING_PLAIN_LISTENER_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <vector>

#include "dataplane/ndk/kernel_address.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// A TCP listener that is no iWARP device's, and says nothing.
class PlainListener {
 public:
  explicit PlainListener(const IpAddress& ip) {
    KernelAddress address = ToKernel({ip, 0});
    listener_ = UniqueFd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(listener_.get(), address.get(), address.length), 0);
    EXPECT_EQ(::listen(listener_.get(), SOMAXCONN), 0);
    KernelAddress bound;
    EXPECT_EQ(::getsockname(listener_.get(), bound.get(), &bound.length), 0);
    address_ = FromKernel(bound);
  }
  const SocketAddress& address() const { return address_; }

  // Keeps the next connection.
  void Take() {
    pollfd readable = {.fd = listener_.get(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&readable, 1, 60'000), 1) << "no connection has come";
    taken_.emplace_back(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  // Closes the next connection as soon as something has come on it, unread, so that the peer is told by a reset.
  void HangUp() {
    ASSERT_NO_FATAL_FAILURE(Take());
    char byte = 0;
    EXPECT_EQ(::recv(taken_.back().get(), &byte, 1, MSG_PEEK), 1);
    taken_.pop_back();
  }

 private:
  UniqueFd listener_;
  SocketAddress address_;
  std::vector<UniqueFd> taken_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_TESTING_PLAIN_LISTENER_H_
