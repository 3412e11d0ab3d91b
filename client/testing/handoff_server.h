// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_TESTING_HANDOFF_SERVER_H_
#define CLIENT_TESTING_HANDOFF_SERVER_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dataplane/unique_fd.h"
#include "proto/rdmabroker/v1/handoff.pb.h"

namespace rdmabroker::client {

// A hand-off socket that serves a number of hand-offs, one after the other, as it is told, and then ends.
class HandoffServer {
 public:
  // What the server does after it has read the request; the descriptor count is how many it sends.
  struct Step {
    std::string record;  // A HandoffReply's bytes, or whatever. Empty: closes instead.
    int descriptors = 1;
    bool silent = false;  // Says nothing, and closes at the server's end.
  };
  using Script = std::function<Step(const v1::HandoffRequest&)>;

  HandoffServer(const std::string& path, int handoffs, Script script) : listener_(NewSocket()) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    thread_ = std::thread([this, handoffs, script = std::move(script)] {
      for (int i = 0; i < handoffs; ++i) Serve(script);
    });
  }
  ~HandoffServer() { Join(); }
  // After it the next may be read.
  void Join() {
    if (thread_.joinable()) thread_.join();
  }
  // How many hand-offs were acknowledged with the request's connector.
  int acknowledged() {
    Join();
    return acknowledged_;
  }

  static Step Reply(const std::string& state, int descriptors = 1) {
    v1::HandoffReply reply;
    reply.mutable_outcome()->set_status(v1::STATUS_SUCCESS);
    reply.set_connection_state(state);
    return {.record = reply.SerializeAsString(), .descriptors = descriptors};
  }

 private:
  static UniqueFd NewSocket() { return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); }

  void Serve(const Script& script) {
    UniqueFd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    char buffer[256];
    const ssize_t got = ::recv(peer.get(), buffer, sizeof buffer, 0);
    v1::HandoffRequest request;
    ASSERT_TRUE(got > 0 && request.ParseFromArray(buffer, static_cast<int>(got)));
    const Step step = script(request);
    if (step.silent) return silent_.push_back(std::move(peer));
    if (step.record.empty()) return;
    Send(peer.get(), step);
    const ssize_t last = ::recv(peer.get(), buffer, sizeof buffer, 0);
    v1::HandoffAcknowledgement acknowledgement;
    if (last > 0 && acknowledgement.ParseFromArray(buffer, static_cast<int>(last)) &&
        acknowledgement.connector_id() == request.connector_id()) {
      ++acknowledged_;
    }
  }

  static void Send(int socket, const Step& step) {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const UniqueFd one(pair[0]);
    const UniqueFd other(pair[1]);
    alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
    iovec part = {.iov_base = const_cast<char*>(step.record.data()), .iov_len = step.record.size()};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (step.descriptors > 0) {
      const size_t bytes = static_cast<size_t>(step.descriptors) * sizeof(int);
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(bytes);
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(bytes);
      std::memcpy(CMSG_DATA(header), pair, bytes);
    }
    EXPECT_EQ(::sendmsg(socket, &message, MSG_NOSIGNAL), static_cast<ssize_t>(step.record.size()));
  }

  const UniqueFd listener_;
  std::vector<UniqueFd> silent_;  // The thread's.
  int acknowledged_ = 0;
  std::thread thread_;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_TESTING_HANDOFF_SERVER_H_
