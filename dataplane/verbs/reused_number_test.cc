// SPDX-License-Identifier: Apache-2.0

// The stand-in gives the number of a queue pair that it has destroyed to the next one, and leaves the completions of
// the former in their queue.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <utility>
#include <vector>

#include "dataplane/verbs/testing/on_stand_in.h"
#include "dataplane/verbs/work_request.h"

namespace rdmabroker::verbs {
namespace {

class ReusedNumbers : public OnStandIn {
 protected:
  static void PostReceives(QueuePair* pair, uintptr_t first, uintptr_t end) {
    for (uintptr_t i = first; i < end; ++i) ASSERT_EQ(pair->Receive(Context(i), {}), NdkStatus::kSuccess);
  }
  // Has results of the connected queue pair `from` in every place where one may wait: the hardware's queue and, as an
  // armed queue has looked at them, the data path's own.
  void FillQueue(QueuePair* from, QueuePair* peer) {
    PostReceives(from, 100, 110);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(peer->Send(nullptr, {}, kOpSilentSuccess), NdkStatus::kSuccess);
    a->cq->Arm(CqNotify::kAny);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(peer->Send(nullptr, {}, kOpSilentSuccess), NdkStatus::kSuccess);
    ASSERT_EQ(from->Write(Context(111), {}, {}, 0), NdkStatus::kSuccess);
  }
  // That the new one has results of its own requests only, each in its turn.
  void ExpectOwnResults(QueuePair* now, QueuePair* peer) {
    EXPECT_EQ(TakeAll(*a), 0u);
    PostReceives(now, 1, 4);
    EXPECT_EQ(TakeAll(*a), 0u) << "nobody has sent anything";
    AttachToEachOther(now, nullptr, peer, nullptr);
    for (uintptr_t i = 1; i < 4; ++i) {
      ASSERT_EQ(peer->Send(nullptr, {}, kOpSilentSuccess), NdkStatus::kSuccess);
      const ResultEx result = a->Next();
      EXPECT_EQ(result.status, NdkStatus::kSuccess);
      EXPECT_EQ(result.request_context, Context(i));
      EXPECT_EQ(result.qp_context, Context(2));
    }
    ASSERT_EQ(now->Write(Context(4), {}, {}, 0), NdkStatus::kSuccess);
    EXPECT_EQ(a->Next().request_context, Context(4));
  }
};

TEST_F(ReusedNumbers, NoResultComesOnceTheCloseIsCompleteAndTheNextOneHasOnlyItsOwn) {
  for (const bool flushes : {false, true}) {
    QueuePair* const first = a->NewQueuePair({}, Context(1));
    QueuePair* const peer = b->NewQueuePair({}, nullptr);
    AttachToEachOther(first, nullptr, peer, nullptr);
    FillQueue(first, peer);
    const uint32_t number = first->number();
    if (flushes) first->Flush();
    CloseAndWait(first);
    EXPECT_EQ(TakeAll(*a), 0u);
    CloseAndWait(peer);
    QueuePair* const second = a->NewQueuePair({}, Context(2));
    QueuePair* const next_peer = b->NewQueuePair({}, nullptr);
    ASSERT_EQ(second->number(), number);
    ExpectOwnResults(second, next_peer);
    CloseAndWait(second), CloseAndWait(next_peer);
  }
}

// The number is free from then on, and what the hardware says of its owner at the last moment lies in the queue.
TEST_F(ReusedNumbers, OneThatIsMadeWhileTheOtherIsDestroyedHasOnlyItsOwnResults) {
  StandIn::SetFlush(StandIn::Flush::kWhenDestroyed);
  QueuePair* const first = a->NewQueuePair({}, Context(1));
  QueuePair* const peer = b->NewQueuePair({}, nullptr);
  QueuePair* const next_peer = b->NewQueuePair({}, nullptr);
  AttachToEachOther(first, nullptr, peer, nullptr);
  FillQueue(first, peer);
  const uint32_t number = first->number();
  QueuePair* second = nullptr;
  StandIn::CallAfter("ibv_destroy_qp", [&] {
    second = a->NewQueuePair({}, Context(2));
    PostReceives(second, 200, 210);
  });
  CloseAndWait(first);
  ASSERT_NE(second, nullptr);
  ASSERT_EQ(second->number(), number);
  EXPECT_EQ(TakeAll(*a), 0u) << "neither the former's, nor any of the new one's, whose receives are posted still";
  second->Flush();
  for (uintptr_t i = 200; i < 210; ++i) EXPECT_EQ(a->Next().request_context, Context(i));
  ExpectOwnResults(second, next_peer);
  CloseAndWait(second), CloseAndWait(peer), CloseAndWait(next_peer);
}

// Its receives are of the shared queue, which goes on.
TEST_F(ReusedNumbers, ReceivesOfASharedQueueKeepTheirResultsAndGoToNobodyElse) {
  const auto shared = NewSide({.srq = true});
  QueuePair* const first = shared->NewQueuePair({}, Context(1));
  QueuePair* const peer = b->NewQueuePair({}, nullptr);
  AttachToEachOther(first, nullptr, peer, nullptr);
  for (uintptr_t i = 0; i < 4; ++i) ASSERT_EQ(shared->srq->Receive(Context(i), {}), NdkStatus::kSuccess);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(peer->Send(nullptr, {}, kOpSilentSuccess), NdkStatus::kSuccess);
  QueuePair* second = nullptr;
  StandIn::CallAfter("ibv_destroy_qp", [&] { second = shared->NewQueuePair({}, Context(2)); });
  CloseAndWait(first);
  ASSERT_NE(second, nullptr);
  const std::vector<ResultEx> results = shared->Results(2);
  for (uintptr_t i = 0; i < 2; ++i) {
    EXPECT_EQ(results[i].request_context, Context(i));
    EXPECT_EQ(results[i].qp_context, nullptr) << "that is gone";
  }
  CloseAndWait(peer);
  QueuePair* const next_peer = b->NewQueuePair({}, nullptr);
  AttachToEachOther(second, nullptr, next_peer, nullptr);
  ASSERT_EQ(next_peer->Send(nullptr, {}, kOpSilentSuccess), NdkStatus::kSuccess);
  const ResultEx result = shared->Next();
  EXPECT_EQ(result.request_context, Context(2));
  EXPECT_EQ(result.qp_context, Context(2));
  CloseAndWait(second), CloseAndWait(next_peer);
}

// The only moment that is left behind the last look at the queue is that in which windows are taken from it.
TEST_F(ReusedNumbers, AReceiveOfASharedQueueThatEndsWhileItsQueuePairIsDestroyedHasItsResult) {
  const auto shared = NewSide({.srq = true});
  Buffer memory(shared->domain, 64, kAllAccess);
  MemoryWindow* const window = shared->domain->CreateMemoryWindow().object;
  AttachToEachOther(shared->qp, nullptr, b->qp, nullptr);
  ASSERT_EQ(shared->qp->Bind(nullptr, memory.region(), window, memory.bytes().data(), 64, kOpAllowRemoteRead),
            NdkStatus::kSuccess);
  EXPECT_EQ(shared->Next().status, NdkStatus::kSuccess);
  ASSERT_EQ(shared->srq->Receive(Context(5), {}), NdkStatus::kSuccess);
  StandIn::CallAfter("ibv_dealloc_mw", [number = shared->qp->number()] {
    StandIn::Push(number, true, {.wr_id = kReceiveRequest, .opcode = IBV_WC_RECV});
  });
  CloseAndWait(std::exchange(shared->qp, nullptr));
  EXPECT_EQ(shared->Next().request_context, Context(5));
  CloseAndWait(window);
}

}  // namespace
}  // namespace rdmabroker::verbs
