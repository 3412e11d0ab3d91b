// SPDX-License-Identifier: Apache-2.0

#include "proto/rpc/frame_budget.h"

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

namespace rdmabroker::rpc {
namespace {

using Excess = FrameBudget::Excess;

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);
constexpr FrameBudget::Rates kRates = {
    .calls = {.burst = 2, .a_second = 1}, .resets = {.burst = 3, .a_second = 1}, .small = {.burst = 4, .a_second = 2}};

int FramesUntil(FrameBudget& budget, const FrameHeader& frame, Excess excess, absl::Time now = kNow) {
  for (int frames = 0; frames < 1000; ++frames) {
    const Excess told = budget.Spend(frame, now);
    if (told == Excess::kNone) continue;
    EXPECT_EQ(told, excess);
    return frames;
  }
  return -1;
}

TEST(FrameBudgetTest, EachKindOfFrameHasItsRate) {
  struct Row {
    FrameHeader frame;
    Excess excess;
    int burst;
  };
  for (const Row& row : {
           Row{{.type = NGHTTP2_HEADERS}, Excess::kCalls, 2},
           Row{{.length = 4, .type = NGHTTP2_RST_STREAM}, Excess::kResets, 3},
           Row{{.length = 8, .type = NGHTTP2_PING}, Excess::kSmallFrames, 4},
           Row{{.length = 4, .type = NGHTTP2_WINDOW_UPDATE}, Excess::kSmallFrames, 4},
           Row{{.length = 6, .type = NGHTTP2_SETTINGS}, Excess::kSmallFrames, 4},
           Row{{.length = 5, .type = NGHTTP2_PRIORITY}, Excess::kSmallFrames, 4},
           Row{{.length = 16384, .type = NGHTTP2_CONTINUATION}, Excess::kSmallFrames, 4},
           Row{{.length = 16384, .type = 0xFA}, Excess::kSmallFrames, 4},
           Row{{.length = 1023, .type = NGHTTP2_DATA}, Excess::kSmallFrames, 4},
           Row{{.length = 1024, .type = NGHTTP2_DATA}, Excess::kNone, -1},
       }) {
    FrameBudget budget(kRates, kNow);
    EXPECT_EQ(FramesUntil(budget, row.frame, row.excess), row.burst) << int{row.frame.type};
  }
}

TEST(FrameBudgetTest, TimeGivesFramesBackUpToTheBurst) {
  constexpr FrameHeader kPing = {.length = 8, .type = NGHTTP2_PING};
  FrameBudget budget(kRates, kNow);
  EXPECT_EQ(FramesUntil(budget, kPing, Excess::kSmallFrames), 4);
  EXPECT_EQ(FramesUntil(budget, kPing, Excess::kSmallFrames, kNow + absl::Seconds(1)), 2);
  EXPECT_EQ(FramesUntil(budget, kPing, Excess::kSmallFrames, kNow + absl::Hours(1)), 4);
  EXPECT_EQ(FramesUntil(budget, kPing, Excess::kSmallFrames, kNow), 0) << "a clock that goes back gives none";
}

TEST(FrameBudgetTest, TrafficEarnsSmallFramesAndNothingElse) {
  FrameBudget budget({.calls = {.burst = 1}, .resets = {.burst = 1}, .small = {.burst = 100}}, kNow);
  constexpr FrameHeader kPing = {.length = 8, .type = NGHTTP2_PING};
  EXPECT_EQ(FramesUntil(budget, kPing, Excess::kSmallFrames), 100);
  EXPECT_EQ(FramesUntil(budget, {.type = NGHTTP2_HEADERS}, Excess::kCalls), 1);
  budget.EarnByCall();
  EXPECT_EQ(FramesUntil(budget, kPing, Excess::kSmallFrames), 8);
  budget.EarnByReply(100);
  EXPECT_EQ(FramesUntil(budget, kPing, Excess::kSmallFrames), 3);
  budget.EarnByReply(65536);
  EXPECT_EQ(FramesUntil(budget, kPing, Excess::kSmallFrames), 15);
  budget.EarnByRequest();
  EXPECT_EQ(FramesUntil(budget, kPing, Excess::kSmallFrames), 1);
  EXPECT_EQ(FramesUntil(budget, {.type = NGHTTP2_HEADERS}, Excess::kCalls), 0);
}

}  // namespace
}  // namespace rdmabroker::rpc
