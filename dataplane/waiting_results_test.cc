// SPDX-License-Identifier: Apache-2.0

#include "dataplane/waiting_results.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace rdmabroker {
namespace {

template <typename Object>
Object* Named(uintptr_t name) {
  return reinterpret_cast<Object*>(name);
}
const ResultOwner kFirst = {.queue_pair = Named<QueuePair>(8)};
const ResultOwner kSecond = {.queue_pair = Named<QueuePair>(16)};
const ResultOwner kShared = {.queue_pair = Named<QueuePair>(8), .srq = Named<SharedReceiveQueue>(24)};

ResultEx ResultOf(uintptr_t request) {
  ResultEx result;
  result.qp_context = Named<void>(99);
  result.request_context = Named<void>(request);
  return result;
}

std::vector<uintptr_t> TakeAll(WaitingResults* waiting) {
  std::array<ResultEx, 64> results;
  std::vector<uintptr_t> requests;
  const size_t taken = waiting->Take(results);
  for (size_t i = 0; i < taken; ++i) requests.push_back(reinterpret_cast<uintptr_t>(results[i].request_context));
  return requests;
}

TEST(WaitingResults, AreTakenInOrderHoweverOftenTheRingTurns) {
  WaitingResults waiting(20);
  uintptr_t added = 0;
  uintptr_t taken = 0;
  for (int round = 0; round < 100; ++round) {
    while (!waiting.full()) ASSERT_TRUE(waiting.Add(ResultOf(++added), kFirst));
    EXPECT_FALSE(waiting.Add(ResultOf(0), kFirst));
    std::array<ResultEx, 7> some;
    ASSERT_EQ(waiting.Take(some), 7u);
    for (const ResultEx& each : some) EXPECT_EQ(each.request_context, Named<void>(++taken));
  }
}

TEST(WaitingResults, KeepTheirOrderWhenTheDepthChanges) {
  WaitingResults waiting(4);
  for (uintptr_t request : {1, 2, 3, 4}) ASSERT_TRUE(waiting.Add(ResultOf(request), kFirst));
  std::array<ResultEx, 2> two;
  ASSERT_EQ(waiting.Take(two), 2u);
  ASSERT_TRUE(waiting.Add(ResultOf(5), kFirst));
  EXPECT_FALSE(waiting.Resize(2));
  EXPECT_EQ(waiting.depth(), 4u);
  ASSERT_TRUE(waiting.Resize(3));
  EXPECT_TRUE(waiting.full());
  ASSERT_TRUE(waiting.Resize(40));
  ASSERT_TRUE(waiting.Add(ResultOf(6), kFirst));
  EXPECT_EQ(TakeAll(&waiting), (std::vector<uintptr_t>{3, 4, 5, 6}));
}

TEST(WaitingResults, OfAQueuePairThatIsClosedAreDropped) {
  WaitingResults waiting(8);
  ASSERT_TRUE(waiting.Add(ResultOf(1), kFirst));
  ASSERT_TRUE(waiting.Add(ResultOf(2), kSecond));
  ASSERT_TRUE(waiting.Add(ResultOf(3), kFirst));
  ASSERT_TRUE(waiting.Add(ResultOf(4), kSecond));
  waiting.ForgetQueuePair(kFirst.queue_pair);
  EXPECT_EQ(TakeAll(&waiting), (std::vector<uintptr_t>{2, 4}));
}

TEST(WaitingResults, OfASharedReceiveStayWithoutTheContextOfItsClosedQueuePair) {
  WaitingResults waiting(8);
  ASSERT_TRUE(waiting.Add(ResultOf(1), kShared));
  waiting.ForgetQueuePair(kShared.queue_pair);
  std::array<ResultEx, 1> result;
  ASSERT_EQ(waiting.Take(result), 1u);
  EXPECT_EQ(result[0].request_context, Named<void>(1));
  EXPECT_EQ(result[0].qp_context, nullptr);
}

TEST(WaitingResults, OfASharedReceiveAreDroppedWithItsQueue) {
  WaitingResults waiting(8);
  ASSERT_TRUE(waiting.Add(ResultOf(1), kShared));
  ASSERT_TRUE(waiting.Add(ResultOf(2), kShared));
  ASSERT_TRUE(waiting.Add(ResultOf(3), kFirst));
  waiting.ForgetQueuePair(kShared.queue_pair);
  waiting.ForgetSharedReceiveQueue(kShared.srq);
  EXPECT_TRUE(waiting.empty());
}

}  // namespace
}  // namespace rdmabroker
