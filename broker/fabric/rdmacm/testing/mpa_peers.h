// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_RDMACM_TESTING_MPA_PEERS_H_
#define BROKER_FABRIC_RDMACM_TESTING_MPA_PEERS_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "dataplane/ndk/kernel_address.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// Peers of an iWARP listener that have no queue pairs, by TCP.
class MpaPeers {
 public:
  // One more, which asks for a connection (RFC 5044, 7.1.1: the request's key, CRC, revision 1, no private data).
  void Request(const SocketAddress& listener) { Send(listener, {"MPA ID Req Frame\x40\x01\0\0", 20}); }
  // For one that is not established before the peer has sent its first frame (RFC 6581, 9: the enhanced data, revision
  // 2, four bytes of those: no reads, a write as ready-to-receive message).
  void RequestReadyToReceive(const SocketAddress& listener) {
    Send(listener, {"MPA ID Req Frame\x10\x02\0\x04\x80\0\x80\0", 24});
  }
  // Waits until each is answered.
  void AwaitReplies() const {
    for (const UniqueFd& peer : peers_) {
      pollfd readable = {.fd = peer.get(), .events = POLLIN, .revents = 0};
      ASSERT_EQ(::poll(&readable, 1, 60'000), 1) << "no answer has come";
    }
  }
  // Sends the first frame of each: a write of no bytes without CRC (RFC 5044, 4; RFC 5041, 4.1; RFC 5040, 4.1).
  void SendReadyToReceive() const {
    constexpr std::string_view kWrite("\0\x0E\xC1\x40\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20);
    for (const UniqueFd& peer : peers_) {
      ASSERT_EQ(::send(peer.get(), kWrite.data(), kWrite.size(), 0), static_cast<ssize_t>(kWrite.size()));
    }
  }

 private:
  void Send(const SocketAddress& listener, std::string_view request) {
    KernelAddress to = ToKernel(listener);
    UniqueFd peer(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(peer.get(), to.get(), to.length), 0);
    ASSERT_EQ(::send(peer.get(), request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
    peers_.push_back(std::move(peer));
  }

  std::vector<UniqueFd> peers_;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_RDMACM_TESTING_MPA_PEERS_H_
