// SPDX-License-Identifier: Apache-2.0

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <optional>
#include <utility>

#include "dataplane/catch_exceptions.h"
#include "dataplane/forked_child.h"
#include "dataplane/iwarp/limits.h"
#include "dataplane/iwarp/progress_thread.h"
#include "dataplane/iwarp/queue_pair.h"
#include "dataplane/iwarp/wire/adapter_limits.h"
#include "dataplane/post_checks.h"
#include "dataplane/provider_error.h"
#include "dataplane/refusal.h"
#include "dataplane/tcp/peer_silence.h"
#include "dataplane/tcp/tcp_state.h"

namespace rdmabroker::iwarp {
namespace {

// How long a broken connection waits for the peer to read the Terminate message and close.
constexpr std::chrono::milliseconds kLinger{1000};

// How the read that the peer's Terminate message is about ends.
NdkStatus StatusOf(TerminateCause cause) {
  const bool protection = cause.type == 1 && cause.layer <= 1;
  if (protection) return NdkStatus::kAccessViolation;
  if (cause == kDdpNoBuffer) return NdkStatus::kIoTimeout;
  return NdkStatus::kRemoteResources;
}

}  // namespace

NdkStatus SoftwareQueuePair::Attach(Attachment attachment, ConnectionEndCallback on_end) {
  return CatchExceptions([&]() -> NdkStatus {
    if (IsForkedChild()) return RefuseInForkedChild();
    return Adopt(std::move(attachment), std::move(on_end));
  });
}

// What may find no memory comes first.
NdkStatus SoftwareQueuePair::Adopt(Attachment attachment, ConnectionEndCallback on_end) {
  const auto state = DecodeConnectionState(attachment.state);
  int type = 0;
  socklen_t length = sizeof type;
  if (!state.ok() || ::getsockopt(attachment.socket.get(), SOL_SOCKET, SO_TYPE, &type, &length) != 0 ||
      type != SOCK_STREAM || state->inbound_read_limit > kMaxReads || state->outbound_read_limit > kMaxReads) {
    return Refuse(NdkStatus::kInvalidParameter,
                  "attachment: no connected stream socket with a state of user-space iWARP");
  }
  // Whole messages go into one call each; nothing is gained by waiting for more.
  const int on = 1;
  ::setsockopt(attachment.socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::kIdle || closed_) return RefuseUsedQueuePair();
  receiver_.Start(*state);
  transmitter_.MakeRoom(*state);
  ParentsAlone parents_socket(attachment.socket.get());
  if (!watch_.Start(attachment.socket.get())) {
    return Refuse(NdkStatus::kInsufficientResources,
                  "the kernel watches no more sockets: raise fs.epoll.max_user_watches");
  }
  phase_ = Phase::kConnected;
  socket_ = std::move(attachment.socket);
  parents_socket_ = std::move(parents_socket);
  on_end_ = std::move(on_end);
  transmitter_.Start(socket_.get(), *state);
  alive_ = true;
  StartKeepalive();
  DriveLocked();
  return NdkStatus::kSuccess;
}

// The broker has its own times while it has the socket.
void SoftwareQueuePair::StartKeepalive() {
  tcp::AskSilentPeer(socket_.get(), keepalive_);
  if (keepalive_.count() == 0) return;
  const auto now = ProgressThread::Clock::now();
  ProgressThread::Get().SetTimer(&look_timer_, silence_.NextLook({}, now));
}

void SoftwareQueuePair::LookForPeer() {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::kConnected) return;
  const auto now = ProgressThread::Clock::now();
  const tcp::TcpState state = tcp::ReadTcpState(socket_.get()).value_or(tcp::TcpState());
  if (silence_.IsDead(state, now)) return BreakForSocket(ETIMEDOUT);
  ProgressThread::Get().SetTimer(&look_timer_, silence_.NextLook(state, now));
}

void SoftwareQueuePair::Drive() {
  if (!alive_.load(std::memory_order_relaxed)) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) return DriveLocked();
  // Who is at it may have been interrupted by this very thread, which would otherwise poll in vain until its time is
  // up.
  ::sched_yield();
}

void SoftwareQueuePair::OnReady() {
  const std::lock_guard lock(mutex_);
  DriveLocked();
}

