// SPDX-License-Identifier: Apache-2.0

#include "client/handoff.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <thread>
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

// Nothing listens, or has listened when it died.
bool MeansGone(int error) { return error == ECONNREFUSED || error == ECONNRESET || error == ENOENT || error == EPIPE; }

// Between tries: about what a broker takes that goes on in another's place, and no load while it does.
constexpr std::chrono::milliseconds kPause{20};

}  // namespace

Outcome Handoff::Fetch() {
  Outcome outcome;
  // Pauses are counted, as the clock goes on while the process is stopped.
  for (std::chrono::milliseconds paused{0}; TryFetch(&outcome) == Broker::kGone && paused < timeout_;
       paused += kPause) {
    std::this_thread::sleep_for(kPause);
  }
  return outcome;
}

Handoff::Broker Handoff::TryFetch(Outcome* outcome) {
  const auto failed = [&](std::string_view what, int error) {
    *outcome = SystemFailure(what, error);
    return MeansGone(error) ? Broker::kGone : Broker::kThere;
  };
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket_path_.size() >= sizeof address.sun_path) return failed("cannot name", ENAMETOOLONG);
  std::memcpy(address.sun_path, socket_path_.data(), socket_path_.size());
  socket_.Reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const timeval wait = ToTimeval(timeout_);
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  int connected = -1;
  do {
    connected = ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } while (connected != 0 && errno == EINTR);
  if (connected != 0) return failed("cannot connect to", errno);
  const std::string bytes = request_.SerializeAsString();
  if (::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return failed("cannot write to", errno);
  return Receive(outcome);
}

Handoff::Broker Handoff::Receive(Outcome* outcome) {
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
  if (got <= 0) {
    const int error = got == 0 ? ECONNRESET : errno;
    *outcome = SystemFailure(got == 0 ? "no answer from" : "cannot read from", error);
    return MeansGone(error) ? Broker::kGone : Broker::kThere;
  }
  std::vector<UniqueFd> descriptors = DescriptorsOf(&message);
  v1::HandoffReply reply;
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
      !reply.ParseFromArray(bytes.data(), static_cast<int>(got))) {
    *outcome = BrokenPromise("on the hand-off socket is malformed");
    return Broker::kThere;
  }
  *outcome = FromMessage(reply.outcome());
  if (!outcome->ok()) {
    if (IsSuccess(outcome->status)) *outcome = BrokenPromise("on the hand-off socket is not final");
  } else if (descriptors.size() != 1) {
    *outcome = BrokenPromise("on the hand-off socket has not exactly one descriptor");
  } else {
    transport_ = std::move(descriptors.front());
    state_ = std::move(*reply.mutable_connection_state());
  }
  return Broker::kThere;
}

void Handoff::Acknowledge() {
  v1::HandoffAcknowledgement acknowledgement;
  acknowledgement.set_connector_id(request_.connector_id());
  const std::string bytes = acknowledgement.SerializeAsString();
  [[maybe_unused]] const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  socket_.Reset();
}

}  // namespace rdmabroker::client
