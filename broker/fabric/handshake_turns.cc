// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/handshake_turns.h"

#include <utility>

namespace rdmabroker {

void HandshakeTurns::Wait(ConnectionId connection, SessionId session, const SocketAddress& peer, Begin begin) {
  Listener& listener = listeners_[peer];
  Share& share = listener.shares[session];
  const uint64_t number = ++last_;
  share.waiting.emplace(number, std::pair(connection, std::move(begin)));
  places_[connection] = {.peer = peer, .session = session, .number = number};
  if (share.waiting.size() == 1) StandInLine(listener, session, share);
  changed_.push_back(peer);
  BeginNext();
}

bool HandshakeTurns::End(ConnectionId connection) {
  const auto found = places_.find(connection);
  if (found == places_.end()) return false;
  const Place place = found->second;
  places_.erase(found);
  Listener& listener = listeners_.at(place.peer);
  Share& share = listener.shares.at(place.session);
  LeaveLine(listener, share);
  if (place.under_way) {
    --listener.under_way;
    --share.under_way;
  } else {
    share.waiting.erase(place.number);
  }
  if (!share.waiting.empty()) {
    StandInLine(listener, place.session, share);
  } else if (share.under_way == 0) {
    listener.shares.erase(place.session);
  }
  if (listener.shares.empty()) listeners_.erase(place.peer);
  const bool others = MayBegin(place.peer);
  if (others) changed_.push_back(place.peer);
  return others;
}

// One that has used its share up stands in no line until one of its handshakes ends.
void HandshakeTurns::StandInLine(Listener& listener, SessionId session, Share& share) {
  if (share.under_way >= at_a_time_ / 2) return;
  if (share.turn == 0) share.turn = ++last_;
  listener.line.emplace(share.turn, session);
}

bool HandshakeTurns::MayBegin(const SocketAddress& peer) const {
  const auto listener = listeners_.find(peer);
  if (held_ || listener == listeners_.end()) return false;
  return listener->second.under_way < at_a_time_ && !listener->second.line.empty();
}

HandshakeTurns::Begin HandshakeTurns::Next(const SocketAddress& peer) {
  if (!MayBegin(peer)) return nullptr;
  Listener& listener = listeners_.at(peer);
  const SessionId session = listener.line.begin()->second;
  Share& share = listener.shares.at(session);
  LeaveLine(listener, share);
  auto [connection, begin] = std::move(share.waiting.begin()->second);
  share.waiting.erase(share.waiting.begin());
  places_.at(connection).under_way = true;
  ++listener.under_way;
  ++share.under_way;
  share.turn = ++last_;
  if (!share.waiting.empty()) StandInLine(listener, session, share);
  return std::move(begin);
}

// One may end as soon as it begins, and so on with all that wait: in a loop, not in each other.
void HandshakeTurns::BeginNext() {
  if (std::exchange(beginning_, true)) return;
  for (; !changed_.empty(); changed_.pop_front()) {
    while (const Begin begin = Next(changed_.front())) begin();
  }
  beginning_ = false;
}

}  // namespace rdmabroker
