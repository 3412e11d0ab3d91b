// SPDX-License-Identifier: Apache-2.0

// Completions that no peer in the other tests brings about, and what the consumer is told of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <string>
#include <vector>

#include "dataplane/provider_error.h"
#include "dataplane/provider_error_text.h"
#include "dataplane/verbs/completion_status.h"
#include "dataplane/verbs/testing/on_stand_in.h"
#include "dataplane/verbs/work_request.h"

namespace rdmabroker::verbs {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr uint32_t kVendorError = 77;

std::vector<ibv_wc_status> Failures() {
  std::vector<ibv_wc_status> failures;
  for (int status = IBV_WC_SUCCESS + 1; status <= IBV_WC_TM_RNDV_INCOMPLETE; ++status) {
    failures.push_back(static_cast<ibv_wc_status>(status));
  }
  return failures;
}

class FailedCompletions : public OnStandIn {
 protected:
  // A queue pair of A's for itself, connected to one of B's.
  void Renew() {
    if (at_a != nullptr) CloseAndWait(at_a), CloseAndWait(at_b);
    at_a = a->NewQueuePair({}, Context(1));
    at_b = b->NewQueuePair({}, nullptr);
    a->ends.clear();
    AttachToEachOther(at_a, a->NotesEnd(), at_b, nullptr);
  }
  void TearDown() override {
    if (at_a != nullptr) CloseAndWait(at_a), CloseAndWait(at_b);
    OnStandIn::TearDown();
  }

