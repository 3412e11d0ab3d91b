// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/unwanted_ids.h"

#include <gtest/gtest.h>

namespace rdmabroker {
namespace {

constexpr int kMany = UnwantedIds::kMany;

TEST(UnwantedIds, AreManyFromTheBoundOnUntilHalfOfThemHaveGone) {
  int told = 0;
  UnwantedIds ids([&] { ++told; });
  for (int i = 0; i < kMany / 2; ++i) ids.Add();
  for (int round = 1; round <= 2; ++round) {
    for (int i = kMany / 2; i < kMany - 1; ++i) ids.Add();
    EXPECT_FALSE(ids.many());
    ids.Add();
    EXPECT_TRUE(ids.many());
    ids.Add();
    for (int left = kMany + 1; left > kMany / 2 + 1; --left) ids.Remove();
    EXPECT_TRUE(ids.many());
    EXPECT_EQ(told, round - 1);
    ids.Remove();
    EXPECT_FALSE(ids.many());
    EXPECT_EQ(told, round) << "once each time";
  }
}

TEST(UnwantedIds, ThatWereNeverManyAreNotTold) {
  bool told = false;
  UnwantedIds ids([&] { told = true; });
  for (int i = 0; i < kMany - 1; ++i) ids.Add();
  for (int i = 0; i < kMany - 1; ++i) ids.Remove();
  EXPECT_FALSE(told);
}

}  // namespace
}  // namespace rdmabroker
