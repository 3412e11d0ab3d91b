// SPDX-License-Identifier: Apache-2.0

// A hardware object fails as a whole: the objects that depend on it fail or end with it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <mutex>
#include <vector>

#include "dataplane/verbs/testing/on_stand_in.h"

namespace rdmabroker::verbs {
namespace {

using FailedObjects = OnStandIn;

TEST_F(FailedObjects, ASharedReceiveQueueSaysSoOnceAndItsQueuePairsAreDeadAndNoOthers) {
  std::mutex mutex;
  std::vector<NdkStatus> notified;
  const auto note = [&](NdkStatus status) {
    const std::lock_guard lock(mutex);
    notified.push_back(status);
  };
  SharedReceiveQueue* const failing =
      a->domain->CreateSharedReceiveQueue({.depth = 8, .max_receive_request_sge = 1, .notification = note}).object;
  QueuePair* const dead =
      a->domain
          ->CreateQueuePair({.receive_cq = a->cq, .initiator_cq = a->cq, .srq = failing, .initiator_queue_depth = 1})
          .object;
  QueuePair* const alive = a->NewQueuePair({}, nullptr);
  QueuePair* const peer = b->NewQueuePair({}, nullptr);
  AttachToEachOther(dead, a->NotesEnd(), b->qp, nullptr);
  AttachToEachOther(alive, a->NotesEnd(), peer, nullptr);
  for (int i = 0; i < 2; ++i) StandIn::Raise(dead->number(), IBV_EVENT_SRQ_ERR);
  EXPECT_FALSE(a->End().graceful);
  AwaitCallbacks(*a);
  {
    const std::lock_guard lock(mutex);
    EXPECT_THAT(notified, testing::ElementsAre(NdkStatus::kInternalError));
  }
  EXPECT_EQ(failing->Receive(nullptr, {}), NdkStatus::kInvalidDeviceState);
  EXPECT_EQ(failing->Modify(0, 1), NdkStatus::kInvalidDeviceState);
  EXPECT_EQ(dead->Send(Context(1), {}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(a->Next().status, NdkStatus::kCancelled);
  EXPECT_EQ(alive->Write(Context(2), {}, {}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(a->Next().status, NdkStatus::kSuccess);
  EXPECT_EQ(a->EndCount(), 1u);
  CloseAndWait(dead), CloseAndWait(failing), CloseAndWait(alive), CloseAndWait(peer);
}

TEST_F(FailedObjects, AQueueThatCannotBeReadSaysSoAndItsQueuePairsAreDead) {
  Connect();
  ASSERT_EQ(a->qp->Receive(Context(1), {}), NdkStatus::kSuccess);
  a->cq->Arm(CqNotify::kAny);
  StandIn::FailNext("ibv_poll_cq", EIO);
  EXPECT_EQ(TakeAll(*a), 0u);
  EXPECT_TRUE(Eventually([&] { return a->notifications == 1; }));
  EXPECT_EQ(a->last_notification, NdkStatus::kInternalError);
  EXPECT_EQ(a->Next().status, NdkStatus::kCancelled);
  EXPECT_FALSE(a->End().graceful);
}

TEST_F(FailedObjects, AQueueThatCannotBeArmedSaysSoInsteadOfWaitingForEver) {
  Connect();
  StandIn::FailNext("ibv_req_notify_cq", EIO);
  a->cq->Arm(CqNotify::kAny);
  EXPECT_TRUE(Eventually([&] { return a->notifications == 1; }));
  EXPECT_EQ(a->last_notification, NdkStatus::kInternalError);
}

// Such a device cancels nothing itself: waiting for it would be in vain.
TEST_F(FailedObjects, ADeviceThatIsGoneHasItsRequestsCancelledAtOnce) {
  StandIn::SetFlush(StandIn::Flush::kNever);
  EXPECT_TRUE(IsQuick([&] {
    Connect();
    ASSERT_EQ(a->qp->Receive(Context(1), {}), NdkStatus::kSuccess);
    StandIn::FailNext("ibv_modify_qp", EIO);
    StandIn::Raise(a->qp->number(), IBV_EVENT_DEVICE_FATAL);
    EXPECT_EQ(a->Next().status, NdkStatus::kCancelled);
  }));
  EXPECT_FALSE(a->End().graceful);
}

TEST_F(FailedObjects, AConnectionsEndLeavesAWindowWhoseBindWasNotCarriedOutAsItWas) {
  Buffer first(a->domain, 64, kAllAccess), second(a->domain, 64, kAllAccess);
  MemoryWindow* const window = a->domain->CreateMemoryWindow().object;
  Connect(kRetryForever);
  const auto bind = [&](Buffer& memory) {
    return a->qp->Bind(Context(1), memory.region(), window, memory.bytes().data(), 64, kOpAllowRemoteRead);
  };
  ASSERT_EQ(bind(first), NdkStatus::kSuccess);
  EXPECT_EQ(a->Next().status, NdkStatus::kSuccess);
  const RemoteToken token = window->remote_token();
  ASSERT_EQ(a->qp->Send(Context(2), {}, 0), NdkStatus::kSuccess) << "it waits for a receive, and so does the next";
  ASSERT_EQ(bind(second), NdkStatus::kSuccess);
  EXPECT_NE(window->remote_token(), token);
  StandIn::Raise(a->qp->number(), IBV_EVENT_QP_FATAL);
  for (const ResultEx& result : a->Results(2)) EXPECT_EQ(result.status, NdkStatus::kCancelled);
  EXPECT_EQ(window->remote_token(), token);
  EXPECT_EQ(second.region()->Deregister(), NdkStatus::kSuccess);
  EXPECT_EQ(first.region()->Deregister(), NdkStatus::kDeviceBusy);
  CloseAndWait(window);
  EXPECT_EQ(first.region()->Deregister(), NdkStatus::kSuccess);
}

TEST_F(FailedObjects, ASendThatFindsNoReceiveInTimeIsATimeout) {
  Connect();
  ASSERT_EQ(a->qp->Send(Context(1), {}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(TakeAll(*a), 0u) << "it waits";
  EXPECT_EQ(a->Next().status, NdkStatus::kIoTimeout);
  EXPECT_NE(a->End().provider_error, 0u);
}

}  // namespace
}  // namespace rdmabroker::verbs
