// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <thread>

#include "dataplane/iwarp/side_for_test.h"

namespace rdmabroker::iwarp {
namespace {

class CompletionQueues : public testing::Test {
 protected:
  void SetUp() override {
    Connect(a, b);
    for (uintptr_t i = 0; i < 16; ++i) ASSERT_EQ(b.qp->Receive(Context(i), {}), NdkStatus::kSuccess);
  }
  void SendToB(OpFlags flags = 0) { ASSERT_EQ(a.qp->Send(nullptr, {}, flags | kOpSilentSuccess), NdkStatus::kSuccess); }
  // Waits until all that was sent before has been dealt with at B, without looking into B's queue: a read is answered
  // in order.
  void Settle() {
    ASSERT_EQ(a.qp->Read(Context(99), {}, {}, 0), NdkStatus::kSuccess);
    ASSERT_EQ(a.Next().request_context, Context(99));
  }
  // Waits until the progress thread has called everything that was due: it calls in order.
  void SettleCallbacks() {
    Settle();
    CompletionQueue* const other = b.adapter->CreateCompletionQueue(4, [this](NdkStatus) { ++others; }).object;
    QueuePair* const qp =
        b.domain->CreateQueuePair({.receive_cq = other, .initiator_cq = other, .receive_queue_depth = 1}).object;
    const int before = others;
    ASSERT_EQ(qp->Receive(nullptr, {}), NdkStatus::kSuccess);
    other->Arm(CqNotify::kAny);
    qp->Flush();
    EXPECT_TRUE(Eventually([&] { return others > before; }));
    CloseAndWait(qp), CloseAndWait(other);
  }
  Side a, b;
  std::atomic<int> others = 0;
};

TEST_F(CompletionQueues, NothingIsNotifiedUnlessArmed) {
  SendToB();
  SettleCallbacks();
  EXPECT_EQ(b.notifications, 0);
}

TEST_F(CompletionQueues, OneArmGivesOneNotificationHoweverMuchComes) {
  b.cq->Arm(CqNotify::kAny);
  SendToB();
  SendToB();
  SettleCallbacks();
  EXPECT_EQ(b.notifications, 1);
}

TEST_F(CompletionQueues, ArmingAfterSomethingCameNotifiesAtOnceButNotTwiceForTheSame) {
  SendToB();
  Settle();
  b.cq->Arm(CqNotify::kAny);
  SettleCallbacks();
  EXPECT_EQ(b.notifications, 1);
  b.Results(1);
  b.cq->Arm(CqNotify::kAny);
  SettleCallbacks();
  EXPECT_EQ(b.notifications, 1);
}

TEST_F(CompletionQueues, SolicitedWaitsForASolicitedSendOrAFailure) {
  b.cq->Arm(CqNotify::kSolicited);
  SendToB();
  SettleCallbacks();
  EXPECT_EQ(b.notifications, 0);
  SendToB(kOpSendAndSolicitEvent);
  SettleCallbacks();
  EXPECT_EQ(b.notifications, 1);
  b.Results(2);
  b.cq->Arm(CqNotify::kSolicited);
  b.qp->Flush();
  EXPECT_TRUE(Eventually([&] { return b.notifications == 2; }));
}

TEST_F(CompletionQueues, ErrorsAloneAreNotResults) {
  b.cq->Arm(CqNotify::kErrors);
  SendToB(kOpSendAndSolicitEvent);
  SettleCallbacks();
  EXPECT_EQ(b.notifications, 0);
  b.cq->Arm(CqNotify::kAny);
  EXPECT_TRUE(Eventually([&] { return b.notifications == 1; })) << "the stronger of two arms counts";
}

TEST_F(CompletionQueues, BothFormsTellTheSame) {
  SendToB();
  Settle();
  Result results[3];
  EXPECT_TRUE(Eventually([&] { return b.cq->GetResults(results) == 1; }));
  EXPECT_EQ(results[0].qp_context, &b);
  EXPECT_EQ(results[0].request_context, Context(0));
  EXPECT_EQ(b.cq->GetResults({}), 0u);
}

TEST_F(CompletionQueues, ResizeLosesNothing) {
  EXPECT_EQ(b.cq->Resize(0), NdkStatus::kInvalidParameter);
  EXPECT_EQ(b.cq->Resize(b.adapter->info().max_cq_depth + 1), NdkStatus::kInvalidParameter);
  for (int i = 0; i < 5; ++i) SendToB();
  Settle();
  EXPECT_EQ(b.cq->Resize(4), NdkStatus::kBufferOverflow);
  EXPECT_EQ(b.cq->Resize(5), NdkStatus::kSuccess);
  EXPECT_EQ(b.cq->Resize(2000), NdkStatus::kSuccess);
  const auto results = b.Results(5);
  for (uintptr_t i = 0; i < 5; ++i) EXPECT_EQ(results[i].request_context, Context(i));
}

TEST_F(CompletionQueues, ModerationIsNotOffered) {
  EXPECT_EQ(b.cq->ControlInterruptModeration(10, 10), NdkStatus::kNotSupported);
  EXPECT_EQ(b.cq->ControlInterruptModeration(~0u, ~0u), NdkStatus::kInvalidParameterMix);
}

TEST(CompletionQueue, AnOverrunKillsTheQueueAndItsQueuePairs) {
  Side a;
  Side b({.cq_depth = 3});
  Connect(a, b);
  b.cq->Arm(CqNotify::kErrors);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(b.qp->Receive(nullptr, {}), NdkStatus::kSuccess);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(a.qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  EXPECT_TRUE(Eventually([&] { return b.notifications == 1; }));
  EXPECT_EQ(b.last_notification, NdkStatus::kBufferOverflow);
  EXPECT_FALSE(a.End().graceful);
}

TEST(CompletionQueue, AnOverrunEndsTheIdleConnectionsOfItsQueuePairsToo) {
  Side a;
  Side b({.cq_depth = 1});
  QueuePair* const idle_a = a.NewQueuePair({}, nullptr);
  QueuePair* const idle_b = b.NewQueuePair({}, nullptr);
  Connect(a, b);
  TcpPair pair = ConnectTcpPair();
  const States states = StatesFor();
  std::atomic<bool> ended = false;
  ASSERT_EQ(idle_a->Attach({std::move(pair.active), EncodeConnectionState(states.active)}, {}), NdkStatus::kSuccess);
  ASSERT_EQ(idle_b->Attach({std::move(pair.passive), EncodeConnectionState(states.passive)},
                           [&](const ConnectionEnd& end) { ended = !end.graceful; }),
            NdkStatus::kSuccess);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(b.qp->Receive(nullptr, {}), NdkStatus::kSuccess);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(a.qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  b.End();
  EXPECT_TRUE(Eventually([&] { return ended.load(); })) << "nothing comes for it, and nobody polls";
  CloseAndWait(idle_a), CloseAndWait(idle_b);
}

TEST(CompletionQueue, AQueueMayBeClosedFromItsOwnNotification) {
  const auto adapter = OpenAdapter().object;
  ProtectionDomain* const domain = adapter->CreateProtectionDomain().object;
  std::atomic<bool> closed = false;
  CompletionQueue* cq = nullptr;
  QueuePair* qp = nullptr;
  cq = adapter
           ->CreateCompletionQueue(4,
                                   [&](NdkStatus) {
                                     EXPECT_EQ(qp->Close({}), NdkStatus::kSuccess);
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

TEST(SharedReceiveQueue, TwoQueuePairsTakeFromItAndTheThresholdNotifiesOnce) {
  Side a;
  Side b({.srq = true});
  QueuePair* const second_a = a.NewQueuePair({}, Context(2));
  QueuePair* const second_b = b.NewQueuePair({}, Context(22));
  Connect(a, b);
  TcpPair pair = ConnectTcpPair();
  const States states = StatesFor();
  ASSERT_EQ(second_a->Attach({std::move(pair.active), EncodeConnectionState(states.active)}, {}), NdkStatus::kSuccess);
  ASSERT_EQ(second_b->Attach({std::move(pair.passive), EncodeConnectionState(states.passive)}, {}),
            NdkStatus::kSuccess);
  EXPECT_EQ(b.qp->Receive(nullptr, {}), NdkStatus::kInvalidDeviceRequest);
  Buffer to(b.domain, 64, kMrAllowLocalWrite);
  const Sge sge = to.sge();
  for (uintptr_t i = 0; i < 4; ++i) ASSERT_EQ(b.srq->Receive(Context(i), {&sge, 1}), NdkStatus::kSuccess);
  EXPECT_EQ(b.srq->Modify(0, 3), NdkStatus::kSuccess);
  EXPECT_EQ(b.srq->Modify(0, 0), NdkStatus::kSuccess);
  EXPECT_EQ(b.srq->Modify(100'000, 0), NdkStatus::kInvalidParameter);
  EXPECT_EQ(b.srq->Modify(3, 0), NdkStatus::kBufferOverflow);
  ASSERT_EQ(a.qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(b.Next().qp_context, &b);
  EXPECT_EQ(b.srq_notifications, 0);
  ASSERT_EQ(second_a->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  const ResultEx result = b.Next();
  EXPECT_EQ(result.qp_context, Context(22));
  EXPECT_EQ(result.request_context, Context(1));
  EXPECT_TRUE(Eventually([&] { return b.srq_notifications == 1; }));
  ASSERT_EQ(a.qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  b.Next();
  EXPECT_EQ(b.srq->Modify(0, 2), NdkStatus::kSuccess);
  EXPECT_TRUE(Eventually([&] { return b.srq_notifications == 2; })) << "already below: at once";
  CloseAndWait(second_a), CloseAndWait(second_b);
}

TEST(Objects, CloseInAnyOrder) {
  for (int order = 0; order < 6; ++order) {
    Adapter* const adapter = OpenAdapter().object;
    ProtectionDomain* const domain = adapter->CreateProtectionDomain().object;
    CompletionQueue* const cq = adapter->CreateCompletionQueue(16, {}).object;
    QueuePair* const qp = domain->CreateQueuePair({.receive_cq = cq, .initiator_cq = cq}).object;
    MemoryRegion* const region = domain->CreateMemoryRegion(false).object;
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
}  // namespace rdmabroker::iwarp
