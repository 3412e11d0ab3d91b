// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/iwarp_handshakes.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "dataplane/iwarp/adapter.h"
#include "dataplane/iwarp/wire/negotiation.h"
#include "tests/bench/handshake_times.h"
#include "tests/bench/require.h"

namespace rdmabroker::bench {
namespace {

// A broker offers the same to a peer on its machine.
constexpr iwarp::Offer kOffer = {.crc = true, .fpdu_limit = iwarp::kMaxFpduLength};
constexpr int kPatienceMs = 60'000;  // Far more than any handshake takes.

UniqueFd NewSocket() {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  Require(static_cast<bool>(socket), "socket");
  return socket;
}

void SetNoDelay(int socket) {
  const int on = 1;
  Require(::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
}

void Send(int socket, std::string_view octets) {
  Require(::send(socket, octets.data(), octets.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(octets.size()), "send");
}

// Reads what has arrived. The peer sends no more than one message at a time.
void ReceiveInto(int socket, std::vector<uint8_t>* input) {
  std::array<uint8_t, 1024> octets;
  const ssize_t length = ::recv(socket, octets.data(), octets.size(), 0);
  Require(length > 0, "recv");
  input->insert(input->end(), octets.begin(), octets.begin() + length);
}

// Returns nothing until the whole frame has arrived.
std::optional<iwarp::StartupFrame> TakeFrame(std::vector<uint8_t>* input, iwarp::StartupKind kind) {
  const auto decoded = iwarp::DecodeStartupFrame(*input, kind);
  Require(decoded.ok(), "DecodeStartupFrame");
  if (!*decoded) return std::nullopt;
  input->clear();
  return (*decoded)->frame;
}

sockaddr_in ToSystem(const SocketAddress& address) {
  sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(address.port)};
  std::memcpy(&in.sin_addr, address.ip.bytes.data(), sizeof in.sin_addr);
  return in;
}

}  // namespace

IwarpSide::IwarpSide(HandshakeBoard& board)
    : board_(board), queue_pairs_(iwarp::OpenAdapter().object), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

void IwarpSide::Handle(const Command& command) {
  switch (command.order) {
    case Order::kPrepare:
      established_ = 0;
      return queue_pairs_.Make(command.connections);
    case Order::kRun:
      return Run(command.at_once);
    case Order::kEnd:
      return queue_pairs_.Close();
  }
}

void IwarpSide::ServeUntil(size_t established) {
  std::array<epoll_event, 64> events;
  while (established_ < established) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), kPatienceMs);
    Require(count > 0, "nothing happens any more");
    for (int i = 0; i < count; ++i) HandleReady(events[i].data.fd);
  }
}

void IwarpSide::Watch(int fd, uint32_t events, int operation) {
  epoll_event event = {.events = events, .data = {.fd = fd}};
  Require(::epoll_ctl(epoll_.get(), operation, fd, &event) == 0, "epoll_ctl");
}

void IwarpSide::Attach(int fd) {
  Watch(fd, 0, EPOLL_CTL_DEL);
  auto end = ends_.extract(fd);
  const NdkStatus attached = queue_pairs_[end.mapped().index]->Attach(
      {std::move(end.mapped().socket), iwarp::EncodeConnectionState(end.mapped().state)}, [](const ConnectionEnd&) {});
  Require(attached == NdkStatus::kSuccess, "Attach");
  ++established_;
}

void IwarpActiveSide::Run(bool at_once) {
  const auto connections = static_cast<uint32_t>(queue_pairs_.size());
  for (uint32_t index = 0; index < connections; ++index) {
    Connect(index);
    if (at_once) continue;
    ServeUntil(index + 1);
    board_.AwaitPassive();
  }
  if (!at_once) return;
  ServeUntil(connections);
  for (uint32_t index = 0; index < connections; ++index) board_.AwaitPassive();
}

