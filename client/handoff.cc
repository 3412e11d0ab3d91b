// SPDX-License-Identifier: Apache-2.0

#include "client/handoff.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "client/translation.h"

namespace rdmabroker::client {
namespace {

// handoff.proto's limit of a reply.
constexpr size_t kMaxReply = 131072;
// One descriptor is due; room for a few more, so that they are received and closed rather than cut off.
constexpr size_t kRoomForDescriptors = 4;

Outcome SystemFailure(std::string_view what, int error) {
  const bool late = error == EAGAIN || error == EWOULDBLOCK || error == ETIMEDOUT;
  return {.status = late ? NdkStatus::kIoTimeout : NdkStatus::kConnectionAborted,
          .provider_error = static_cast<uint32_t>(error),
          .hint = std::string(what) + " the broker's hand-off socket: " + std::strerror(error) +
                  "; the connection is given up"};
}

timeval ToTimeval(std::chrono::milliseconds timeout) {
  return {.tv_sec = timeout.count() / 1000, .tv_usec = (timeout.count() % 1000) * 1000};
}

// The descriptors of a message, owned.
std::vector<UniqueFd> DescriptorsOf(msghdr* message) {
  std::vector<UniqueFd> descriptors;
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr; part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; at + sizeof(int) <= part->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + at, sizeof fd);
      descriptors.emplace_back(fd);
    }
  }
  return descriptors;
}

}  // namespace

Outcome Handoff::Fetch(const std::string& socket_path, const v1::HandoffRequest& request,
                       std::chrono::milliseconds timeout) {
  connector_ = request.connector_id();
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) return SystemFailure("cannot name", ENAMETOOLONG);
  std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  socket_.Reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const timeval wait = ToTimeval(timeout);
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return SystemFailure("cannot connect to", errno);
  }
  const std::string bytes = request.SerializeAsString();
  if (::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
    return SystemFailure("cannot write to", errno);
  }
  return Receive();
}

Outcome Handoff::Receive() {
  std::vector<char> bytes(kMaxReply);
  alignas(cmsghdr) char control[CMSG_SPACE(kRoomForDescriptors * sizeof(int))] = {};
  iovec part = {.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got = -1;
  do {
    got = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return SystemFailure("cannot read from", errno);
  if (got == 0) return SystemFailure("no answer from", ECONNRESET);
  std::vector<UniqueFd> descriptors = DescriptorsOf(&message);
  v1::HandoffReply reply;
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
      !reply.ParseFromArray(bytes.data(), static_cast<int>(got))) {
    return BrokenPromise("on the hand-off socket is malformed");
  }
  Outcome outcome = FromMessage(reply.outcome());
  if (!outcome.ok()) return IsSuccess(outcome.status) ? BrokenPromise("on the hand-off socket is not final") : outcome;
  if (descriptors.size() != 1) return BrokenPromise("on the hand-off socket has not exactly one descriptor");
  transport_ = std::move(descriptors.front());
  state_ = std::move(*reply.mutable_connection_state());
  return outcome;
}

void Handoff::Acknowledge() {
  v1::HandoffAcknowledgement acknowledgement;
  acknowledgement.set_connector_id(connector_);
  const std::string bytes = acknowledgement.SerializeAsString();
  [[maybe_unused]] const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  socket_.Reset();
}

}  // namespace rdmabroker::client
