// SPDX-License-Identifier: Apache-2.0

// How a connection of ours begins: when its turn has come, and nothing of it is at the kernel before.

#include <utility>

#include "broker/fabric/rdmacm/cm_connection.h"

namespace rdmabroker {

CmConnection::~CmConnection() { surroundings_.loop.CancelTimer(reply_wait_); }

void CmConnection::Start(const FabricConnect& request) {
  request_ = request;
  towards_ = {PeerWait::kTimed, request.uid, request.session, request.peer.ip.ToString()};
  AwaitTurn();
}

void CmConnection::AwaitTurn() {
  state_ = State::kWaiting;
  surroundings_.turns.Wait(id_, request_->session, request_->peer, [this] { OnTurn(); });
  if (state_ == State::kWaiting) Save();
}

void CmConnection::OnTurn() {
  // The reply is waited for on.
  reply_wait_ =
      surroundings_.loop.StartTimer(Loop::Now() + surroundings_.options.handshakes.reply_wait, [this] { EndTurn(); });
  Resolve();
}

void CmConnection::EndTurn() {
  surroundings_.loop.CancelTimer(std::exchange(reply_wait_, TimerId::kNone));
  if (surroundings_.turns.End(id_)) surroundings_.begin_next();
}

}  // namespace rdmabroker
