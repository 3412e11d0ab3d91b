// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_TCP_PEER_SILENCE_H_
#define DATAPLANE_TCP_PEER_SILENCE_H_

#include <chrono>
#include <optional>

#include "dataplane/tcp/tcp_state.h"

namespace rdmabroker::tcp {

// Has TCP ask a silent peer, so that it has been asked for half of `keepalive` when that is over. 0: not at all. The
// verdict is PeerSilence's, unless it comes much too late.
void AskSilentPeer(int socket, std::chrono::seconds keepalive);

// Judges, from what TCP knows at some moments, when a peer's host counts as dead. TCP's own means do not: while
// something is unacknowledged or unsent it sends no keepalive probes, and TCP_USER_TIMEOUT takes a peer that takes
// nothing for one that is gone, although its host answers all the time. Not thread-safe.
class PeerSilence {
 public:
  using Clock = std::chrono::steady_clock;

  // What a silent peer owes an answer to: the probes of AskSilentPeer, too, or data alone.
  enum class Asking { kProbes, kDataOnly };

  explicit PeerSilence(std::chrono::seconds keepalive, Asking asking = Asking::kProbes)
      : keepalive_(keepalive), asking_(asking) {}

  // To be called when NextLook says; the first time an eighth of the time after the connection began.
  bool IsDead(const TcpState& state, Clock::time_point now);
  Clock::time_point NextLook(const TcpState& state, Clock::time_point now) const;

 private:
  bool IsAsked(const TcpState& state) const;

  const std::chrono::milliseconds keepalive_;
  const Asking asking_;
  // Since when, as far as the looks tell, the peer owes an answer.
  std::optional<Clock::time_point> asked_since_;
};

}  // namespace rdmabroker::tcp

#endif  // DATAPLANE_TCP_PEER_SILENCE_H_
