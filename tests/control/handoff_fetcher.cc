// SPDX-License-Identifier: Apache-2.0

#include "tests/control/handoff_fetcher.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <utility>

#include "tests/control/patience.h"

namespace rdmabroker {

v1::HandoffRequest HandoffRequestOf(const TestClient& client, uint64_t connector, const v1::Outcome& established) {
  v1::HandoffRequest request;
  request.set_session_id(client.session_id());
  request.set_session_secret(client.opened().session_secret());
  request.set_connector_id(connector);
  request.set_handoff_secret(established.connection_established().handoff_secret());
  return request;
}

HandoffFetcher::HandoffFetcher(UniqueFd socket) : socket_(std::move(socket)) { EXPECT_TRUE(socket_); }

bool HandoffFetcher::Send(const std::string& record) {
  return ::send(socket_.get(), record.data(), record.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(record.size());
}

bool HandoffFetcher::Acknowledge(uint64_t connector) {
  v1::HandoffAcknowledgement acknowledgement;
  acknowledgement.set_connector_id(connector);
  return Send(acknowledgement.SerializeAsString());
}

std::optional<v1::HandoffReply> HandoffFetcher::Receive() {
  std::string bytes(131072, '\0');
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec part = {bytes.data(), bytes.size()};
  msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  pollfd readable = {.fd = socket_.get(), .events = POLLIN};
  if (::poll(&readable, 1, static_cast<int>(absl::ToInt64Milliseconds(kTestPatience))) != 1) {
    ADD_FAILURE() << "neither a reply nor the end";
    return std::nullopt;
  }
  const ssize_t length = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  if (length <= 0) return std::nullopt;
  if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    transport.Reset(fd);
  }
  v1::HandoffReply reply;
  EXPECT_TRUE(reply.ParseFromArray(bytes.data(), static_cast<int>(length)));
  return reply;
}

}  // namespace rdmabroker
