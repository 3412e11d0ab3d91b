// SPDX-License-Identifier: Apache-2.0

// Records as a core has them.

#include <gtest/gtest.h>

#include <cstdint>

#include "broker/core/changes.h"
#include "broker/core/testing/random_walk.h"
#include "broker/store/round_trip_for_test.h"

namespace rdmabroker::store {
namespace {

TEST(ARecord, SurvivesInWhateverStateACoreCanBe) {
  constexpr uint32_t kWalks = 300;
  constexpr int kSteps = 250;
  Variety met;
  for (uint32_t seed = 1; seed <= kWalks; ++seed) {
    RandomWalk walk(seed);
    (void)walk.core().TakeChanges();
    for (int i = 0; i < kSteps; ++i) {
      walk.Step();
      const Changes changes = walk.core().TakeChanges();
      const absl::Status survives = CheckRoundTrips(walk.core().records(), changes);
      ASSERT_TRUE(survives.ok()) << "seed " << seed << ": " << survives;
      met.Note(walk.core().records());
    }
  }
  EXPECT_TRUE(met.Check().ok()) << met.Check();
}

}  // namespace
}  // namespace rdmabroker::store
