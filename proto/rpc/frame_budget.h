// SPDX-License-Identifier: Apache-2.0

#ifndef PROTO_RPC_FRAME_BUDGET_H_
#define PROTO_RPC_FRAME_BUDGET_H_

#include <cstddef>

#include "absl/time/time.h"
#include "proto/rpc/frame_scan.h"

namespace rdmabroker::rpc {

// A number of tokens that grows with time up to `burst`.
struct TokenRate {
  double burst = 0;
  double a_second = 0;
};

class TokenBucket {
 public:
  TokenBucket(TokenRate rate, absl::Time now) : rate_(rate), tokens_(rate.burst), at_(now) {}

  // Takes one. False: there was none.
  [[nodiscard]] bool Take(absl::Time now);
  void Add(double tokens);

 private:
  const TokenRate rate_;
  double tokens_;
  absl::Time at_;
};

// How many frames a peer may send. The connections of one user share one, as a new connection would otherwise come with
// a new budget.
class FrameBudget {
 public:
  struct Rates {
    // Calls that begin: what one core serves, beside which other bounds hold a caller back first.
    TokenRate calls = {.burst = 2000, .a_second = 50'000};
    // A C++ client resets each call whose deadline passes, thousands at a time.
    TokenRate resets = {.burst = 5000, .a_second = 2000};
    // All frames that carry no call and no long piece of a message: WINDOW_UPDATE, PING, SETTINGS, unknown types.
    // Clients send them in answer to traffic, with which their number grows (Earn); these are for what they send
    // unasked.
    TokenRate small = {.burst = 1000, .a_second = 200};
  };
  enum class Excess { kNone, kCalls, kResets, kSmallFrames };

  FrameBudget(const Rates& rates, absl::Time now);

  // A frame has arrived. Says which of the rates it is above.
  [[nodiscard]] Excess Spend(const FrameHeader& frame, absl::Time now);

  // What clients were seen to send for each: Go's a PING and two WINDOW_UPDATE for a call, C++'s and Python's three
  // WINDOW_UPDATE and, for a request that comes in two frames, a small one. A reply earns by its octets and not by its
  // frames, as those can be made tiny by who reads them.
  void EarnByCall() { small_.Add(8); }
  void EarnByRequest() { small_.Add(1); }
  void EarnByReply(size_t octets);

 private:
  TokenBucket calls_;
  TokenBucket resets_;
  TokenBucket small_;
};

}  // namespace rdmabroker::rpc

#endif  // PROTO_RPC_FRAME_BUDGET_H_
