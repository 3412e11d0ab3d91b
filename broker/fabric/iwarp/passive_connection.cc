// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/iwarp/passive_connection.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "dataplane/iwarp/wire/bytes.h"

namespace rdmabroker {
namespace {

// Holds the longest ready-to-receive message (52 bytes) several times; what is behind it is handed over.
constexpr size_t kReadAtATime = 512;
// What a rejected peer may have sent that is worth waiting for at a time.
constexpr size_t kDiscardAtATime = 4096;

}  // namespace

PassiveConnection::PassiveConnection(const IwarpSurroundings& surroundings, ConnectionId id, EndpointId endpoint,
                                     AcceptedSocket accepted, iwarp::StartupFrame request)
    : Connection(surroundings, id, accepted.peer), request_(std::move(request)) {
  socket_ = std::move(accepted.socket);
  state_ = State::kRequested;
  const iwarp::RequestTerms terms = iwarp::TermsOf(request_);
  // What the peer grants us inbound is what it issues outbound.
  const ReadLimits peer_limits = {.inbound = terms.outbound_read_limit, .outbound = terms.inbound_read_limit};
  surroundings_.reports.Push(FabricConnectRequested{endpoint,
                                                    id_,
                                                    accepted.local,
                                                    peer_,
                                                    peer_limits,
                                                    Bytes(request_.private_data.begin(), request_.private_data.end()),
                                                    terms.three_way,
                                                    {}});
  Await(kInput);
}

void PassiveConnection::Perform(const FabricAccept& request) {
  if (state_ != State::kRequested) return;
  auto accepted = iwarp::BuildReply(request_, OfferFor(request.limits), iwarp::AsText(request.private_data));
  const absl::StatusOr<std::string> frame =
      accepted.ok() ? iwarp::EncodeStartupFrame(accepted->reply) : absl::StatusOr<std::string>(accepted.status());
  if (!frame.ok()) return End(FabricFailed{id_, NdkStatus::kInvalidBufferSize, EMSGSIZE, {}});
  if (const int error = SendWhole(socket_.get(), iwarp::AsBytes(*frame)); error != 0) return Fail(error);
  agreed_ = std::move(accepted->state);
  if (!agreed_.three_way()) return Establish(std::move(agreed_));
  state_ = State::kAccepting;
  Await(kInput);
}

void PassiveConnection::Perform(const FabricReject& request) {
  if (state_ != State::kRequested) return Release();
  const auto reject = iwarp::BuildReject(request_, iwarp::AsText(request.private_data));
  const absl::StatusOr<std::string> frame =
      reject.ok() ? iwarp::EncodeStartupFrame(*reject) : absl::StatusOr<std::string>(reject.status());
  ResetOnClose(socket_.get(), false);
  if (!frame.ok() || SendWhole(socket_.get(), iwarp::AsBytes(*frame)) != 0) return Release();
  ::shutdown(socket_.get(), SHUT_WR);
  state_ = State::kRejecting;
  SetDeadline(surroundings_.options.linger);
  Await(kInput);
}

void PassiveConnection::OnReady(uint32_t events) {
  switch (state_) {
    case State::kRequested:
      return AwaitDecision(events);
    case State::kAccepting:
      return ReceiveReady();
    case State::kRejecting:
      return Discard();
    default:
      return;
  }
}

void PassiveConnection::OnDeadline() {
  if (state_ != State::kRejecting) return;
  CloseSocket(false);
  Release();
}

void PassiveConnection::ReceiveReady() {
  const int error = Receive(socket_.get(), kReadAtATime, &input_);
  if (error == EAGAIN) return Await(kInput);
  if (error != 0) return Fail(error == ENODATA ? ECONNRESET : error);
  const auto taken = iwarp::TakeReadyToReceive(iwarp::AsBytes(input_), &agreed_);
  if (!taken.ok()) return Fail(EPROTO, std::string(taken.status().message()));
  if (!taken->has_value()) return Await(kInput);
  input_.erase(0, (*taken)->length);
  if (!(*taken)->response.empty()) {
    if (const int sent = SendWhole(socket_.get(), (*taken)->response); sent != 0) return Fail(sent);
  }
  Establish(std::move(agreed_));
}

void PassiveConnection::Discard() {
  input_.clear();
  const int error = Receive(socket_.get(), kDiscardAtATime, &input_);
  if (error != 0 && error != EAGAIN) return Release();
  Await(kInput);
}

}  // namespace rdmabroker
