// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/iwarp/adopted_connection.h"

#include <utility>

#include "broker/fabric/iwarp/sockets.h"
#include "broker/log/log.h"
#include "broker/runtime/kept_descriptor.h"

namespace rdmabroker {
namespace {

constexpr char kConnectAgain[] = "the broker was started again during the handshake; connect again";

}  // namespace

AdoptedConnection::AdoptedConnection(const IwarpSurroundings& surroundings, const FabricAdoptConnection& request)
    : Connection(surroundings, request.connection, request.peer) {
  const auto& records = std::as_const(surroundings_.records.connections);
  const auto record = records.find(id_);
  recorded_ = kept_ = record != records.end();
  if (recorded_) transport_ = DecodeTransport(record->second);
  TakeSocket(request.local);
  GoOn(request.stage);
}

void AdoptedConnection::GoOn(AdoptedStage stage) {
  switch (stage) {
    case AdoptedStage::kConnecting:
      return EndAsLost(FabricConnectFailed{id_, NdkStatus::kConnectionAborted, 0, {}, true, kConnectAgain});
    case AdoptedStage::kRequested:
    case AdoptedStage::kReplied:
      state_ = stage == AdoptedStage::kReplied ? State::kReplied : State::kRequested;
      if (transport_ && socket_) return;
      return EndAsLost(FabricFailed{id_, NdkStatus::kConnectionAborted, 0, {}, kConnectAgain});
    case AdoptedStage::kEstablished:
    case AdoptedStage::kOver:
      state_ = stage == AdoptedStage::kOver ? State::kOver : State::kEstablished;
      return GoOnAsEstablished();
  }
}

void AdoptedConnection::TakeSocket(const SocketAddress& local) {
  for (KeptDescriptor& kept : surroundings_.keep.Take(TransportName(id_))) {
    kept_ = true;
    if (IsConnection(kept.fd.get(), local, peer_)) socket_ = std::move(kept.fd);
  }
}

void AdoptedConnection::GoOnAsEstablished() {
  // The client may have it: it is not this fabric's to end.
  const bool sent = recorded_ && socket_ && WasSent(socket_.get());
  if (sent || !recorded_) CloseSocket(false);
  if (state_ == State::kOver || !recorded_) return;
  if (sent) return surroundings_.reports.Push(FabricHandedOff{id_});
  if (!transport_ || !socket_) return EndAsLost(FabricDisconnected{id_, NdkStatus::kConnectionAborted});
  OfferAgain(*std::move(transport_));
}

void AdoptedConnection::EndAsLost(FabricReport report) {
  const bool established = state_ == State::kEstablished;
  if (const auto left_out = surroundings_.losses.Pass(Loop::Now())) {
    LogWarning("connection lost with the process before",
               {{"connection", id_.value()},
                {"peer", peer_.ToString()},
                {"status", StatusName(NdkStatus::kConnectionAborted)},
                {"cause", established ? "its client had not fetched the transport" : "its handshake was under way"},
                {"left_out", *left_out}});
  }
  End(std::move(report));
}

void AdoptedConnection::ReportEstablished() {
  const HandoffSecret secret = transport_->secret;
  OfferAgain(*std::move(transport_));
  surroundings_.reports.Push(FabricEstablished{id_, secret});
}

void AdoptedConnection::Perform(const FabricComplete&) {
  if (state_ == State::kReplied) ReportEstablished();
}

void AdoptedConnection::Perform(const FabricAccept&) {
  if (state_ == State::kRequested) ReportEstablished();
}

}  // namespace rdmabroker
