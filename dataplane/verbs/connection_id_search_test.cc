// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/connection_id_search.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace rdmabroker::verbs {
namespace {

constexpr uint32_t kQueuePair = 17;
const std::vector<ConnectionId> kOthers = {{.number = 3, .queue_pair = 16, .local = {}, .peer = {}}};
const std::vector<ConnectionId> kOne = {{.number = 3, .queue_pair = 16, .local = {}, .peer = {}},
                                        {.number = 4, .queue_pair = kQueuePair, .local = {}, .peer = {}}};
const std::vector<ConnectionId> kTwo = {{.number = 4, .queue_pair = kQueuePair, .local = {}, .peer = {}},
                                        {.number = 5, .queue_pair = kQueuePair, .local = {}, .peer = {}}};

TEST(ConnectionIdSearch, EndsWithTheOneIdOfTheQueuePair) {
  ConnectionIdSearch search;
  search.Take(kOthers, kQueuePair);
  EXPECT_TRUE(search.GoesOn());
  EXPECT_FALSE(search.number());
  search.Take(kOne, kQueuePair);
  EXPECT_FALSE(search.GoesOn());
  EXPECT_EQ(search.number(), 4u);
}

TEST(ConnectionIdSearch, TakesNoneOfSeveral) {
  ConnectionIdSearch search;
  search.Take(kTwo, kQueuePair);
  EXPECT_TRUE(search.GoesOn());
  EXPECT_FALSE(search.number());
}

TEST(ConnectionIdSearch, EndsAfterThreeListsWithoutIt) {
  ConnectionIdSearch search;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(search.GoesOn());
    search.Take(kOthers, kQueuePair);
  }
  EXPECT_FALSE(search.GoesOn());
  EXPECT_FALSE(search.number());
}

TEST(ConnectionIdSearch, DoesNotTakeAKernelThatCouldNotBeAskedForOneThatHasNone) {
  ConnectionIdSearch search;
  for (int i = 0; i < 10; ++i) search.Take(std::nullopt, kQueuePair);
  ASSERT_TRUE(search.GoesOn());
  search.Take(kOne, kQueuePair);
  EXPECT_EQ(search.number(), 4u);
}

}  // namespace
}  // namespace rdmabroker::verbs