void IwarpActiveSide::Connect(uint32_t index) {
  board_.times[index].begun = NanosecondsNow();
  UniqueFd socket = NewSocket();
  SetNoDelay(socket.get());
  const sockaddr_in to = ToSystem({ip_, board_.port});
  const int connected = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
  Require(connected == 0 || errno == EINPROGRESS, "connect");
  const int fd = socket.get();
  Watch(fd, EPOLLOUT);
  ends_[fd] = {.socket = std::move(socket), .index = index};
}

void IwarpActiveSide::HandleReady(int fd) {
  End& end = ends_.at(fd);
  if (!end.asked) return SendRequest(end);
  ReceiveInto(fd, &end.input);
  const auto reply = TakeFrame(&end.input, iwarp::StartupKind::kReply);
  if (!reply) return;
  const auto answer = iwarp::CheckReply(end.request, kOffer, *reply);
  Require(answer.ok() && std::holds_alternative<iwarp::ConnectionState>(*answer), "CheckReply");
  end.state = std::get<iwarp::ConnectionState>(*answer);
  HandshakeTimes& times = board_.times[end.index];
  times.replied = NanosecondsNow();
  const std::vector<uint8_t> ready = iwarp::ReadyToReceiveMessage(&end.state);
  Send(fd, {reinterpret_cast<const char*>(ready.data()), ready.size()});
  Attach(fd);
  times.active_established = NanosecondsNow();
}

// The index travels in the private data.
void IwarpActiveSide::SendRequest(End& end) {
  auto request = iwarp::BuildRequest(kOffer, {reinterpret_cast<const char*>(&end.index), sizeof end.index});
  Require(request.ok(), "BuildRequest");
  end.request = *std::move(request);
  end.asked = true;
  Send(end.socket.get(), *iwarp::EncodeStartupFrame(end.request));
  Watch(end.socket.get(), EPOLLIN, EPOLL_CTL_MOD);
}

IwarpPassiveSide::IwarpPassiveSide(const IpAddress& ip, HandshakeBoard& board)
    : IwarpSide(board), listener_(NewSocket()) {
  sockaddr_in address = ToSystem({ip, 0});
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  Require(::bind(listener_.get(), generic, length) == 0, "bind");
  Require(::listen(listener_.get(), SOMAXCONN) == 0, "listen");
  Require(::getsockname(listener_.get(), generic, &length) == 0, "getsockname");
  board_.port = ntohs(address.sin_port);
  Watch(listener_.get(), EPOLLIN);
}

void IwarpPassiveSide::Run(bool) { ServeUntil(queue_pairs_.size()); }

void IwarpPassiveSide::HandleReady(int fd) {
  if (fd == listener_.get()) return AcceptAll();
  End& end = ends_.at(fd);
  ReceiveInto(fd, &end.input);
  if (!end.asked) return TakeRequest(end);
  const auto taken = iwarp::TakeReadyToReceive(end.input, &end.state);
  Require(taken.ok(), "TakeReadyToReceive");
  if (!*taken) return;
  const uint32_t index = end.index;
  Attach(fd);
  board_.NotePassive(index);
}

void IwarpPassiveSide::AcceptAll() {
  while (true) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      Require(errno == EAGAIN, "accept4");
      return;
    }
    const int fd = socket.get();
    SetNoDelay(fd);
    Watch(fd, EPOLLIN);
    ends_[fd] = {.socket = std::move(socket)};
  }
}

void IwarpPassiveSide::TakeRequest(End& end) {
  const auto request = TakeFrame(&end.input, iwarp::StartupKind::kRequest);
  if (!request) return;
  Require(request->private_data.size() >= sizeof end.index, "a stranger connects");
  std::memcpy(&end.index, request->private_data.data(), sizeof end.index);
  Require(end.index < queue_pairs_.size(), "a stranger connects");
  const auto accepted = iwarp::BuildReply(*request, kOffer, "");
  Require(accepted.ok(), "BuildReply");
  end.state = accepted->state;
  end.asked = true;
  Send(end.socket.get(), *iwarp::EncodeStartupFrame(accepted->reply));
}

}  // namespace rdmabroker::bench
