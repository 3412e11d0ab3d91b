// SPDX-License-Identifier: Apache-2.0

// Completion queues, shared receive queues, and the order of closes.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "tests/conformance/data_path_conformance.h"

namespace rdmabroker {
namespace {

TEST_P(DataPathQueueConformance, NothingIsNotifiedUnlessArmed) {
  SendToB();
  SettleCallbacks();
  EXPECT_EQ(b->notifications, 0);
}

TEST_P(DataPathQueueConformance, OneArmGivesOneNotificationHoweverMuchComes) {
  b->cq->Arm(CqNotify::kAny);
  SendToB();
  SendToB();
  EXPECT_TRUE(Eventually([&] { return b->notifications == 1; }));
  SettleCallbacks();
  EXPECT_EQ(b->notifications, 1);
}

TEST_P(DataPathQueueConformance, ArmingAfterSomethingCameNotifiesAtOnceButNotTwiceForTheSame) {
  for (const CqNotify type : {CqNotify::kAny, CqNotify::kSolicited}) {
    b->notifications = 0;
    SendToB(kOpSendAndSolicitEvent);
    Settle();
    b->cq->Arm(type);
    EXPECT_TRUE(Eventually([&] { return b->notifications == 1; }));
    b->Results(1);
    b->cq->Arm(type);
    SettleCallbacks();
    EXPECT_EQ(b->notifications, 1);
    b->cq->Arm(CqNotify::kAny);
    SendToB();
    EXPECT_TRUE(Eventually([&] { return b->notifications == 2; }));
    b->Results(1);
  }
}

TEST_P(DataPathQueueConformance, SolicitedWaitsForASolicitedSendOrAFailure) {
  b->cq->Arm(CqNotify::kSolicited);
  if (pair->tells_of_solicited()) {
    SendToB();
    SettleCallbacks();
    EXPECT_EQ(b->notifications, 0);
    b->Results(1);
    SendToB();
    SettleCallbacks();
    EXPECT_EQ(b->notifications, 0) << "nor does polling make it solicited";
    b->Results(1);
  }
  SendToB(kOpSendAndSolicitEvent);
  EXPECT_TRUE(Eventually([&] { return b->notifications == 1; }));
  b->Results(1);
  b->cq->Arm(CqNotify::kSolicited);
  b->qp->Flush();
  EXPECT_TRUE(Eventually([&] { return b->notifications == 2; }));
}

TEST_P(DataPathQueueConformance, ErrorsAloneAreNotResults) {
  b->cq->Arm(CqNotify::kErrors);
  SendToB(kOpSendAndSolicitEvent);
  SettleCallbacks();
  EXPECT_EQ(b->notifications, 0);
  b->cq->Arm(CqNotify::kAny);
  EXPECT_TRUE(Eventually([&] { return b->notifications == 1; })) << "the stronger of two arms counts";
}

TEST_P(DataPathQueueConformance, AnArmedQueueNotifiesWhoeverTakesTheResult) {
  b->cq->Arm(CqNotify::kAny);
  SendToB();
  b->Results(1);
  EXPECT_TRUE(Eventually([&] { return b->notifications == 1; }));
}

TEST_P(DataPathQueueConformance, SilentRequestsNotifyNobody) {
  a->cq->Arm(CqNotify::kAny);
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(Eventually([&] { return a->qp->Write(nullptr, {}, {}, kOpSilentSuccess) == NdkStatus::kSuccess; }));
  }
  EXPECT_EQ(a->notifications, 0);
  ASSERT_TRUE(Eventually([&] { return a->qp->Write(nullptr, {}, {}, 0) == NdkStatus::kSuccess; }));
  EXPECT_TRUE(Eventually([&] { return a->notifications == 1; }));
}

TEST_P(DataPathQueueConformance, BothFormsTellTheSame) {
  SendToB();
  Settle();
  Result results[3];
  EXPECT_TRUE(Eventually([&] { return b->cq->GetResults(results) == 1; }));
  EXPECT_EQ(results[0].qp_context, b.get());
  EXPECT_EQ(results[0].request_context, Context(0));
  EXPECT_EQ(b->cq->GetResults({}), 0u);
}

TEST_P(DataPathQueueConformance, ResizeLosesNothing) {
  EXPECT_EQ(b->cq->Resize(0), NdkStatus::kInvalidParameter);
  EXPECT_EQ(b->cq->Resize(b->adapter->info().max_cq_depth + 1), NdkStatus::kInvalidParameter);
  for (int i = 0; i < 5; ++i) SendToB();
  Settle();
  if ((b->adapter->info().adapter_flags & kCqResizeSupported) == 0) {
    EXPECT_EQ(b->cq->Resize(5), NdkStatus::kNotSupported);
  } else {
    EXPECT_EQ(b->cq->Resize(4), NdkStatus::kBufferOverflow);
    EXPECT_EQ(b->cq->Resize(5), NdkStatus::kSuccess);
    EXPECT_EQ(b->cq->Resize(2000), NdkStatus::kSuccess);
  }
  const auto results = b->Results(5);
  for (uintptr_t i = 0; i < 5; ++i) EXPECT_EQ(results[i].request_context, Context(i));
  SendToB();
  EXPECT_EQ(b->Next().request_context, Context(5));
}

TEST_P(DataPathQueueConformance, ModerationIsOfferedOrNotSupported) {
  const bool offered = (b->adapter->info().adapter_flags & kCqInterruptModerationSupported) != 0;
  EXPECT_EQ(b->cq->ControlInterruptModeration(10, 10), offered ? NdkStatus::kSuccess : NdkStatus::kNotSupported);
  EXPECT_EQ(b->cq->ControlInterruptModeration(~0u, ~0u), NdkStatus::kInvalidParameterMix);
}

// Some wait in the hardware's queue, and those that an armed queue has looked at in the data path's own.
TEST_P(DataPathQueueConformance, NoResultOfAQueuePairIsReturnedOnceItsCloseHasCompleted) {
  const QueuePairPair other = ConnectMore(*a, *b, nullptr, Context(7));
  ASSERT_EQ(other.at_b->Receive(Context(70), {}), NdkStatus::kSuccess);
  SendToB();
  Settle();
  b->cq->Arm(CqNotify::kAny);
  SendToB();
  Settle();
  ASSERT_EQ(other.at_a->Send(nullptr, {}, kOpSilentSuccess), NdkStatus::kSuccess);
  b->qp->Flush();
  CloseAndWait(std::exchange(b->qp, nullptr));
  const ResultEx result = b->Next();
  EXPECT_EQ(result.qp_context, Context(7));
  EXPECT_EQ(result.request_context, Context(70));
  CloseAndWait(other.at_b);
  ResultEx more[4];
  EXPECT_EQ(b->cq->GetResultsEx(more), 0u);
  CloseAndWait(other.at_a);
}

TEST_P(DataPathConformance, AResultOfASharedReceiveOutlivesItsQueuePairButNotItsQueue) {
  const auto shared = NewSide({.srq = true});
  ASSERT_NE(shared->srq, nullptr);
  Connect(*a, *shared);
  for (uintptr_t i = 0; i < 2; ++i) {
    ASSERT_EQ(shared->srq->Receive(Context(i), {}), NdkStatus::kSuccess);
    ASSERT_EQ(a->qp->Send(nullptr, {}, kOpSilentSuccess), NdkStatus::kSuccess);
  }
  Settle();
  CloseAndWait(std::exchange(shared->qp, nullptr));
  const ResultEx result = shared->Next();
  EXPECT_EQ(result.qp_context, nullptr) << "that is gone";
  EXPECT_EQ(result.request_context, Context(0));
  CloseAndWait(std::exchange(shared->srq, nullptr));
  ResultEx more;
  EXPECT_EQ(shared->cq->GetResultsEx({&more, 1}), 0u);
}

TEST_P(DataPathConformance, AnOverrunKillsTheQueueAndEndsTheConnectionsOfItsQueuePairs) {
  // Adapters may make queues deeper than they are asked to.
  constexpr uint32_t kMany = 300;
  const auto small = NewSide({.depth = kMany, .cq_depth = 3});
  const auto sender = NewSide({.depth = kMany});
  Connect(*sender, *small);
  const QueuePairPair idle = ConnectMore(*sender, *small, nullptr, nullptr);
  small->cq->Arm(CqNotify::kErrors);
  for (uint32_t i = 0; i < kMany; ++i) ASSERT_EQ(small->qp->Receive(nullptr, {}), NdkStatus::kSuccess);
  for (uint32_t i = 0; i < kMany; ++i) {
    if (sender->qp->Send(nullptr, {}, 0) != NdkStatus::kSuccess) break;
  }
  EXPECT_TRUE(Eventually([&] { return small->notifications == 1; }));
  EXPECT_EQ(small->last_notification, NdkStatus::kBufferOverflow);
  EXPECT_FALSE(small->End().graceful);
  CloseAndWait(idle.at_a), CloseAndWait(idle.at_b);
}

TEST_P(DataPathConformance, AQueueMayBeClosedFromItsOwnNotification) {
  Adapter* const adapter = pair->Open();
  ProtectionDomain* const domain = adapter->CreateProtectionDomain().object;
  std::atomic<bool> closed = false;
  std::atomic<bool> qp_closed = false;
  CompletionQueue* cq = nullptr;
  QueuePair* qp = nullptr;
  cq = adapter
           ->CreateCompletionQueue(4,
                                   [&](NdkStatus) {
                                     qp_closed = qp->Close([&] { qp_closed = true; }) == NdkStatus::kSuccess;
                                     EXPECT_EQ(cq->Close([&] { closed = true; }), NdkStatus::kPending)
                                         << "its callback still runs";
                                   })
           .object;
  qp = domain->CreateQueuePair({.receive_cq = cq, .initiator_cq = cq, .receive_queue_depth = 1}).object;
  ASSERT_EQ(qp->Receive(nullptr, {}), NdkStatus::kSuccess);
  cq->Arm(CqNotify::kAny);
  qp->Flush();
  EXPECT_TRUE(Eventually([&] { return closed.load(); }));
  CloseAndWait(domain);
  CloseAndWait(adapter);
}

TEST_P(DataPathConformance, ACallbackMayMakeAndCloseObjects) {
  Adapter* const adapter = pair->Open();
  ProtectionDomain* const domain = adapter->CreateProtectionDomain().object;
  CompletionQueue* const other = adapter->CreateCompletionQueue(4, {}).object;
  std::atomic<bool> made = false;
  CompletionQueue* const cq =
      adapter
          ->CreateCompletionQueue(4,
                                  [&](NdkStatus) {
                                    QueuePair* const inner =
                                        domain->CreateQueuePair({.receive_cq = other, .initiator_cq = other}).object;
                                    EXPECT_NE(inner, nullptr);
                                    made = inner != nullptr && inner->Close({}) == NdkStatus::kSuccess;
                                  })
          .object;
  QueuePair* const qp =
      domain->CreateQueuePair({.receive_cq = cq, .initiator_cq = cq, .receive_queue_depth = 1}).object;
  ASSERT_EQ(qp->Receive(nullptr, {}), NdkStatus::kSuccess);
  cq->Arm(CqNotify::kAny);
  qp->Flush();
  EXPECT_TRUE(Eventually([&] { return made.load(); }));
  CloseAndWait(qp), CloseAndWait(cq), CloseAndWait(other), CloseAndWait(domain), CloseAndWait(adapter);
}

TEST_P(DataPathConformance, TwoQueuePairsTakeFromASharedReceiveQueueAndTheThresholdNotifiesOnce) {
  const auto shared = NewSide({.srq = true});
  ASSERT_NE(shared->srq, nullptr);
  Connect(*a, *shared);
  const QueuePairPair second = ConnectMore(*a, *shared, Context(2), Context(22));
  EXPECT_EQ(shared->qp->Receive(nullptr, {}), NdkStatus::kInvalidDeviceRequest);
  Buffer to(shared->domain, 64, kMrAllowLocalWrite);
  const Sge sge = to.sge();
  const std::array<Sge, 5> five = {sge, sge, sge, sge, sge};
  EXPECT_EQ(shared->srq->Receive(nullptr, five), NdkStatus::kDataOverrun);
  for (uintptr_t i = 0; i < 4; ++i) ASSERT_EQ(shared->srq->Receive(Context(i), {&sge, 1}), NdkStatus::kSuccess);
  EXPECT_EQ(shared->srq->Modify(0, 3), NdkStatus::kSuccess);
  EXPECT_EQ(shared->srq->Modify(0, 0), NdkStatus::kSuccess);
  EXPECT_EQ(shared->srq->Modify(shared->adapter->info().max_srq_depth + 1, 0), NdkStatus::kInvalidParameter);
  ASSERT_EQ(a->qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(shared->Next().qp_context, shared.get());
  EXPECT_EQ(shared->srq_notifications, 0);
  ASSERT_EQ(second.at_a->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  EXPECT_TRUE(Eventually([&] { return shared->srq_notifications == 1; })) << "nobody polls";
  const ResultEx result = shared->Next();
  EXPECT_EQ(result.qp_context, Context(22));
  EXPECT_EQ(result.request_context, Context(1));
  ASSERT_EQ(a->qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  shared->Next();
  EXPECT_EQ(shared->srq_notifications, 1) << "armed once";
  EXPECT_EQ(shared->srq->Modify(0, 2), NdkStatus::kSuccess);
  EXPECT_TRUE(Eventually([&] { return shared->srq_notifications == 2; })) << "already below: at once";
  CloseAndWait(second.at_a), CloseAndWait(second.at_b);
}

TEST_P(DataPathConformance, AQueuePairOfASharedReceiveQueueHasNoUseForAttributesOfItsOwn) {
  const auto shared = NewSide({.srq = true});
  const auto made = shared->domain->CreateQueuePair({.receive_cq = shared->cq,
                                                     .initiator_cq = shared->cq,
                                                     .srq = shared->srq,
                                                     .receive_queue_depth = ~0u,
                                                     .max_receive_request_sge = ~0u});
  ASSERT_EQ(made.status, NdkStatus::kSuccess);
  CloseAndWait(made.object);
}

TEST_P(DataPathConformance, ASharedReceiveQueueIsResizedOrNot) {
  const auto shared = NewSide({.depth = 4, .srq = true});
  ASSERT_NE(shared->srq, nullptr);
  for (uintptr_t i = 0; i < 4; ++i) ASSERT_EQ(shared->srq->Receive(Context(i), {}), NdkStatus::kSuccess);
  EXPECT_EQ(shared->srq->Receive(nullptr, {}), NdkStatus::kInsufficientResources);
  const NdkStatus status = shared->srq->Modify(8, 0);
  EXPECT_TRUE(status == NdkStatus::kSuccess || status == NdkStatus::kNotSupported);
  if (status != NdkStatus::kSuccess) return;
  for (uintptr_t i = 4; i < 8; ++i) ASSERT_EQ(shared->srq->Receive(Context(i), {}), NdkStatus::kSuccess);
  EXPECT_EQ(shared->srq->Modify(7, 0), NdkStatus::kBufferOverflow);
}

TEST_P(DataPathConformance, AThresholdThatIsArmedFromTheStartNotifiesOnTheStepBelow) {
  std::atomic<int> notifications = 0;
  SharedReceiveQueue* const srq = b->domain
                                      ->CreateSharedReceiveQueue({.depth = 8,
                                                                  .max_receive_request_sge = 1,
                                                                  .notify_threshold = 2,
                                                                  .notification = [&](NdkStatus) { ++notifications; }})
                                      .object;
  ASSERT_NE(srq, nullptr);
  QueuePair* const qp = b->domain->CreateQueuePair({.receive_cq = b->cq, .initiator_cq = b->cq, .srq = srq}).object;
  QueuePair* const peer = a->NewQueuePair({}, nullptr);
  pair->Connect(peer, {}, qp, {});
  for (int i = 0; i < 3; ++i) ASSERT_EQ(srq->Receive(nullptr, {}), NdkStatus::kSuccess);
  ASSERT_EQ(peer->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  b->Next();
  EXPECT_EQ(notifications, 0);
  ASSERT_EQ(peer->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  EXPECT_TRUE(Eventually([&] { return notifications == 1; }));
  CloseAndWait(peer), CloseAndWait(qp), CloseAndWait(srq);
}

TEST_P(DataPathConformance, AHundredQueuePairsHaveQueuesOfTheirOwn) {
  std::vector<DataObject*> made;
  for (int i = 0; i < 100; ++i) {
    const auto cq = a->adapter->CreateCompletionQueue(1, {});
    ASSERT_EQ(cq.status, NdkStatus::kSuccess) << i;
    made.push_back(cq.object);
    QueuePairAttributes attributes{.receive_cq = cq.object, .initiator_cq = cq.object};
    attributes.receive_queue_depth = attributes.initiator_queue_depth = 1;
    attributes.max_receive_request_sge = attributes.max_initiator_request_sge = 1;
    const auto qp = a->domain->CreateQueuePair(attributes);
    ASSERT_EQ(qp.status, NdkStatus::kSuccess) << i;
    made.push_back(qp.object);
  }
  for (DataObject* const object : made) object->Close([] {});
}

TEST_P(DataPathConformance, ObjectsCloseInAnyOrder) {
  for (int order = 0; order < 6; ++order) {
    Adapter* const adapter = pair->Open();
    ProtectionDomain* const domain = adapter->CreateProtectionDomain().object;
    CompletionQueue* const cq = adapter->CreateCompletionQueue(16, {}).object;
    QueuePair* const qp =
        domain->CreateQueuePair({.receive_cq = cq, .initiator_cq = cq, .receive_queue_depth = 1}).object;
    MemoryRegion* const region = domain->CreateMemoryRegion(false).object;
    ASSERT_EQ(qp->Receive(nullptr, {}), NdkStatus::kSuccess);
    DataObject* objects[] = {adapter, domain, cq, qp, region};
    std::rotate(std::begin(objects), std::begin(objects) + order % 5, std::end(objects));
    if (order == 5) std::reverse(std::begin(objects), std::end(objects));
    std::atomic<int> open = 5;
    for (DataObject* const object : objects) {
      if (object->Close([&] { --open; }) == NdkStatus::kSuccess) --open;
    }
    EXPECT_TRUE(Eventually([&] { return open == 0; }));
  }
}

}  // namespace
}  // namespace rdmabroker
