// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/iwarp/active_connection.h"

#include <sys/epoll.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "broker/fabric/iwarp/sockets.h"
#include "broker/fabric/iwarp/waiting_connect.h"
#include "dataplane/iwarp/wire/bytes.h"
#include "dataplane/tcp/tcp_state.h"

namespace rdmabroker {
namespace {

// The longest reply. What the peer sends behind it stays in the kernel for the client, or is handed over.
constexpr size_t kMaxReply = iwarp::kStartupHeaderLength + iwarp::kMaxStartupPrivateData;

// Whether a connection between these addresses is open. If not, it is ending, or the kernel has it in TIME_WAIT.
bool IsOpen(const SocketAddress& local, const SocketAddress& peer) {
  tcp::TcpState state;
  return tcp::FindTcpState(local, peer, &state) == 0 && state.open;
}

}  // namespace

ActiveConnection::ActiveConnection(const IwarpSurroundings& surroundings, const FabricConnect& request)
    : Connection(surroundings, request.connection, request.peer), wanted_(request) {
  // One that was left to this process is this one's from the next commit on, which comes before a turn of the loop in
  // which a request may leave for the peer: so that is made once, whoever dies.
  surroundings_.records.connections.erase(id_);
  AwaitTurn();
}

void ActiveConnection::AwaitTurn() {
  state_ = State::kWaiting;
  if (surroundings_.turns.held()) return LeaveToNext();
  surroundings_.turns.Wait(id_, wanted_.session, wanted_.peer, [this] { OnTurn(); });
}

void ActiveConnection::MakeWay() {
  if (state_ == State::kWaiting) LeaveToNext();
}

void ActiveConnection::LeaveToNext() {
  CloseSocket();
  kept_ = true;
  surroundings_.records.connections[id_] = EncodeWaiting(wanted_);
}

void ActiveConnection::OnTurn() {
  // The time before it is not the handshake's.
  if (first_turn_ == absl::InfinitePast()) first_turn_ = Loop::Now();
  StartConnecting();
}

void ActiveConnection::StartConnecting() {
  // TCP would connect the socket with itself.
  if (wanted_.local == wanted_.peer) return Refuse(ECONNREFUSED);
  NewSocket bound = BindBeside(wanted_.local);
  if (bound.error == EADDRNOTAVAIL) {
    return Refuse(ENETUNREACH, absl::StrCat("this host has lost the address ", wanted_.local.ToString()));
  }
  if (bound.error != 0) return Refuse(bound.error);
  socket_ = std::move(bound.socket);
  const int error = rdmabroker::StartConnecting(socket_.get(), wanted_.peer);
  if (error == EADDRNOTAVAIL && !wanted_.any_port) return TryLater(error);
  if (error != 0 && error != EINPROGRESS) return Refuse(error);
  state_ = State::kConnecting;
  SetDeadline(surroundings_.options.handshakes.reply_wait);
  Await(EPOLLOUT);
}

void ActiveConnection::TryLater(int error) {
  const absl::Duration waits =
      IsOpen(wanted_.local, wanted_.peer) ? surroundings_.options.open_wait : surroundings_.options.time_wait;
  if (Loop::Now() >= first_turn_ + waits) return Refuse(error);
  CloseSocket();
  state_ = State::kWaiting;
  SetDeadline(surroundings_.options.time_wait_poll);
}

void ActiveConnection::OnDeadline() {
  if (state_ == State::kWaiting) return AwaitTurn();
  // The reply is waited for on.
  EndTurn();
}

void ActiveConnection::OnReady(uint32_t events) {
  switch (state_) {
    case State::kConnecting:
      return SendRequest();
    case State::kRequesting:
      return ReceiveReply();
    case State::kReplied:
      return AwaitDecision(events);
    default:
      return;
  }
}

// Where TCP could not connect, the send tells why.
void ActiveConnection::SendRequest() {
  offer_ = OfferFor(wanted_.limits);
  const absl::StatusOr<iwarp::StartupFrame> request = iwarp::BuildRequest(offer_, iwarp::AsText(wanted_.private_data));
  const absl::StatusOr<std::string> frame =
      request.ok() ? iwarp::EncodeStartupFrame(*request) : absl::StatusOr<std::string>(request.status());
  if (!frame.ok()) return Refuse(EMSGSIZE);
  request_ = *request;
  if (const int error = SendWhole(socket_.get(), iwarp::AsBytes(*frame)); error != 0) return Refuse(error);
  state_ = State::kRequesting;
  Await(kInput);
}

void ActiveConnection::ReceiveReply() {
  const int error = Receive(socket_.get(), kMaxReply - input_.size(), &input_);
  if (error == EAGAIN) return Await(kInput);
  if (error != 0) return Refuse(error == ENODATA ? ECONNRESET : error);
  const auto reply = iwarp::DecodeStartupFrame(iwarp::AsBytes(input_), iwarp::StartupKind::kReply);
  if (!reply.ok()) return Refuse(EPROTO, std::string(reply.status().message()));
  if (!reply->has_value()) return Await(kInput);
  input_.erase(0, (*reply)->length);
  OnReply((*reply)->frame);
}

void ActiveConnection::OnReply(const iwarp::StartupFrame& reply) {
  auto outcome = iwarp::CheckReply(request_, offer_, reply);
  if (!outcome.ok()) return Refuse(EPROTO, std::string(outcome.status().message()));
  if (const auto* rejected = std::get_if<iwarp::Rejected>(&*outcome)) {
    return End(FabricConnectFailed{id_, NdkStatus::kConnectionRefused, ECONNREFUSED,
                                   Bytes(rejected->private_data.begin(), rejected->private_data.end()), true});
  }
  agreed_ = std::get<iwarp::ConnectionState>(*std::move(outcome));
  state_ = State::kReplied;
  EndTurn();
  surroundings_.reports.Push(FabricReplied{id_,
                                           {agreed_.outbound_read_limit, agreed_.inbound_read_limit},
                                           Bytes(agreed_.peer_data.begin(), agreed_.peer_data.end()),
                                           agreed_.three_way(),
                                           {}});
  Await(kInput);
}

void ActiveConnection::Perform(const FabricComplete& request) {
  if (state_ != State::kReplied) return;
  agreed_.inbound_read_limit = request.limits.inbound;
  agreed_.outbound_read_limit = request.limits.outbound;
  const std::vector<uint8_t> message = iwarp::ReadyToReceiveMessage(&agreed_);
  const int error = message.empty() ? SocketError(socket_.get()) : SendWhole(socket_.get(), message);
  if (error != 0) return Fail(error);
  Establish(std::move(agreed_));
}

void ActiveConnection::Refuse(int error, std::string explanation) {
  End(FabricConnectFailed{
      id_, SocketStatus(SocketStep::kConnect, error), static_cast<uint32_t>(error), {}, true, std::move(explanation)});
}

}  // namespace rdmabroker