void SoftwareQueuePair::DriveLocked() {
  try {
    if (phase_ == Phase::kConnected) DriveConnected();
    if (phase_ == Phase::kLingering) DriveLingering();
  } catch (const std::bad_alloc&) {
    BreakForSocket(ENOMEM);  // Nobody waits here who could be told.
  }
}

void SoftwareQueuePair::DriveConnected() {
  if (peer_ended_) {
    CheckHalfOpenSocket();
  } else {
    HandleReceived(receiver_.Drive(socket_.get()));
  }
  if (phase_ != Phase::kConnected) return;
  transmitter_.Transmit();
  if (transmitter_.failed() || receive_cq_->dead() || initiator_cq_->dead()) {
    TerminateMessage message;
    message.cause = kRdmapLocalCatastrophic;
    Terminate(message, {});
    ReportEnd({.graceful = false, .provider_error = kLocalError});
    return;
  }
  if (const int error = transmitter_.socket_error(); error != 0) return BreakForSocket(error);
  AdvanceDisconnect();
  watch_.Update();
}

void SoftwareQueuePair::HandleReceived(Receiver::Outcome outcome) {
  switch (outcome) {
    case Receiver::Outcome::kIdle:
    case Receiver::Outcome::kMore:
      return;
    case Receiver::Outcome::kEnd:
      return PeerHasEnded();
    case Receiver::Outcome::kBroken:
      return BreakForSocket(receiver_.socket_error());
    case Receiver::Outcome::kViolation:
      Terminate(receiver_.violation(), {});
      return ReportEnd({.graceful = false, .provider_error = TerminateSent(receiver_.violation().cause)});
    case Receiver::Outcome::kTerminated:
      const uint32_t error = TerminateReceived(receiver_.terminated().cause);
      return Break({StatusOf(receiver_.terminated().cause), error}, error);
  }
}

// Nobody reads any more, so nobody would notice that the peer has reset the connection after its goodbye. SO_ERROR
// alone would also tell what a router has said of a single packet, which is the end of nothing.
void SoftwareQueuePair::CheckHalfOpenSocket() {
  if (const auto state = tcp::ReadTcpState(socket_.get()); !state || !state->closed) return;
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error == 0) return;
  BreakForSocket(error);
}

// Nothing is flushed: requests wait for what the consumer does next.
void SoftwareQueuePair::PeerHasEnded() {
  peer_ended_ = true;
  if (!disconnecting_) ReportEnd({.graceful = true, .provider_error = 0});
}

void SoftwareQueuePair::AdvanceDisconnect() {
  if (!disconnecting_) return;
  if (!said_goodbye_ && transmitter_.drained()) {
    ::shutdown(socket_.get(), SHUT_WR);
    said_goodbye_ = true;
  }
  if (!said_goodbye_ || !peer_ended_) return;
  EndLocally();
  CompleteDisconnect(NdkStatus::kSuccess);
}

// `error` is an errno.
void SoftwareQueuePair::BreakForSocket(int error) {
  const bool no_memory = error == ENOMEM || error == ENOBUFS;
  const uint32_t provider_error = kSocketError | static_cast<uint32_t>(error);
  Break({no_memory ? NdkStatus::kInsufficientResources : NdkStatus::kIoTimeout, provider_error}, provider_error);
}

// The socket is of no use any more.
void SoftwareQueuePair::Break(const RequestFailure& failure, uint32_t provider_error) {
  transmitter_.Abort(failure, false);
  receives_end_ = true;
  receiver_.CancelReceives();
  CloseSocket();
  CompleteDisconnect(NdkStatus::kConnectionAborted);
  ReportEnd({.graceful = false, .provider_error = provider_error});
}

// Tells the peer why, and leaves the socket open until the peer has had time to read it: closing a socket with
// unread data would reset the connection and throw the message away.
void SoftwareQueuePair::Terminate(const TerminateMessage& message, const RequestFailure& failure) {
  transmitter_.Abort(failure, false);
  receives_end_ = true;
  receiver_.CancelReceives();
  transmitter_.SendTerminate(EncodeTerminate(message));
  phase_ = Phase::kLingering;
  ProgressThread::Get().SetTimer(&deadline_, ProgressThread::Clock::now() + kLinger);
  CompleteDisconnect(NdkStatus::kConnectionAborted);
}

