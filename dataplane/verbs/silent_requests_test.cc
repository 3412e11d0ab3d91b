// SPDX-License-Identifier: Apache-2.0

// Requests that are done in silence, and the ends of those behind them.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <atomic>
#include <chrono>

#include "dataplane/verbs/testing/on_stand_in.h"

namespace rdmabroker::verbs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The data path cancels by itself what the hardware has not cancelled within a second.
constexpr milliseconds kLittle{900};

class SilentRequests : public OnStandIn {
 protected:
  void SetUp() override {
    OnStandIn::SetUp();
    Connect();
    ASSERT_EQ(a->qp->Write(Context(1), {}, {}, kOpSilentSuccess), NdkStatus::kSuccess);
  }
  void ExpectCancelledSoon(uintptr_t context, steady_clock::time_point begin) {
    const ResultEx result = a->Next();
    EXPECT_LT(steady_clock::now() - begin, kLittle);
    EXPECT_EQ(result.status, NdkStatus::kCancelled);
    EXPECT_EQ(result.request_context, Context(context));
    EXPECT_EQ(TakeAll(*a), 0u);
  }
};

TEST_F(SilentRequests, WhatIsDeferredBehindThemIsCancelledByAFlushAtOnce) {
  ASSERT_EQ(a->qp->Write(Context(2), {}, {}, kOpDefer), NdkStatus::kSuccess);
  const auto begin = steady_clock::now();
  a->qp->Flush();
  ExpectCancelledSoon(2, begin);
}

TEST_F(SilentRequests, WhatIsDeferredBehindThemIsCancelledByAClose) {
  ASSERT_EQ(a->qp->Write(Context(2), {}, {}, kOpDefer), NdkStatus::kSuccess);
  a->qp->AddReference();
  std::atomic<bool> closed = false;
  const auto begin = steady_clock::now();
  EXPECT_EQ(a->qp->Close([&] { closed = true; }), NdkStatus::kPending);
  ExpectCancelledSoon(2, begin);
  a->qp->ReleaseReference();
  a->qp = nullptr;
  EXPECT_TRUE(Eventually([&] { return closed.load(); }));
}

TEST_F(SilentRequests, WhatIsPostedBehindThemAfterAFailureIsCancelledAtOnce) {
  StandIn::Raise(a->qp->number(), IBV_EVENT_QP_FATAL);
  EXPECT_FALSE(a->End().graceful);
  const auto begin = steady_clock::now();
  ASSERT_EQ(a->qp->Write(Context(2), {}, {}, 0), NdkStatus::kSuccess);
  ExpectCancelledSoon(2, begin);
}

// Each takes a place of the completion queue's, of which there are not so many.
TEST_F(SilentRequests, ThoseOfManyQueuePairsDelayNoOthers) {
  for (int i = 0; i < 200; ++i) {
    StandIn::SetFlush(i % 2 == 0 ? StandIn::Flush::kNever : StandIn::Flush::kAtOnce);
    QueuePair* const passing = a->NewQueuePair({}, nullptr);
    QueuePair* const peer = b->NewQueuePair({}, nullptr);
    AttachToEachOther(passing, nullptr, peer, nullptr);
    ASSERT_EQ(passing->Write(nullptr, {}, {}, kOpSilentSuccess), NdkStatus::kSuccess);
    passing->Flush();
    CloseAndWait(passing), CloseAndWait(peer);
  }
  ASSERT_EQ(a->qp->Write(Context(2), {}, {}, kOpDefer), NdkStatus::kSuccess);
  const auto begin = steady_clock::now();
  a->qp->Flush();
  ExpectCancelledSoon(2, begin);
}

}  // namespace
}  // namespace rdmabroker::verbs
