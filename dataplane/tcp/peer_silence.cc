// SPDX-License-Identifier: Apache-2.0

#include "dataplane/tcp/peer_silence.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>

namespace rdmabroker::tcp {
namespace {

// How often it looks, and for what part of the time a peer has to owe an answer: a machine that has stood still finds
// a long silence when it goes on, but no answer that it has waited for.
constexpr int kLooks = 8;
constexpr int kAskedFor = 4;

// TCP's probes of a peer that takes no more come at longer and longer intervals, up to two minutes; one may be lost.
constexpr uint32_t kUnansweredWhenClosed = 2;

void Set(int socket, int level, int option, int64_t value) {
  const int number = static_cast<int>(value);
  ::setsockopt(socket, level, option, &number, sizeof number);
}

}  // namespace

void AskSilentPeer(int socket, std::chrono::seconds keepalive) {
  Set(socket, SOL_SOCKET, SO_KEEPALIVE, keepalive.count() > 0 ? 1 : 0);
  if (keepalive.count() == 0) return;
  const int64_t begin = std::max<int64_t>(1, keepalive.count() / 2);
  const int64_t interval = std::max<int64_t>(1, keepalive.count() / 10);
  Set(socket, IPPROTO_TCP, TCP_KEEPIDLE, begin);
  Set(socket, IPPROTO_TCP, TCP_KEEPINTVL, interval);
  // One more than fit, since at the last TCP ends the connection by itself.
  Set(socket, IPPROTO_TCP, TCP_KEEPCNT, (keepalive.count() - begin + interval - 1) / interval + 1);
}

bool PeerSilence::IsAsked(const TcpState& state) const {
  // Where the peer has taken its window back, what is sent again is answered, and comes at longer intervals, too.
  if (state.unacknowledged) return state.since_sent < state.silence;
  if (state.unsent) return state.unanswered >= kUnansweredWhenClosed;
  return asking_ == Asking::kProbes && state.silence >= keepalive_ / 2;
}

bool PeerSilence::IsDead(const TcpState& state, Clock::time_point now) {
  if (!IsAsked(state)) {
    asked_since_.reset();
    return false;
  }
  // Whatever it owed before it was heard, it owes since then only.
  asked_since_ = std::max(asked_since_.value_or(now), now - state.silence);
  return state.silence >= keepalive_ && now - *asked_since_ >= keepalive_ / kAskedFor;
}

PeerSilence::Clock::time_point PeerSilence::NextLook(const TcpState& state, Clock::time_point now) const {
  const std::chrono::milliseconds regular = keepalive_ / kLooks;
  const std::chrono::milliseconds left = keepalive_ - state.silence;
  return now + (left > left.zero() ? std::min(left, regular) : regular);
}

}  // namespace rdmabroker::tcp
