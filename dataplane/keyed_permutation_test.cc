// SPDX-License-Identifier: Apache-2.0

#include "dataplane/keyed_permutation.h"

#include <gtest/gtest.h>

#include <set>

namespace rdmabroker {
namespace {

// Appendix C of the paper.
TEST(AKeyedPermutation, IsTheCipherOfThePaper) {
  const KeyedPermutation permutation(0x1918111009080100);
  EXPECT_EQ(permutation.Of(0x6574694c), 0xa86842f2u);
  EXPECT_EQ(permutation.Before(0xa86842f2), 0x6574694cu);
}

TEST(AKeyedPermutation, GivesEachNumberOnceAndKnowsTheWayBack) {
  const KeyedPermutation permutation(7);
  std::set<uint32_t> seen;
  for (const uint32_t first : {uint32_t{0}, uint32_t{1} << 16, uint32_t{0} - 10'000}) {
    for (uint32_t i = 0; i < 10'000; ++i) {
      const uint32_t permuted = permutation.Of(first + i);
      EXPECT_TRUE(seen.insert(permuted).second) << first + i;
      EXPECT_EQ(permutation.Before(permuted), first + i);
    }
  }
}

TEST(AKeyedPermutation, DependsOnEveryBitOfItsKey) {
  std::set<uint32_t> seen;
  for (int bit = 0; bit < 64; ++bit) EXPECT_TRUE(seen.insert(KeyedPermutation(uint64_t{1} << bit).Of(1)).second) << bit;
}

}  // namespace
}  // namespace rdmabroker
