// SPDX-License-Identifier: Apache-2.0

#include "proto/rpc/frame_budget.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>

namespace rdmabroker::rpc {
namespace {

// A longer piece of a message costs its sender more than it costs to read.
constexpr uint32_t kSmallFrame = 1024;

}  // namespace

bool TokenBucket::Take(absl::Time now) {
  if (now > at_) {
    Add(rate_.a_second * absl::ToDoubleSeconds(now - at_));
    at_ = now;
  }
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

void TokenBucket::Add(double tokens) { tokens_ = std::min(rate_.burst, tokens_ + tokens); }

FrameBudget::FrameBudget(const Rates& rates, absl::Time now)
    : calls_(rates.calls, now), resets_(rates.resets, now), small_(rates.small, now) {}

void FrameBudget::EarnByReply(size_t octets) {
  const size_t frames = 1 + octets / kLongestFrame;
  small_.Add(3.0 * static_cast<double>(frames));
}

FrameBudget::Excess FrameBudget::Spend(const FrameHeader& frame, absl::Time now) {
  if (frame.type == NGHTTP2_HEADERS) return calls_.Take(now) ? Excess::kNone : Excess::kCalls;
  if (frame.type == NGHTTP2_RST_STREAM) return resets_.Take(now) ? Excess::kNone : Excess::kResets;
  if (frame.type == NGHTTP2_DATA && frame.length >= kSmallFrame) return Excess::kNone;
  return small_.Take(now) ? Excess::kNone : Excess::kSmallFrames;
}

}  // namespace rdmabroker::rpc
