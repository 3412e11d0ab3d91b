// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_HANDSHAKE_TURNS_H_
#define BROKER_FABRIC_HANDSHAKE_TURNS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "absl/time/time.h"
#include "broker/core/ids.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker {

// How many handshakes are under way towards one listener at a time; the others wait.
struct HandshakePace {
  // Half of the longest queue that TCP's listeners had before Linux 5.4 (SOMAXCONN, 128), so that two brokers at once
  // do not overflow it. rdma_cm's have 1024 by default (net.rdma_ucm.max_backlog), for all who connect. At least two.
  size_t per_listener = 64;
  // How long one counts so: longer than a round trip in a data centre, after which a TCP listener has taken it from its
  // queue. A peer whose consumer has not decided by then does not keep others waiting, and may reply later.
  absl::Duration reply_wait = absl::Milliseconds(100);
};

// When handshakes towards a listener may begin: so many at a time, so that a storm of them does not overflow its queue,
// whose kernel would drop or refuse what is too much, and TCP try again after seconds. The others wait. The sessions
// that wait for one listener take turns, and none of them has more than half of what is under way there, so that one
// session's thousand do not keep another's one waiting. What one session has waiting begins in the order in which it
// came.
//
// What waits is bounded by how many connectors sessions may have (limits.h). Each function takes logarithmic time.
// Without input or output. One thread.
class HandshakeTurns {
 public:
  using Begin = std::function<void()>;

  // At least two.
  explicit HandshakeTurns(size_t at_a_time) : at_a_time_(at_a_time) {}
  HandshakeTurns(const HandshakeTurns&) = delete;
  HandshakeTurns& operator=(const HandshakeTurns&) = delete;

  // Calls `begin` once, when its turn has come, unless End comes before: from here or from BeginNext. `begin` may call
  // any function; what that lets begin starts after it has returned. No other of that connection's waits or is under
  // way.
  void Wait(ConnectionId connection, SessionId session, const SocketAddress& peer, Begin begin);
  // It waits no more and is not under way any more. Nothing where it does neither. Whether others may begin now.
  [[nodiscard]] bool End(ConnectionId connection);
  // Those begin that may.
  void BeginNext();
  // From now on none begins, be there room or not.
  void Hold() { held_ = true; }
  bool held() const { return held_; }

 private:
  // What a session has towards a listener.
  struct Share {
    size_t under_way = 0;
    uint64_t turn = 0;  // When its last one began, or its first one came: the least is next.
    std::map<uint64_t, std::pair<ConnectionId, Begin>> waiting;  // In the order in which they came.
  };
  struct Listener {
    size_t under_way = 0;
    std::map<SessionId, Share> shares;
    std::map<uint64_t, SessionId> line;  // The sessions one of which is next, by turn.
  };
  struct Place {
    SocketAddress peer;
    SessionId session;
    uint64_t number = 0;  // In `waiting`.
    bool under_way = false;
  };

  void StandInLine(Listener& listener, SessionId session, Share& share);
  void LeaveLine(Listener& listener, const Share& share) { listener.line.erase(share.turn); }
  bool MayBegin(const SocketAddress& peer) const;
  // The next one there, which counts as under way; nothing where none may begin.
  Begin Next(const SocketAddress& peer);

  const size_t at_a_time_;
  uint64_t last_ = 0;  // Of numbers and turns.
  std::map<SocketAddress, Listener> listeners_;
  std::map<ConnectionId, Place> places_;
  std::deque<SocketAddress> changed_;  // Where something may begin, until it does.
  bool beginning_ = false;
  bool held_ = false;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_HANDSHAKE_TURNS_H_
