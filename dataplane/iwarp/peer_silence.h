// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_PEER_SILENCE_H_
#define DATAPLANE_IWARP_PEER_SILENCE_H_

#include <chrono>
#include <cstdint>
#include <optional>

namespace rdmabroker::iwarp {

// What a connected socket's TCP knows.
struct TcpState {
  bool closed = false;                      // The connection is over; an error of the socket's tells why.
  std::chrono::milliseconds silence{0};     // Since anything came from the peer's TCP.
  std::chrono::milliseconds since_sent{0};  // Since data was sent, or sent again.
  bool unacknowledged = false;              // Some of it is.
  bool unsent = false;                      // Something waits to be sent: alone, it is the peer who takes no more.
  uint32_t unanswered = 0;                  // Probes, of a silent peer or of one that takes no more.
};
// Nothing where the socket is not TCP's.
std::optional<TcpState> ReadTcpState(int socket);

// Has TCP ask a silent peer, so that it has been asked for half of `keepalive` when that is over. 0: not at all. The
// verdict is PeerSilence's, unless it comes much too late.
void AskSilentPeer(int socket, std::chrono::seconds keepalive);

// Judges, from what TCP knows at some moments, when a peer's host counts as dead. TCP's own means do not: while
// something is unacknowledged or unsent it sends no keepalive probes, and TCP_USER_TIMEOUT takes a peer that takes
// nothing for one that is gone, although its host answers all the time. Not thread-safe.
class PeerSilence {
 public:
  using Clock = std::chrono::steady_clock;

  explicit PeerSilence(std::chrono::seconds keepalive) : keepalive_(keepalive) {}

  // To be called when NextLook says; the first time an eighth of the time after the connection began.
  bool IsDead(const TcpState& state, Clock::time_point now);
  Clock::time_point NextLook(const TcpState& state, Clock::time_point now) const;

 private:
  bool IsAsked(const TcpState& state) const;

  const std::chrono::milliseconds keepalive_;
  // Since when, as far as the looks tell, the peer owes an answer.
  std::optional<Clock::time_point> asked_since_;
};

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_PEER_SILENCE_H_
