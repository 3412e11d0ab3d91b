// SPDX-License-Identifier: Apache-2.0

#include "client/back_off.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <set>
#include <utility>

namespace rdmabroker::client {
namespace {

using std::chrono::milliseconds;

TEST(ABackOff, IsDoubledUpToTheLongest) {
  for (const auto& [before, expected] : {std::pair(0, 10), {1, 20}, {2, 40}, {6, 640}, {7, 1000}, {1000, 1000}}) {
    EXPECT_EQ(BackOff(milliseconds(10), milliseconds(1000), before, 0), milliseconds(expected)) << before;
  }
}

TEST(ABackOff, SpreadsThoseWhoComeTogetherOverAsMuchAgain) {
  std::set<milliseconds> delays;
  for (uint64_t random = 0; random < 1000; ++random) {
    delays.insert(BackOff(milliseconds(10), milliseconds(1000), 3, random));
  }
  EXPECT_EQ(delays.size(), 80U);
  EXPECT_EQ(*delays.begin(), milliseconds(80));
  EXPECT_EQ(*delays.rbegin(), milliseconds(159));
}

}  // namespace
}  // namespace rdmabroker::client
