// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_TESTING_NOTIFY_LISTENER_H_
#define BROKER_RUNTIME_TESTING_NOTIFY_LISTENER_H_

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <random>
#include <string>

#include "dataplane/unique_fd.h"

namespace rdmabroker {

struct HeardNotification {
  std::string state;
  UniqueFd fd;
};

// An abstract name for the socket, which no other test uses.
inline std::string NotifySocketName() { return "@rdma-broker-notifier-test-" + std::to_string(std::random_device()()); }

// A supervisor that reads when it is told to.
class NotifyListener {
 public:
  // At the abstract name behind the "@".
  explicit NotifyListener(const std::string& name) : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un at = {.sun_family = AF_UNIX};
    std::memcpy(at.sun_path + 1, name.data() + 1, name.size() - 1);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&at), length), 0);
  }
  // Waits for the next one.
  HeardNotification Hear() {
    std::array<char, 4096> text = {};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
    iovec into = {text.data(), text.size()};
    msghdr message = {};
    message.msg_iov = &into;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t length = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    EXPECT_GE(length, 0);
    HeardNotification heard{std::string(text.data(), static_cast<size_t>(length)), {}};
    if (const cmsghdr* const header = CMSG_FIRSTHDR(&message); header != nullptr) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
      heard.fd = UniqueFd(fd);
    }
    return heard;
  }

 private:
  UniqueFd socket_;
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_TESTING_NOTIFY_LISTENER_H_
