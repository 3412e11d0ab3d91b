// SPDX-License-Identifier: Apache-2.0

// Requests that are done in silence, and the ends of those behind them.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <atomic>
#include <utility>
#include <vector>

#include "dataplane/verbs/testing/on_stand_in.h"

namespace rdmabroker::verbs {
namespace {

class SilentRequests : public OnStandIn {
 protected:
  void SetUp() override {
    OnStandIn::SetUp();
    ConnectAndWriteInSilence();
  }
  void ConnectAndWriteInSilence() {
    Connect();
    ASSERT_EQ(a->qp->Write(Context(1), {}, {}, kOpSilentSuccess), NdkStatus::kSuccess);
  }
  // The stand-in has cancelled what it had when the call that ends the requests returns.
  void ExpectCancelled(uintptr_t context) {
    ResultEx result;
    ASSERT_EQ(a->cq->GetResultsEx({&result, 1}), 1u);
    EXPECT_EQ(result.status, NdkStatus::kCancelled);
    EXPECT_EQ(result.request_context, Context(context));
    EXPECT_EQ(TakeAll(*a), 0u);
  }
};

TEST_F(SilentRequests, WhatIsDeferredBehindThemIsCancelledByAFlushAtOnce) {
  ASSERT_EQ(a->qp->Write(Context(2), {}, {}, kOpDefer), NdkStatus::kSuccess);
  a->qp->Flush();
  ExpectCancelled(2);
}

TEST_F(SilentRequests, WhatIsDeferredBehindThemIsCancelledByAClose) {
  ASSERT_EQ(a->qp->Write(Context(2), {}, {}, kOpDefer), NdkStatus::kSuccess);
  a->qp->AddReference();
  std::atomic<bool> closed = false;
  EXPECT_EQ(a->qp->Close([&] { closed = true; }), NdkStatus::kPending);
  ExpectCancelled(2);
  a->qp->ReleaseReference();
  a->qp = nullptr;
  EXPECT_TRUE(Eventually([&] { return closed.load(); }));
}

TEST_F(SilentRequests, WhatIsPostedBehindThemAfterAFailureIsCancelledAtOnce) {
  bool first = true;
  EXPECT_TRUE(IsQuick([&] {
    if (!std::exchange(first, false)) ConnectAndWriteInSilence();
    StandIn::Raise(a->qp->number(), IBV_EVENT_QP_FATAL);
    EXPECT_FALSE(a->End().graceful);
    ASSERT_EQ(a->qp->Write(Context(2), {}, {}, 0), NdkStatus::kSuccess);
    const ResultEx result = a->Next();
    EXPECT_EQ(result.status, NdkStatus::kCancelled);
    EXPECT_EQ(result.request_context, Context(2));
  }));
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
  a->qp->Flush();
  ExpectCancelled(2);
}

// Nobody takes completions, so that each hidden one keeps its place.
TEST_F(SilentRequests, OfManyQueuePairsOfOneQueueAreTaken) {
  std::vector<QueuePair*> pairs, peers;
  for (int i = 0; i < 200; ++i) {
    pairs.push_back(a->NewQueuePair({.depth = 1}, nullptr));
    peers.push_back(b->NewQueuePair({.depth = 1}, nullptr));
    AttachToEachOther(pairs.back(), nullptr, peers.back(), nullptr);
  }
  for (QueuePair* const pair : pairs) {
    EXPECT_EQ(pair->Write(nullptr, {}, {}, kOpSilentSuccess), NdkStatus::kSuccess);
  }
  EXPECT_EQ(TakeAll(*a), 0u);
  for (QueuePair* const pair : pairs) CloseAndWait(pair);
  for (QueuePair* const peer : peers) CloseAndWait(peer);
}

}  // namespace
}  // namespace rdmabroker::verbs
