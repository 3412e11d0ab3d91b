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

  // Removes one token. Returns false if there is none.
  [[nodiscard]] bool Take(absl::Time now);
  void Add(double tokens);

 private:
  const TokenRate rate_;
  double tokens_;
  absl::Time at_;
};

// Limits the frames that a user sends. All connections of a user share one budget, so that a new connection brings no
// new budget.
class FrameBudget {
 public:
  struct Rates {
    // New calls (HEADERS). One core serves no more; other limits of a caller are lower.
    TokenRate calls = {.burst = 2000, .a_second = 50'000};
    // RST_STREAM. A C++ client sends one for each call whose deadline passes, thousands at a time.
    TokenRate resets = {.burst = 5000, .a_second = 2000};
    // All other frames but long DATA: WINDOW_UPDATE, PING, SETTINGS, short DATA, unknown types. This is for frames
    // that a client sends on its own; those that it sends because of traffic are earned by the traffic.
    TokenRate small = {.burst = 1000, .a_second = 200};
  };
  enum class Excess { kNone, kCalls, kResets, kSmallFrames };

  FrameBudget(const Rates& rates, absl::Time now);

  // Charges a frame that has arrived. Returns the rate that it exceeds.
  [[nodiscard]] Excess Spend(const FrameHeader& frame, absl::Time now);

  // Adds the small frames that clients were seen to send for a call, a request and a reply. For a call, Go's client
  // sends a PING and two WINDOW_UPDATE, C++'s and Python's send three WINDOW_UPDATE. A reply earns by its octets: the
  // client determines the number of its frames by its window.
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
