// SPDX-License-Identifier: Apache-2.0

#include "client/back_off.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/random_seed.h"

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

// As clients return whose broker has died, and find none once, a few times, and many times.
TEST(AThousandClients, ReturnSpreadOverAllOfTheirWait) {
  constexpr int kClients = 1000;
  // Of a hundred that are expected so many are missing, or too many, in less than one of a billion runs.
  constexpr int kFewest = 40, kMost = 170;
  const uint32_t seed = RandomSeed();
  SCOPED_TRACE("RDMA_BROKER_SEED=" + std::to_string(seed));
  std::mt19937 seeds(seed);
  std::vector<RandomBackOff> clients;
  for (int i = 0; i < kClients; ++i) clients.emplace_back(static_cast<uint32_t>(seeds()));
  for (const auto& [before, least] : {std::pair(0, 10), {1, 20}, {4, 160}, {30, 1000}}) {
    std::array<int, 10> returned = {};  // In each tenth of the wait's random part.
    for (RandomBackOff& client : clients) {
      const milliseconds wait = client(milliseconds(10), milliseconds(1000), before);
      ASSERT_GE(wait, milliseconds(least));
      ASSERT_LT(wait, milliseconds(2 * least));
      ++returned[static_cast<size_t>((wait.count() - least) * 10 / least)];
    }
    for (const int tenth : returned) {
      EXPECT_GE(tenth, kFewest) << "after " << before << " attempts";
      EXPECT_LE(tenth, kMost) << "after " << before << " attempts";
    }
  }
}

TEST(AThousandClients, HaveARandomnessEach) {
  std::set<milliseconds> waits;
  for (int i = 0; i < 1000; ++i) waits.insert(RandomBackOff()(std::chrono::hours(1), std::chrono::hours(1), 0));
  // Of 3,600,000.
  EXPECT_GT(waits.size(), 900U);
}

}  // namespace
}  // namespace rdmabroker::client
