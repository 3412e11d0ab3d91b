// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <atomic>

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

}  // namespace
}  // namespace rdmabroker::iwarp
