// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/iwarp/handshake_turns.h"

#include <utility>

namespace rdmabroker {

void HandshakeTurns::Wait(ConnectionId connection, SessionId session, const IpAddress& ip, Begin begin) {
  Host& host = hosts_[ip];
  Share& share = host.shares[session];
  const uint64_t number = ++last_;
  share.waiting.emplace(number, std::pair(connection, std::move(begin)));
  places_[connection] = {.host = ip, .session = session, .number = number};
  if (share.waiting.size() == 1) StandInLine(host, session, share);
  BeginAll(ip);
}

void HandshakeTurns::End(ConnectionId connection) {
  const auto found = places_.find(connection);
  if (found == places_.end()) return;
  const Place place = found->second;
  places_.erase(found);
  Host& host = hosts_.at(place.host);
  Share& share = host.shares.at(place.session);
  LeaveLine(host, share);
  if (place.under_way) {
    --host.under_way;
    --share.under_way;
  } else {
    share.waiting.erase(place.number);
  }
  if (!share.waiting.empty()) {
    StandInLine(host, place.session, share);
  } else if (share.under_way == 0) {
    host.shares.erase(place.session);
  }
  if (host.shares.empty()) hosts_.erase(place.host);
  BeginAll(place.host);
}

// One that has used its share up stands in no line until one of its handshakes ends.
void HandshakeTurns::StandInLine(Host& host, SessionId session, Share& share) {
  if (share.under_way >= at_a_time_ / 2) return;
  if (share.turn == 0) share.turn = ++last_;
  host.line.emplace(share.turn, session);
}

HandshakeTurns::Begin HandshakeTurns::Next(const IpAddress& ip) {
  const auto found = hosts_.find(ip);
  if (found == hosts_.end()) return nullptr;
  Host& host = found->second;
  if (host.under_way >= at_a_time_ || host.line.empty()) return nullptr;
  const SessionId session = host.line.begin()->second;
  Share& share = host.shares.at(session);
  LeaveLine(host, share);
  auto [connection, begin] = std::move(share.waiting.begin()->second);
  share.waiting.erase(share.waiting.begin());
  places_.at(connection).under_way = true;
  ++host.under_way;
  ++share.under_way;
  share.turn = ++last_;
  if (!share.waiting.empty()) StandInLine(host, session, share);
  return std::move(begin);
}

// One may end as soon as it begins, and so on with all that wait: in a loop, not in each other.
void HandshakeTurns::BeginAll(const IpAddress& ip) {
  changed_.push_back(ip);
  if (std::exchange(beginning_, true)) return;
  for (; !changed_.empty(); changed_.pop_front()) {
    while (const Begin begin = Next(changed_.front())) begin();
  }
  beginning_ = false;
}

}  // namespace rdmabroker
