// SPDX-License-Identifier: Apache-2.0

// Functions of the hardware's that fail: which status the consumer gets, and that nothing is left of what was made
// before.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/resource.h>

#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "dataplane/last_hint.h"
#include "dataplane/refusal.h"
#include "dataplane/verbs/testing/on_stand_in.h"
#include "dataplane/verbs/transition.h"

namespace rdmabroker::verbs {
namespace {

constexpr struct {
  int error;
  NdkStatus status;
} kErrors[] = {
    {ENOMEM, NdkStatus::kInsufficientResources}, {EOPNOTSUPP, NdkStatus::kNotSupported},
    {EPERM, NdkStatus::kAccessDenied},           {EIO, NdkStatus::kDeviceRemoved},
    {EINVAL, NdkStatus::kInvalidParameter},      {EDOM, NdkStatus::kUnsuccessful},
};

using Refusals = OnStandIn;

TEST_F(Refusals, WhatCannotBeMadeLeavesNothingBehindAndCanBeMadeLater) {
  const struct {
    const char* function;
    std::function<Created<DataObject>()> make;
  } rows[] = {
      {"ibv_alloc_pd",
       [&] {
         const auto made = a->adapter->CreateProtectionDomain();
         return Created<DataObject>{made.status, made.object};
       }},
      {"ibv_create_cq",
       [&] {
         const auto made = a->adapter->CreateCompletionQueue(4, {});
         return Created<DataObject>{made.status, made.object};
       }},
      {"ibv_create_srq",
       [&] {
         const auto made = a->domain->CreateSharedReceiveQueue({.depth = 4, .max_receive_request_sge = 1});
         return Created<DataObject>{made.status, made.object};
       }},
      {"ibv_alloc_mw",
       [&] {
         const auto made = a->domain->CreateMemoryWindow();
         return Created<DataObject>{made.status, made.object};
       }},
      {"ibv_create_qp",
       [&] {
         const auto made = a->domain->CreateQueuePair({.receive_cq = a->cq, .initiator_cq = a->cq});
         return Created<DataObject>{made.status, made.object};
       }},
      {"ibv_modify_qp",
       [&] {
         const auto made = a->domain->CreateQueuePair({.receive_cq = a->cq, .initiator_cq = a->cq});
         return Created<DataObject>{made.status, made.object};
       }},
  };
  const size_t before = StandIn::Objects();
  for (const auto& row : rows) {
    for (const auto& [error, status] : kErrors) {
      SCOPED_TRACE(std::string(row.function) + ": " + std::to_string(error));
      StandIn::FailNext(row.function, error);
      const Created<DataObject> refused = row.make();
      EXPECT_EQ(refused.status, status);
      EXPECT_NE(std::string(LastHint()).find("errno " + std::to_string(error)), std::string::npos) << LastHint();
      EXPECT_EQ(refused.object, nullptr);
      EXPECT_EQ(StandIn::Objects(), before);
    }
    const Created<DataObject> made = row.make();
    ASSERT_EQ(made.status, NdkStatus::kSuccess) << row.function;
    CloseAndWait(made.object);
    EXPECT_EQ(StandIn::Objects(), before) << row.function;
  }
}

TEST_F(Refusals, AnAdapterThatCannotBeOpenedLeavesNothingBehind) {
  const size_t before = StandIn::Objects();
  for (const std::string function : {"ibv_get_device_list", "ibv_open_device", "ibv_query_device_ex", "ibv_query_port",
                                     "ibv_alloc_pd", "ibv_create_cq"}) {
    for (const auto& [error, status] : kErrors) {
      SCOPED_TRACE(function + ": " + std::to_string(error));
      // The header asks in an older way, then.
      if (function == "ibv_query_device_ex" && error == EOPNOTSUPP) continue;
      StandIn::FailNext(function, error);
      const Created<Adapter> refused = OpenAdapter(StandIn::kName);
      EXPECT_EQ(refused.status, status);
      EXPECT_EQ(refused.object, nullptr);
      EXPECT_EQ(StandIn::Objects(), before);
    }
  }
  StandIn::FailNext("ibv_create_comp_channel", EMFILE);
  EXPECT_EQ(OpenAdapter(StandIn::kName).status, NdkStatus::kInsufficientResources);
  EXPECT_EQ(StandIn::Objects(), before);
}

TEST_F(Refusals, MemoryThatCannotBeRegisteredIsNoRegionsYet) {
  std::vector<uint8_t> memory(64);
  MemoryRegion* const region = a->domain->CreateMemoryRegion(false).object;
  const size_t before = StandIn::Objects();
  for (const auto& [error, status] : kErrors) {
    StandIn::FailNext("ibv_reg_mr", error);
    EXPECT_EQ(region->Register(memory.data(), memory.size(), kMrAllowRemoteWrite), status) << error;
    EXPECT_EQ(region->local_token(), LocalToken{});
    EXPECT_EQ(region->remote_token(), RemoteToken{});
    EXPECT_EQ(StandIn::Objects(), before);
  }
  StandIn::FailNext("ibv_reg_mr", EFAULT);
  EXPECT_EQ(region->Register(memory.data(), memory.size(), kMrAllowRemoteWrite), NdkStatus::kAccessViolation);
  EXPECT_EQ(region->Register(memory.data(), memory.size(), kMrAllowRemoteWrite), NdkStatus::kSuccess);
  StandIn::FailNext("ibv_dereg_mr", EBUSY);
  EXPECT_EQ(region->Deregister(), NdkStatus::kDeviceBusy);
  EXPECT_NE(region->local_token(), LocalToken{}) << "it is registered still";
  EXPECT_EQ(region->Deregister(), NdkStatus::kSuccess);
  CloseAndWait(region);
}

TEST_F(Refusals, ATransitionThatIsRefusedCanBeTriedAgain) {
  for (const QpAttributes& step : TransitionsTo(b->qp->number())) {
    for (const auto& [error, status] : kErrors) {
      StandIn::FailNext("ibv_modify_qp", error);
      EXPECT_EQ(a->qp->Attach(AttachmentFor(step), a->NotesEnd()), status) << step.qp_state << ": " << error;
    }
    EXPECT_EQ(a->qp->Attach({}, a->NotesEnd()), NdkStatus::kInvalidParameter) << "it cannot send yet";
    EXPECT_EQ(a->qp->Attach(AttachmentFor(step), a->NotesEnd()), NdkStatus::kSuccess);
  }
  for (const QpAttributes& step : TransitionsTo(a->qp->number())) {
    EXPECT_EQ(b->qp->Attach(AttachmentFor(step), b->NotesEnd()), NdkStatus::kSuccess);
  }
  EXPECT_EQ(a->qp->Attach({}, a->NotesEnd()), NdkStatus::kSuccess);
  EXPECT_EQ(a->qp->Write(nullptr, {}, {}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(a->Next().status, NdkStatus::kSuccess);
}

TEST_F(Refusals, APostThatTheHardwareRefusesGivesNoResultAndTheConnectionStays) {
  Connect();
  StandIn::FailNext("ibv_post_send", ENOMEM);
  EXPECT_EQ(a->qp->Send(Context(1), {}, 0), NdkStatus::kInsufficientResources);
  StandIn::FailNext("ibv_post_recv", EINVAL);
  EXPECT_EQ(a->qp->Receive(Context(2), {}), NdkStatus::kUnsuccessful);
  EXPECT_EQ(TakeAll(*a), 0u);
  EXPECT_EQ(a->qp->Write(Context(3), {}, {}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(a->Next().request_context, Context(3));
  EXPECT_EQ(a->qp->Receive(Context(4), {}), NdkStatus::kSuccess);
  EXPECT_EQ(b->qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(a->Next().request_context, Context(4));
  QueuePair* const idle = a->NewQueuePair({}, nullptr);
  StandIn::FailNext("ibv_post_recv", ENOMEM);
  EXPECT_EQ(idle->Receive(Context(5), {}), NdkStatus::kInsufficientResources);
  idle->Flush();
  EXPECT_EQ(TakeAll(*a), 0u);
  CloseAndWait(idle);
}

TEST_F(Refusals, ADeferredPostThatTheHardwareRefusesEndsTheConnection) {
  Connect();
  EXPECT_EQ(a->qp->Write(Context(1), {}, {}, kOpDefer), NdkStatus::kSuccess);
  EXPECT_EQ(a->qp->Write(Context(2), {}, {}, kOpDefer), NdkStatus::kSuccess);
  StandIn::FailNext("ibv_post_send", EIO);
  EXPECT_EQ(a->qp->Write(Context(3), {}, {}, 0), NdkStatus::kSuccess);
  const std::vector<ResultEx> results = a->Results(3);
  EXPECT_EQ(results[0].status, NdkStatus::kInternalError);
  EXPECT_EQ(results[1].status, NdkStatus::kCancelled);
  EXPECT_EQ(results[2].status, NdkStatus::kCancelled);
  EXPECT_FALSE(a->End().graceful);
}

TEST_F(Refusals, AFlushBeforeTheConnectionCancelsAlthoughTheHardwareWillNotBeReset) {
  for (int others = 0; others < 2; ++others) {
    QueuePair* const pair = a->NewQueuePair({}, nullptr);
    ASSERT_EQ(pair->Receive(Context(1), {}), NdkStatus::kSuccess);
    StandIn::FailNext("ibv_modify_qp", EIO, others);
    pair->Flush();
    EXPECT_EQ(a->Next().status, NdkStatus::kCancelled);
    EXPECT_EQ(pair->Receive(Context(2), {}), NdkStatus::kSuccess);
    EXPECT_EQ(a->Next().request_context, Context(2)) << "it is of no use any more";
    CloseAndWait(pair);
  }
}

TEST_F(Refusals, AWindowThatTheHardwareCannotMakeAnewIsBoundNoMore) {
  Buffer shared(a->domain, 64, kAllAccess);
  MemoryWindow* const window = a->domain->CreateMemoryWindow().object;
  QueuePair* const pair = a->NewQueuePair({}, nullptr);
  AttachToEachOther(pair, nullptr, b->qp, nullptr);
  const auto bind = [&](QueuePair* by) {
    return by->Bind(nullptr, shared.region(), window, shared.bytes().data(), 64, kOpAllowRemoteRead);
  };
  ASSERT_EQ(bind(pair), NdkStatus::kSuccess);
  EXPECT_EQ(a->Next().status, NdkStatus::kSuccess);
  StandIn::FailNext("ibv_alloc_mw", ENOMEM);
  CloseAndWait(pair);
  QueuePair* const peer = b->NewQueuePair({}, nullptr);
  AttachToEachOther(a->qp, nullptr, peer, nullptr);
  EXPECT_EQ(bind(a->qp), NdkStatus::kInsufficientResources);
  EXPECT_EQ(window->remote_token(), RemoteToken{});
  EXPECT_EQ(shared.region()->Deregister(), NdkStatus::kSuccess);
  CloseAndWait(window), CloseAndWait(peer);
}

// Queues are in locked memory, too.
TEST_F(Refusals, TheLimitOfLockedMemoryIsNamedForAllThatNeedsSome) {
  rlimit limit = {};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  limit.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &limit), 0);
  const struct {
    const char* function;
    std::function<NdkStatus()> make;
  } rows[] = {
      {"ibv_create_cq", [&] { return a->adapter->CreateCompletionQueue(4, {}).status; }},
      {"ibv_create_srq", [&] { return a->domain->CreateSharedReceiveQueue({.depth = 4}).status; }},
      {"ibv_create_qp",
       [&] { return a->domain->CreateQueuePair({.receive_cq = a->cq, .initiator_cq = a->cq}).status; }},
      {"ibv_reg_mr",
       [&] {
         std::vector<uint8_t> memory(8192);
         MemoryRegion* const region = a->domain->CreateMemoryRegion(false).object;
         const NdkStatus status = region->Register(memory.data(), memory.size(), 0);
         const std::string hint = LastHint();
         CloseAndWait(region);
         Refuse(status, "%s", hint);
         return status;
       }},
  };
  for (const auto& [function, make] : rows) {
    StandIn::FailNext(function, ENOMEM);
    EXPECT_EQ(make(), NdkStatus::kInsufficientResources) << function;
    EXPECT_NE(std::string(LastHint()).find("RLIMIT_MEMLOCK"), std::string::npos) << function << ": " << LastHint();
  }
}

TEST_F(Refusals, OfAQueuePairsStepNamesWhatWasAskedForAndThePathMtuOfBothEnds) {
  std::vector<QpAttributes> steps = TransitionsTo(b->qp->number());
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].qp_state == IBV_QPS_RTR) {
      // Another than that of the stand-in's port.
      steps[i].path_mtu = IBV_MTU_1024;
      StandIn::FailNext("ibv_modify_qp", EINVAL);
    }
    const NdkStatus status = a->qp->Attach(AttachmentFor(steps[i]), {});
    if (steps[i].qp_state != IBV_QPS_RTR) continue;
    EXPECT_EQ(status, NdkStatus::kInvalidParameter);
    const std::string hint = LastHint();
    for (const std::string& part : {"queue pair " + std::to_string(a->qp->number()), "errno " + std::to_string(EINVAL),
                                    std::string("path MTU of 1024"), std::string("port 1 of this side 4096")}) {
      EXPECT_NE(hint.find(part), std::string::npos) << hint;
    }
    break;
  }
}

}  // namespace
}  // namespace rdmabroker::verbs
