// SPDX-License-Identifier: Apache-2.0

#include "client/handoff.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "client/translation.h"

namespace rdmabroker::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// handoff.proto's limit of a reply.
constexpr size_t kMaxReply = 131072;
// One descriptor is due; room for a few more, so that they are received and closed rather than cut off.
constexpr size_t kRoomForDescriptors = 4;

// Nobody accepts, or answers.
bool MeansSilent(int error) { return error == EAGAIN || error == ETIMEDOUT; }

// The broker or the kernel had a descriptor for this process, which gets no more.
Outcome NoDescriptor() {
  return {.status = NdkStatus::kInsufficientResources,
          .hint =
              "this process gets no descriptor for the connection, which is given up: close some, or raise "
              "RLIMIT_NOFILE, and connect again"};
}

Outcome SystemFailure(std::string_view what, int error) {
  if (error == EMFILE || error == ENFILE) return NoDescriptor();
  return {.status = MeansSilent(error) ? NdkStatus::kIoTimeout : NdkStatus::kConnectionAborted,
          .provider_error = static_cast<uint32_t>(error),
          .hint = std::string(what) + " the broker's hand-off socket: " + std::strerror(error) +
                  "; the connection is given up"};
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

// Nothing listens, or what listened has died; or it is stopped or hangs, and may come back.
bool MeansGone(int error) {
  return error == ECONNREFUSED || error == ECONNRESET || error == ENOENT || error == EPIPE || MeansSilent(error);
}

// Between tries: about what a broker takes that goes on in another's place, then little load for as long as none does.
constexpr milliseconds kFirstPause{20};
constexpr milliseconds kLongestPause{500};
// Brokers that do anything answer sooner, so that most hand-offs need no second look.
constexpr milliseconds kMoment{2};
// Between looks for an answer that has not come by then.
constexpr milliseconds kFirstLook{1};
constexpr milliseconds kLongestLook{50};

}  // namespace

Handoff::Handoff(std::string socket_path, v1::HandoffRequest request, Patience patience)
    : socket_path_(std::move(socket_path)),
      request_(std::move(request)),
      patience_(patience),
      left_(patience_.broker),
      last_(std::chrono::steady_clock::now()) {}

milliseconds Handoff::pause() const { return std::chrono::ceil<milliseconds>(pause_); }

// Time beyond the planned pause does not count: the process was stopped, or its thread was busy.
void Handoff::Count() {
  const auto now = std::chrono::steady_clock::now();
  const nanoseconds took = std::min<nanoseconds>(now - last_, pause_ + kMoment);
  last_ = now;
  left_ -= took;
  phase_left_ -= took;
}

std::optional<Outcome> Handoff::GoOn() {
  Count();
  bool asked_now = false;
  while (true) {
    const bool over = left_ <= nanoseconds::zero();
    switch (phase_) {
      case Phase::kToAsk:
        if (Ask()) return outcome_;
        asked_now = phase_ == Phase::kAsked;
        break;
      case Phase::kAsked: {
        const bool answered = HasAnswer(asked_now ? kMoment : nanoseconds::zero());
        if (!answered && !over && phase_left_ > nanoseconds::zero()) {
          pause_ = std::min<nanoseconds>({std::max<nanoseconds>(pause_ * 2, kFirstLook), kLongestLook, left_});
          return std::nullopt;
        }
        if (Receive(answered)) return outcome_;
        BeginPause();
        break;
      }
      case Phase::kPausing:
        if (over) return GivenUp();
        if (phase_left_ > nanoseconds::zero()) {
          pause_ = std::min<nanoseconds>({phase_left_, left_, kLongestLook});
          return std::nullopt;
        }
        phase_ = Phase::kToAsk;
        break;
    }
  }
}

void Handoff::BeginPause() {
  phase_ = Phase::kPausing;
  phase_left_ = back_off_(kFirstPause, kLongestPause, tries_++);
}

bool Handoff::HasAnswer(nanoseconds longest) {
  const timespec timeout = {.tv_sec = 0, .tv_nsec = static_cast<long>(longest.count())};
  pollfd socket = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
  return ::ppoll(&socket, 1, &timeout, nullptr) > 0;
}

Outcome Handoff::GivenUp() const {
  Outcome outcome = outcome_;
  const auto waited = std::chrono::duration_cast<milliseconds>(patience_.broker);
  outcome.hint += " after " + std::to_string(waited.count()) +
                  " ms, which is what the broker allows (timeouts.handoff_ms and timeouts.session_grace_ms): see "
                  "whether rdma-brokerd runs, or is stopped, and connect again";
  return outcome;
}

bool Handoff::Ask() {
  const auto failed = [&](std::string_view what, int error) {
    outcome_ = SystemFailure(what, error);
    if (!MeansGone(error)) return true;
    BeginPause();
    return false;
  };
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket_path_.size() >= sizeof address.sun_path) return failed("cannot name", ENAMETOOLONG);
  std::memcpy(address.sun_path, socket_path_.data(), socket_path_.size());
  // A full queue is no reason to block: nobody accepts then, who might never do so.
  socket_.Reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_) return failed("cannot reach", errno);
  if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return failed("cannot connect to", errno);
  }
  const std::string bytes = request_.SerializeAsString();
  if (::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return failed("cannot write to", errno);
  phase_ = Phase::kAsked;
  phase_left_ = patience_.answer;
  pause_ = nanoseconds::zero();
  return false;
}

bool Handoff::Receive(bool answered) {
  std::vector<char> bytes(kMaxReply);
  alignas(cmsghdr) char control[CMSG_SPACE(kRoomForDescriptors * sizeof(int))] = {};
  iovec part = {.iov_base = bytes.data(), .iov_len = bytes.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  // A broker that answers after all cannot send the transport any more, and keeps it for the next try; or it has sent
  // it by now, and it is here.
  if (!answered) ::shutdown(socket_.get(), SHUT_RD);
  const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  if (got <= 0) {
    const int error = !answered ? ETIMEDOUT : got == 0 ? ECONNRESET : errno;
    outcome_ = SystemFailure(got == 0 ? "no answer from" : "cannot read from", error);
    return !MeansGone(error);
  }
  std::vector<UniqueFd> descriptors = DescriptorsOf(&message);
  v1::HandoffReply reply;
  if (descriptors.size() < kRoomForDescriptors && (message.msg_flags & MSG_CTRUNC) != 0) {
    outcome_ = NoDescriptor();
    return true;
  }
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
      !reply.ParseFromArray(bytes.data(), static_cast<int>(got))) {
    outcome_ = BrokenPromise("on the hand-off socket is malformed");
    return true;
  }
  outcome_ = FromMessage(reply.outcome());
  if (!outcome_.ok()) {
    if (IsSuccess(outcome_.status)) outcome_ = BrokenPromise("on the hand-off socket is not final");
  } else if (descriptors.size() != 1) {
    outcome_ = BrokenPromise("on the hand-off socket has not exactly one descriptor");
  } else {
    transport_ = std::move(descriptors.front());
    state_ = std::move(*reply.mutable_connection_state());
  }
  return true;
}

void Handoff::Acknowledge() {
  v1::HandoffAcknowledgement acknowledgement;
  acknowledgement.set_connector_id(request_.connector_id());
  const std::string bytes = acknowledgement.SerializeAsString();
  [[maybe_unused]] const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  socket_.Reset();
}

}  // namespace rdmabroker::client
