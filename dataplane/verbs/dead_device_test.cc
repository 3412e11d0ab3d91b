// SPDX-License-Identifier: Apache-2.0

// A device that has died takes requests and cancels none.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <chrono>
#include <vector>

#include "dataplane/verbs/testing/on_stand_in.h"

namespace rdmabroker::verbs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The data path gives a device a second to cancel what is posted.
constexpr milliseconds kLittle{900};

class DeadDevices : public OnStandIn {
 protected:
  void SetUp() override {
    OnStandIn::SetUp();
    StandIn::SetFlush(StandIn::Flush::kNever);
  }
};

TEST_F(DeadDevices, TwoHundredQueuePairsAreFlushedAndClosedWithoutAnyWait) {
  constexpr size_t kPairs = 200;
  std::vector<QueuePair*> pairs;
  for (size_t i = 0; i < kPairs; i += 2) {
    for (DataSide* const side : {a.get(), b.get()}) pairs.push_back(side->NewQueuePair({}, nullptr));
    AttachToEachOther(pairs[i], nullptr, pairs[i + 1], nullptr);
    for (const size_t at : {i, i + 1}) ASSERT_EQ(pairs[at]->Receive(nullptr, {}), NdkStatus::kSuccess);
    ASSERT_EQ(pairs[i]->Write(nullptr, {}, {}, kOpSilentSuccess), NdkStatus::kSuccess);
  }
  const auto begin = steady_clock::now();
  for (size_t i = 0; i < kPairs; ++i) {
    if (i % 4 == 0) pairs[i]->Flush();
    CloseAndWait(pairs[i]);
  }
  EXPECT_LT(steady_clock::now() - begin, kPairs * kLittle / 8);
}

TEST_F(DeadDevices, TheResultsOfAFlushComeByThemselvesAfterASecond) {
  // Nor does anything else look at the queue in between.
  QueuePair* const pair = a->NewQueuePair({.keepalive = std::chrono::seconds(0)}, nullptr);
  AttachToEachOther(pair, nullptr, b->qp, nullptr, kRetryForever);
  ASSERT_EQ(pair->Receive(Context(1), {}), NdkStatus::kSuccess);
  ASSERT_EQ(pair->Send(Context(2), {}, 0), NdkStatus::kSuccess) << "it waits for a receive";
  ASSERT_EQ(pair->Send(Context(3), {}, kOpDefer), NdkStatus::kSuccess);
  a->cq->Arm(CqNotify::kAny);
  const auto begin = steady_clock::now();
  pair->Flush();
  EXPECT_TRUE(Eventually([&] { return a->notifications == 1; })) << "nobody polls";
  EXPECT_GE(steady_clock::now() - begin, kLittle) << "the device may yet say what became of them";
  for (const ResultEx& result : a->Results(3)) EXPECT_EQ(result.status, NdkStatus::kCancelled);
  EXPECT_EQ(TakeAll(*a), 0u);
  CloseAndWait(pair);
}

TEST_F(DeadDevices, WhatIsPostedBehindAFailureIsCancelledToo) {
  QueuePair* const pair = a->NewQueuePair({.keepalive = std::chrono::seconds(0)}, nullptr);
  AttachToEachOther(pair, a->NotesEnd(), b->qp, nullptr);
  ASSERT_EQ(pair->Receive(Context(1), {}), NdkStatus::kSuccess);
  StandIn::Raise(pair->number(), IBV_EVENT_QP_FATAL);
  EXPECT_FALSE(a->End().graceful);
  ASSERT_EQ(pair->Receive(Context(2), {}), NdkStatus::kSuccess);
  ASSERT_EQ(pair->Send(Context(3), {}, 0), NdkStatus::kSuccess);
  for (const ResultEx& result : a->Results(3)) EXPECT_EQ(result.status, NdkStatus::kCancelled);
  CloseAndWait(pair);
}

}  // namespace
}  // namespace rdmabroker::verbs
