// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <utility>

#include "dataplane/iwarp/progress_thread.h"
#include "dataplane/iwarp/side_for_test.h"

namespace rdmabroker::iwarp {
namespace {

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

constexpr uint32_t kUnlimited = ~uint32_t{0};
constexpr uint32_t kAnHour = 3'600'000'000;  // Microseconds: what takes so long to come does not come.

class Moderation : public testing::Test {
 protected:
  Moderation() {
    Connect(a, b);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(b.qp->Receive(nullptr, {}), NdkStatus::kSuccess);
  }
  // Results that b has seen, without waiting for a notification.
  void SendAndTake(size_t count) {
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(a.qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
    b.Results(count);
  }
  // Once everything that was due has been called.
  int Notifications() {
    std::promise<void> called;
    RunOnProgressThread([&] { called.set_value(); });
    called.get_future().wait();
    return b.notifications;
  }

  Side a;
  Side b;
};

TEST_F(Moderation, HoldsANotificationBackUntilSoManyResultsHaveCome) {
  ASSERT_EQ(b.cq->ControlInterruptModeration(kUnlimited, 3), NdkStatus::kSuccess);
  for (int round = 1; round <= 2; ++round) {
    b.cq->Arm(CqNotify::kAny);
    SendAndTake(2);
    EXPECT_EQ(Notifications(), round - 1);
    SendAndTake(1);
    EXPECT_EQ(Notifications(), round);
  }
}

TEST_F(Moderation, HoldsANotificationBackForTheIntervalAndNoLonger) {
  constexpr std::chrono::milliseconds kInterval{30};
  ASSERT_EQ(b.cq->ControlInterruptModeration(kInterval / std::chrono::microseconds(1), kUnlimited),
            NdkStatus::kSuccess);
  b.cq->Arm(CqNotify::kAny);
  const auto begin = std::chrono::steady_clock::now();
  SendAndTake(1);
  EXPECT_TRUE(Eventually([&] { return b.notifications == 1; }));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kInterval);
  SendAndTake(1);
  EXPECT_EQ(Notifications(), 1) << "armed once";
}

TEST_F(Moderation, HoldsNothingBackWithoutAnIntervalOrANumber) {
  int expected = 0;
  for (const auto& [interval, count] : {std::pair(0u, kUnlimited), {0u, 5u}, {kAnHour, 0u}, {kUnlimited, 1u}}) {
    ASSERT_EQ(b.cq->ControlInterruptModeration(interval, count), NdkStatus::kSuccess);
    b.cq->Arm(CqNotify::kAny);
    SendAndTake(1);
    EXPECT_EQ(Notifications(), ++expected) << interval << " us, " << count;
  }
}

TEST_F(Moderation, ANewSettingLetsGoWhatIsHeldBack) {
  ASSERT_EQ(b.cq->ControlInterruptModeration(kAnHour, 5), NdkStatus::kSuccess);
  b.cq->Arm(CqNotify::kAny);
  SendAndTake(1);
  EXPECT_EQ(Notifications(), 0);
  ASSERT_EQ(b.cq->ControlInterruptModeration(kAnHour, 4), NdkStatus::kSuccess);
  EXPECT_EQ(Notifications(), 1);
}

TEST_F(Moderation, AnArmMeanwhileIsSatisfiedByTheSameNotification) {
  ASSERT_EQ(b.cq->ControlInterruptModeration(kAnHour, 2), NdkStatus::kSuccess);
  b.cq->Arm(CqNotify::kSolicited);
  EXPECT_EQ(a.qp->Send(nullptr, {}, kOpSendAndSolicitEvent), NdkStatus::kSuccess);
  b.Results(1);
  b.cq->Arm(CqNotify::kAny);
  SendAndTake(1);
  EXPECT_EQ(Notifications(), 1);
  SendAndTake(2);
  EXPECT_EQ(Notifications(), 1);
}

TEST_F(Moderation, WhatAnArmFindsIsToldOfAtOnce) {
  ASSERT_EQ(b.cq->ControlInterruptModeration(kAnHour, 5), NdkStatus::kSuccess);
  b.qp->Flush();
  b.cq->Arm(CqNotify::kAny);
  EXPECT_EQ(Notifications(), 1);
}

TEST(CompletionQueue, AFullQueueHoldsNothingBack) {
  Side a;
  Side b({.cq_depth = 2});
  Connect(a, b);
  ASSERT_EQ(b.cq->ControlInterruptModeration(kAnHour, kUnlimited), NdkStatus::kSuccess);
  b.cq->Arm(CqNotify::kAny);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(b.qp->Receive(nullptr, {}), NdkStatus::kSuccess);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(a.qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  EXPECT_TRUE(Eventually([&] { return b.notifications == 1; }));
  EXPECT_EQ(b.last_notification, NdkStatus::kSuccess);
}

TEST_F(Moderation, ACloseWaitsForNoInterval) {
  ASSERT_EQ(b.cq->ControlInterruptModeration(kAnHour, kUnlimited), NdkStatus::kSuccess);
  b.cq->Arm(CqNotify::kAny);
  SendAndTake(1);
  b.Close();
  EXPECT_EQ(b.notifications, 0);
}

}  // namespace
}  // namespace rdmabroker::iwarp
