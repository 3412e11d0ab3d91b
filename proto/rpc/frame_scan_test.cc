// SPDX-License-Identifier: Apache-2.0

#include "proto/rpc/frame_scan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/rpc/testing/frames.h"

namespace rdmabroker::rpc {
namespace {

std::vector<FrameHeader> FramesIn(FrameScan scan, std::string_view octets, size_t piece) {
  std::vector<FrameHeader> frames;
  while (!octets.empty()) {
    std::string_view some = octets.substr(0, piece);
    octets.remove_prefix(some.size());
    while (!some.empty()) {
      const FrameScan::Step step = scan.Next(some);
      some.remove_prefix(step.octets);
      if (step.frame) frames.push_back(*step.frame);
    }
  }
  return frames;
}

TEST(FrameScanTest, FindsEveryFrameHoweverTheOctetsAreCut) {
  const std::string octets = Preface() + Frame(0xFA, 0x5, 7, std::string(300, 'x')) + DataFrame(1, "") +
                             DataFrame(1, std::string(70'000, 'y'), 1);
  for (size_t piece = 1; piece < 40; ++piece) {
    const auto frames = FramesIn(FrameScan(NGHTTP2_CLIENT_MAGIC_LEN), octets, piece);
    ASSERT_EQ(frames.size(), 4u) << piece;
    EXPECT_EQ(frames[0].type, NGHTTP2_SETTINGS);
    EXPECT_EQ(frames[1].type, 0xFA);
    EXPECT_EQ(frames[1].length, 300u);
    EXPECT_EQ(frames[2].length, 0u);
    EXPECT_EQ(frames[3].length, 70'000u);
  }
}

TEST(FrameScanTest, StopsBehindEachHeader) {
  FrameScan scan(0);
  const std::string octets = DataFrame(1, "abc") + DataFrame(1, "");
  EXPECT_EQ(scan.Next(octets).octets, 9u);
  EXPECT_EQ(scan.Next(std::string_view(octets).substr(9)).octets, 12u);
}

}  // namespace
}  // namespace rdmabroker::rpc