  QueuePair* at_a = nullptr;
  QueuePair* at_b = nullptr;
};

TEST_F(FailedCompletions, EachStatusOfAReceiveReachesTheConsumerAndEndsTheConnection) {
  for (const ibv_wc_status status : Failures()) {
    SCOPED_TRACE(ibv_wc_status_str(status));
    Renew();
    ASSERT_EQ(at_a->Receive(Context(2), {}), NdkStatus::kSuccess);
    ASSERT_EQ(at_a->Receive(Context(3), {}), NdkStatus::kSuccess);
    StandIn::Push(at_a->number(), true,
                  {.wr_id = kReceiveRequest, .status = status, .vendor_err = kVendorError, .byte_len = 99});
    const std::vector<ResultEx> results = a->Results(2);
    EXPECT_EQ(results[0].status, CompletionStatus(status, true));
    EXPECT_EQ(results[0].type, OperationType::kReceive);
    EXPECT_EQ(results[0].request_context, Context(2));
    EXPECT_EQ(results[0].qp_context, Context(1));
    EXPECT_EQ(results[0].bytes_transferred, 0u);
    EXPECT_EQ(results[0].provider_error, FailedCompletion(status, kVendorError));
    EXPECT_EQ(results[1].status, NdkStatus::kCancelled);
    EXPECT_EQ(a->End().provider_error, FailedCompletion(status, kVendorError));
  }
}

// Both have the same status; the provider error tells them apart.
TEST_F(FailedCompletions, AReceiverThatIsNotReadyIsToldFromAHostThatDoesNotAnswer) {
  std::vector<ResultEx> results;
  std::vector<std::string> texts;
  for (const ibv_wc_status status : {IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_RETRY_EXC_ERR}) {
    Renew();
    ASSERT_EQ(at_a->Send(Context(2), {}, 0), NdkStatus::kSuccess);
    StandIn::Push(at_a->number(), false, {.wr_id = 0, .status = status, .vendor_err = kVendorError});
    results.push_back(a->Next());
    EXPECT_EQ(results.back().status, NdkStatus::kIoTimeout);
    texts.push_back(ProviderErrorText(results.back().provider_error));
    EXPECT_EQ(ConnectionEndText(NdkStatus::kConnectionAborted, a->End().provider_error), texts.back());
  }
  EXPECT_NE(results[0].provider_error, results[1].provider_error);
  EXPECT_THAT(texts[0], AllOf(HasSubstr("receiver not ready"), HasSubstr("post receives"), Not(HasSubstr("host"))));
  EXPECT_THAT(texts[1], AllOf(HasSubstr("host or process is gone"), Not(HasSubstr("receive"))));
}

TEST_F(FailedCompletions, EachStatusOfASilentWriteReachesTheConsumerAndEndsTheConnection) {
  for (const ibv_wc_status status : Failures()) {
    SCOPED_TRACE(ibv_wc_status_str(status));
    Renew();
    ASSERT_EQ(at_a->Receive(Context(3), {}), NdkStatus::kSuccess);
    ASSERT_EQ(at_a->Write(Context(2), {}, {}, kOpSilentSuccess), NdkStatus::kSuccess);
    StandIn::Push(at_a->number(), false, {.wr_id = 0, .status = status, .vendor_err = kVendorError});
    const std::vector<ResultEx> results = a->Results(2);
    EXPECT_EQ(results[0].status, CompletionStatus(status, false));
    EXPECT_EQ(results[0].type, OperationType::kWrite);
    EXPECT_EQ(results[0].request_context, Context(2));
    EXPECT_EQ(results[0].provider_error, FailedCompletion(status, kVendorError));
    EXPECT_EQ(results[1].status, NdkStatus::kCancelled);
    EXPECT_EQ(a->End().provider_error, FailedCompletion(status, kVendorError));
  }
}

// Peers that do not use this library may send it.
TEST_F(FailedCompletions, ImmediateDataEndsTheConnectionAndHasNoLength) {
  const std::array<ibv_wc, 3> kinds = {
      ibv_wc{.opcode = IBV_WC_RECV_RDMA_WITH_IMM, .byte_len = 99, .wc_flags = IBV_WC_WITH_IMM},
      ibv_wc{.opcode = IBV_WC_RECV_RDMA_WITH_IMM, .byte_len = 99},
      ibv_wc{.opcode = IBV_WC_RECV, .byte_len = 99, .wc_flags = IBV_WC_WITH_IMM},
  };
  for (ibv_wc completion : kinds) {
    Renew();
    ASSERT_EQ(at_a->Receive(Context(2), {}), NdkStatus::kSuccess);
    ASSERT_EQ(at_a->Receive(Context(3), {}), NdkStatus::kSuccess);
    completion.wr_id = kReceiveRequest;
    StandIn::Push(at_a->number(), true, completion);
    const std::vector<ResultEx> results = a->Results(2);
    EXPECT_EQ(results[0].status, NdkStatus::kNotSupported);
    EXPECT_EQ(results[0].bytes_transferred, 0u);
    EXPECT_EQ(results[0].request_context, Context(2));
    EXPECT_EQ(results[1].status, NdkStatus::kCancelled);
    EXPECT_FALSE(a->End().graceful);
    EXPECT_EQ(at_a->Send(Context(4), {}, 0), NdkStatus::kSuccess);
    EXPECT_EQ(a->Next().status, NdkStatus::kCancelled) << "the connection is dead";
  }
}

TEST_F(FailedCompletions, ImmediateDataInASharedReceiveEndsTheConnectionToo) {
  const auto shared = NewSide({.srq = true});
  AttachToEachOther(shared->qp, shared->NotesEnd(), b->qp, nullptr);
  ASSERT_EQ(shared->srq->Receive(Context(2), {}), NdkStatus::kSuccess);
  StandIn::Push(shared->qp->number(), true,
                {.wr_id = kReceiveRequest, .opcode = IBV_WC_RECV, .byte_len = 99, .wc_flags = IBV_WC_WITH_IMM});
  const ResultEx result = shared->Next();
  EXPECT_EQ(result.status, NdkStatus::kNotSupported);
  EXPECT_EQ(result.bytes_transferred, 0u);
  EXPECT_EQ(result.request_context, Context(2));
  EXPECT_FALSE(shared->End().graceful);
}

TEST_F(FailedCompletions, WhatNobodyHasPostedIsNoResult) {
  Renew();
  StandIn::Push(at_a->number(), true, {.wr_id = kReceiveRequest | 5, .opcode = IBV_WC_RECV});
  StandIn::Push(at_a->number(), false, {.wr_id = 5, .opcode = IBV_WC_SEND});
  EXPECT_EQ(TakeAll(*a), 0u);
}

// By the events that a device may tell about a queue pair.
TEST_F(FailedCompletions, AnEventOfAQueuePairEndsItsConnectionAndNoOther) {
  Connect();
  for (const ibv_event_type type : {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR}) {
    Renew();
    ASSERT_EQ(at_a->Receive(Context(2), {}), NdkStatus::kSuccess);
    StandIn::Raise(at_a->number(), type);
    EXPECT_FALSE(a->End().graceful);
    EXPECT_EQ(a->Next().status, NdkStatus::kCancelled);
    EXPECT_EQ(a->qp->Write(nullptr, {}, {}, 0), NdkStatus::kSuccess);
    EXPECT_EQ(a->Next().status, NdkStatus::kSuccess);
  }
}

TEST_F(FailedCompletions, AQueueThatTheHardwareGivesUpSaysWhyAndEndsTheConnectionsOfItsQueuePairs) {
  Renew();
  a->cq->Arm(CqNotify::kErrors);
  StandIn::Raise(at_a->number(), IBV_EVENT_CQ_ERR);
  EXPECT_FALSE(a->End().graceful);
  EXPECT_TRUE(Eventually([&] { return a->notifications == 1; }));
  EXPECT_EQ(a->last_notification, NdkStatus::kInternalError) << "it is not full";
  EXPECT_EQ(a->domain->CreateQueuePair({.receive_cq = a->cq, .initiator_cq = a->cq}).status,
            NdkStatus::kInvalidDeviceState);
}

TEST_F(FailedCompletions, AFailedDeviceEndsAllConnections) {
  Connect();
  StandIn::Raise(a->qp->number(), IBV_EVENT_DEVICE_FATAL);
  EXPECT_FALSE(a->End().graceful);
  EXPECT_EQ(a->qp->Send(Context(1), {}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(a->Next().status, NdkStatus::kCancelled);
  EXPECT_EQ(b->EndCount(), 0u) << "its context is another one";
}

}  // namespace
}  // namespace rdmabroker::verbs