void SoftwareQueuePair::DriveLingering() {
  transmitter_.Transmit();
  if (!said_goodbye_ && !transmitter_.wants_write()) {
    ::shutdown(socket_.get(), SHUT_WR);
    said_goodbye_ = true;
  }
  size_t budget = kDriveBudget;
  std::array<uint8_t, 16 * 1024> unwanted;
  ssize_t got = 1;
  while (budget > 0 && got > 0) {
    got = ::recv(socket_.get(), unwanted.data(), unwanted.size(), MSG_DONTWAIT);
    if (got > 0) budget -= std::min(budget, static_cast<size_t>(got));
  }
  const bool over = got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  if ((over && said_goodbye_) || transmitter_.socket_error() != 0) {
    CloseSocket();
  } else {
    if (over) peer_ended_ = true;
    watch_.Update();
  }
}

void SoftwareQueuePair::EndWaiting() {
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::kLingering) return CloseSocket();
  if (phase_ != Phase::kConnected || !disconnecting_) return;
  EndLocally();
  CompleteDisconnect(NdkStatus::kIoTimeout);
}

NdkStatus SoftwareQueuePair::Disconnect(std::chrono::milliseconds timeout, RequestCompletion completion) {
  if (IsForkedChild()) return RefuseInForkedChild();
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::kIdle) return RefuseUnconnected();
  if (disconnecting_ || closed_) {
    return Refuse(NdkStatus::kInvalidDeviceState, "queue pair: it is being disconnected or closed already");
  }
  if (!completion) return RefuseWithoutCompletion();
  disconnecting_ = true;
  disconnect_completion_ = std::move(completion);
  if (phase_ != Phase::kConnected) {
    EndLocally();
    CompleteDisconnect(NdkStatus::kConnectionAborted);
    return NdkStatus::kPending;
  }
  transmitter_.RefusePosts();
  ProgressThread::Get().SetTimer(&deadline_, ProgressThread::Clock::now() + timeout);
  DriveLocked();
  return NdkStatus::kPending;
}

void SoftwareQueuePair::Flush() {
  if (IsForkedChild()) return;
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::kIdle) return receiver_.CancelReceives();
  EndLocally();
  CompleteDisconnect(NdkStatus::kConnectionAborted);
}

void SoftwareQueuePair::OnClose() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  EndLocally();
  CompleteDisconnect(NdkStatus::kConnectionAborted);
}

// The consumer wants no more of it.
void SoftwareQueuePair::EndLocally() {
  on_end_ = nullptr;
  transmitter_.Abort({}, true);
  receives_end_ = true;
  receives_refused_ = true;
  receiver_.CancelReceives();
  if (phase_ == Phase::kConnected) CloseSocket();
}

void SoftwareQueuePair::CloseSocket() {
  phase_ = Phase::kEnded;
  alive_ = false;
  transmitter_.Stop();
  ProgressThread::Get().SetTimer(&look_timer_, std::nullopt);
  ProgressThread::Get().SetTimer(&deadline_, std::nullopt);
  watch_.Stop();
  parents_socket_ = {};
  socket_.Reset();
}

void SoftwareQueuePair::ReportEnd(const ConnectionEnd& end) {
  ConnectionEndCallback callback = std::exchange(on_end_, nullptr);
  if (callback == nullptr || disconnecting_) return;
  end_ = end;
  told_of_end_ = std::move(callback);
  ProgressThread::Get().Call(&tell_end_);
}

void SoftwareQueuePair::CompleteDisconnect(NdkStatus status) {
  if (disconnect_completion_ == nullptr) return;
  disconnect_status_ = status;
  disconnected_ = std::exchange(disconnect_completion_, nullptr);
  ProgressThread::Get().Call(&complete_disconnect_);
}

uint32_t SoftwareQueuePair::events() const {
  return (peer_ended_ ? 0u : EPOLLIN) | (transmitter_.wants_write() ? EPOLLOUT : 0u);
}

}  // namespace rdmabroker::iwarp
