// SPDX-License-Identifier: Apache-2.0

// What requests do, and how they end.

#include <gtest/gtest.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/data_path_conformance.h"

namespace rdmabroker {
namespace {

TEST_P(DataPathConformance, ASendArrivesInAReceiveWithLengthAndContexts) {
  Connect();
  Buffer from(a->domain, 200'000, kMrAllowLocalRead);
  Buffer to(b->domain, 200'000, kMrAllowLocalWrite);
  from.Fill(1);
  for (const size_t length : {0u, 1u, 3u, 64u, 511u, 513u, 1500u, 65'519u, 65'536u, 200'000u}) {
    to.Fill(2);
    const Sge in = to.sge();
    ASSERT_EQ(b->qp->Receive(Context(7), {&in, 1}), NdkStatus::kSuccess);
    const Sge out[] = {from.sge(0, length / 2), from.sge(length / 2, length - length / 2)};
    ASSERT_EQ(a->qp->Send(Context(8), out, 0), NdkStatus::kSuccess);
    std::thread sender([&] {
      const ResultEx sent = a->Next();
      EXPECT_EQ(sent.status, NdkStatus::kSuccess);
      EXPECT_EQ(sent.type, OperationType::kSend);
      EXPECT_EQ(sent.request_context, Context(8));
      EXPECT_EQ(sent.qp_context, a.get());
      EXPECT_EQ(sent.provider_error, 0u);
    });
    const ResultEx received = b->Next();
    sender.join();
    EXPECT_EQ(received.status, NdkStatus::kSuccess);
    EXPECT_EQ(received.type, OperationType::kReceive);
    EXPECT_EQ(received.bytes_transferred, length);
    EXPECT_EQ(received.request_context, Context(7));
    EXPECT_EQ(received.qp_context, b.get());
    EXPECT_EQ(received.provider_error, 0u);
    EXPECT_TRUE(
        std::equal(from.bytes().begin(), from.bytes().begin() + static_cast<ptrdiff_t>(length), to.bytes().begin()));
  }
}

TEST_P(DataPathConformance, AWriteAndThenASendThatTellsOfIt) {
  Connect();
  Buffer from(a->domain, 1'000'000, kMrAllowLocalRead);
  Buffer to(b->domain, 1'000'000, kMrAllowRemoteWrite);
  Buffer note(b->domain, 8, kMrAllowLocalWrite);
  from.Fill(3);
  PostReceive(*b, note, 8);
  const Sge out = from.sge(0, from.bytes().size() - 5);
  ASSERT_EQ(a->qp->Write(Context(1), {&out, 1}, to.remote(5), kOpDefer), NdkStatus::kSuccess);
  ASSERT_EQ(a->qp->Send(Context(2), {}, 0), NdkStatus::kSuccess);
  std::thread sender([&] {
    const auto results = a->Results(2);
    EXPECT_EQ(results[0].type, OperationType::kWrite);
    EXPECT_EQ(results[0].status, NdkStatus::kSuccess);
    EXPECT_EQ(results[1].type, OperationType::kSend);
  });
  EXPECT_EQ(b->Next().status, NdkStatus::kSuccess);
  sender.join();
  EXPECT_TRUE(std::equal(to.bytes().begin() + 5, to.bytes().end(), from.bytes().begin()));
}

TEST_P(DataPathConformance, AReadNeedsNobodyToPollOnTheOtherSide) {
  Connect();
  Buffer to(a->domain, 1'000'003, kMrAllowLocalWrite | kMrRdmaReadSink);
  Buffer from(b->domain, 1'000'003, kMrAllowRemoteRead);
  from.Fill(4);
  const Sge in = to.sge();
  ASSERT_EQ(a->qp->Read(Context(1), {&in, 1}, from.remote(), 0), NdkStatus::kSuccess);
  const ResultEx read = a->Next();
  EXPECT_EQ(read.status, NdkStatus::kSuccess);
  EXPECT_EQ(read.type, OperationType::kRead);
  EXPECT_EQ(to.bytes(), from.bytes());
}

TEST_P(DataPathConformance, ZeroLengthAccessesNeedNoMemory) {
  Connect();
  ASSERT_EQ(a->qp->Write(nullptr, {}, {0, RemoteToken{0xDEAD}}, 0), NdkStatus::kSuccess);
  ASSERT_EQ(a->qp->Read(nullptr, {}, {0, RemoteToken{0xDEAD}}, 0), NdkStatus::kSuccess);
  for (const ResultEx& result : a->Results(2)) EXPECT_EQ(result.status, NdkStatus::kSuccess);
}

TEST_P(DataPathConformance, MoreReadsThanTheLimitWaitTheirTurnAndCompleteInOrder) {
  Connect();
  constexpr size_t kReads = 60;
  Buffer to(a->domain, kReads * 1000, kMrAllowLocalWrite | kMrRdmaReadSink);
  Buffer from(b->domain, kReads * 1000, kMrAllowRemoteRead);
  from.Fill(5);
  for (size_t i = 0; i < kReads; ++i) {
    const Sge in = to.sge(i * 1000, 1000);
    ASSERT_EQ(a->qp->Read(Context(i), {&in, 1}, from.remote(i * 1000), 0), NdkStatus::kSuccess);
  }
  const auto results = a->Results(kReads);
  for (size_t i = 0; i < kReads; ++i) {
    EXPECT_EQ(results[i].status, NdkStatus::kSuccess);
    EXPECT_EQ(results[i].request_context, Context(i));
  }
  EXPECT_EQ(to.bytes(), from.bytes());
}

TEST_P(DataPathConformance, BeforeTheyAreConnectedOnlyReceivesCanBePosted) {
  Buffer buffer(a->domain, 8192, kAllAccess);
  const Sge sge = buffer.sge();
  const RemoteMemory nowhere;
  EXPECT_EQ(a->qp->Send(nullptr, {&sge, 1}, 0), NdkStatus::kConnectionInvalid);
  EXPECT_EQ(a->qp->SendAndInvalidate(nullptr, {&sge, 1}, 0, {}), NdkStatus::kConnectionInvalid);
  EXPECT_EQ(a->qp->Read(nullptr, {&sge, 1}, nowhere, 0), NdkStatus::kConnectionInvalid);
  EXPECT_EQ(a->qp->Write(nullptr, {&sge, 1}, nowhere, 0), NdkStatus::kConnectionInvalid);
  for (MemoryWindow* const window : Windows(*a, 1)) {
    EXPECT_EQ(a->qp->Bind(nullptr, buffer.region(), window, buffer.bytes().data(), 1, kOpAllowRemoteRead),
              NdkStatus::kConnectionInvalid);
    EXPECT_EQ(a->qp->Invalidate(nullptr, window, 0), NdkStatus::kConnectionInvalid);
    CloseAndWait(window);
  }
  EXPECT_EQ(a->qp->Receive(nullptr, {&sge, 1}), NdkStatus::kSuccess);
}

TEST_P(DataPathConformance, FlushBeforeTheConnectionCancelsReceivesAndNotifiesOnce) {
  Buffer buffer(a->domain, 64, kMrAllowLocalWrite);
  a->cq->Arm(CqNotify::kAny);
  PostReceive(*a, buffer, 64, 1);
  PostReceive(*a, buffer, 64, 2);
  a->qp->Flush();
  const auto results = a->Results(2);
  EXPECT_EQ(results[0].status, NdkStatus::kCancelled);
  EXPECT_EQ(results[0].request_context, Context(1));
  EXPECT_EQ(results[1].status, NdkStatus::kCancelled);
  EXPECT_TRUE(Eventually([&] { return a->notifications == 1; }));
  PostReceive(*a, buffer, 64, 3);
  Connect();
  EXPECT_EQ(b->qp->Send(nullptr, {}, kOpInline), NdkStatus::kSuccess)
      << "the queue pair is still good for a connection";
  EXPECT_EQ(a->Next().request_context, Context(3));
}

TEST_P(DataPathConformance, AnInlineSendCopiesAndNeedsNoToken) {
  Connect();
  Buffer to(b->domain, 64, kMrAllowLocalWrite);
  for (const OpFlags flags : {kOpInline, kOpInline | kOpDefer}) {
    PostReceive(*b, to, 64);
    char text[] = "hello world";
    const Sge pieces[] = {{text, 2, {}}, {text + 2, 2, {}}, {text + 4, 2, {}}, {text + 6, 2, {}}, {text + 8, 3, {}}};
    ASSERT_EQ(a->qp->Send(nullptr, pieces, flags), NdkStatus::kSuccess) << "more SGEs than the queue pair has are fine";
    std::fill(std::begin(text), std::end(text), 'x');
    if ((flags & kOpDefer) != 0) {
      EXPECT_EQ(a->qp->Write(nullptr, {}, {}, 0), NdkStatus::kSuccess) << "ends the chain";
    }
    EXPECT_EQ(b->Next().bytes_transferred, 11u);
    EXPECT_EQ(std::string(to.bytes().begin(), to.bytes().begin() + 11), "hello world");
  }
  char much[65] = {};
  const Sge sge = {much, 65, {}};
  EXPECT_EQ(a->qp->Send(nullptr, {&sge, 1}, kOpInline), NdkStatus::kDataOverrun);
}

TEST_P(DataPathConformance, WrongPostsFailInlineAndGiveNoResult) {
  Connect();
  Buffer buffer(a->domain, 64, kAllAccess);
  const Sge sge = buffer.sge(0, 1);
  const Sge five[] = {sge, sge, sge, sge, sge};
  EXPECT_EQ(a->qp->Send(nullptr, five, 0), NdkStatus::kDataOverrun);
  EXPECT_EQ(a->qp->Receive(nullptr, five), NdkStatus::kDataOverrun);
  EXPECT_EQ(a->qp->Send(nullptr, {&sge, 1}, kOpAllowRemoteRead), NdkStatus::kInvalidParameter);
  EXPECT_EQ(a->qp->Read(nullptr, {&sge, 1}, {}, kOpInline), NdkStatus::kInvalidParameter);
  EXPECT_EQ(a->qp->Write(nullptr, {&sge, 1}, {}, 0x8000), NdkStatus::kInvalidParameter);
  ResultEx result;
  EXPECT_EQ(a->cq->GetResultsEx({&result, 1}), 0u);
}

TEST_P(DataPathConformance, AFullQueueRefusesAndStaysGood) {
  Connect();
  Buffer buffer(a->domain, 64, kMrAllowLocalWrite);
  for (int i = 0; i < 64; ++i) PostReceive(*a, buffer, 64);
  const Sge sge = buffer.sge();
  EXPECT_EQ(a->qp->Receive(nullptr, {&sge, 1}), NdkStatus::kInsufficientResources);
  Buffer at_b(b->domain, 64, kMrAllowLocalWrite);
  for (int i = 0; i < 64; ++i) PostReceive(*b, at_b, 64);
  for (int i = 0; i < 64; ++i) ASSERT_EQ(a->qp->Send(nullptr, {}, kOpDefer), NdkStatus::kSuccess);
  EXPECT_EQ(b->qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(a->Next().status, NdkStatus::kSuccess);
}

// Of two writes into one place the bytes of either may be there, or of both.
TEST_P(DataPathConformance, WritesIntoMemoryThatSomebodyElseWritesEndNoConnection) {
  constexpr size_t kLength = 64 * 1024;
  Connect();
  Buffer from(a->domain, kLength, kMrAllowLocalRead);
  Buffer to(b->domain, kLength, kMrAllowRemoteWrite);
  from.Fill(1);
  std::atomic<bool> over = false;
  // By the kernel, which no tool that looks for races takes for one of the program's own.
  std::thread other([&] {
    std::vector<uint8_t> bytes(kLength);
    iovec local = {bytes.data(), bytes.size()};
    iovec remote = {to.bytes().data(), to.bytes().size()};
    for (uint8_t value = 0; !over; ++value) {
      std::fill(bytes.begin(), bytes.end(), value);
      ::process_vm_writev(::getpid(), &local, 1, &remote, 1, 0);
    }
  });
  const Sge sge = from.sge();
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    EXPECT_EQ(a->qp->Write(nullptr, {&sge, 1}, to.remote(), 0), NdkStatus::kSuccess) << i;
    EXPECT_EQ(a->Next().status, NdkStatus::kSuccess) << i;
    b->cq->GetResults({});
  }
  over = true;
  other.join();
  ASSERT_EQ(a->qp->Write(nullptr, {&sge, 1}, to.remote(), 0), NdkStatus::kSuccess);
  EXPECT_EQ(a->Next().status, NdkStatus::kSuccess);
  Settle();
  EXPECT_EQ(to.bytes(), from.bytes());
}

TEST_P(DataPathConformance, ASendHasItsPlaceUntilItsResultIsTaken) {
  Connect();
  Buffer at_b(b->domain, 64, kMrAllowLocalWrite);
  for (int i = 0; i < 64; ++i) PostReceive(*b, at_b, 64);
  for (int i = 0; i < 64; ++i) ASSERT_EQ(a->qp->Send(nullptr, {}, 0), NdkStatus::kSuccess) << i;
  b->Results(64);
  for (int i = 0; i < 2; ++i) PostReceive(*b, at_b, 64);
  EXPECT_EQ(a->qp->Send(nullptr, {}, 0), NdkStatus::kInsufficientResources) << "though all have arrived";
  a->Next();
  EXPECT_EQ(a->qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(a->qp->Send(nullptr, {}, 0), NdkStatus::kInsufficientResources);
  a->Results(64);
  EXPECT_EQ(a->qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  b->Results(2);
}

TEST_P(DataPathConformance, SilentSuccessIsSilentHoweverManyThereAre) {
  Connect();
  Buffer from(a->domain, 100, kMrAllowLocalRead);
  Buffer to(b->domain, 100, kMrAllowRemoteWrite);
  const Sge sge = from.sge();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(Eventually([&] {
      return a->qp->Write(nullptr, {&sge, 1}, to.remote(), kOpSilentSuccess) == NdkStatus::kSuccess;
    })) << "after "
        << i;
  }
  ASSERT_TRUE(Eventually([&] { return a->qp->Write(Context(9), {&sge, 1}, to.remote(), 0) == NdkStatus::kSuccess; }));
  EXPECT_EQ(a->Next().request_context, Context(9));
  ResultEx result;
  EXPECT_EQ(a->cq->GetResultsEx({&result, 1}), 0u);
}

TEST_P(DataPathConformance, ASilentSuccessStaysSilentWhenTheQueuePairIsFlushedOrClosed) {
  constexpr uintptr_t kAnswers = 10;
  for (const bool flushes : {true, false}) {
    const QueuePairPair made = ConnectMore(*a, *b, nullptr, nullptr);
    for (uintptr_t i = 0; i <= kAnswers; ++i) ASSERT_EQ(made.at_a->Receive(Context(i), {}), NdkStatus::kSuccess);
    ASSERT_EQ(made.at_b->Receive(nullptr, {}), NdkStatus::kSuccess);
    ASSERT_EQ(made.at_a->Send(Context(99), {}, kOpSilentSuccess), NdkStatus::kSuccess);
    EXPECT_EQ(b->Next().status, NdkStatus::kSuccess);
    // Behind these A's hardware knows, too, that its request is done.
    for (uintptr_t i = 0; i < kAnswers; ++i) {
      ASSERT_EQ(made.at_b->Send(nullptr, {}, 0), NdkStatus::kSuccess);
      EXPECT_EQ(b->Next().status, NdkStatus::kSuccess);
      EXPECT_EQ(a->Next().request_context, Context(i));
    }
    if (flushes) {
      made.at_a->Flush();
      EXPECT_EQ(a->Next().request_context, Context(kAnswers));
    }
    ResultEx result;
    EXPECT_EQ(a->cq->GetResultsEx({&result, 1}), 0u) << "flushed: " << flushes;
    CloseAndWait(made.at_a);
    EXPECT_EQ(a->cq->GetResultsEx({&result, 1}), 0u) << "flushed: " << flushes;
    CloseAndWait(made.at_b);
  }
}

TEST_P(DataPathConformance, TheFailureOfASilentRequestIsToldAndSoIsWhatItCancels) {
  Connect();
  Buffer buffer(a->domain, 64, kMrAllowLocalRead);
  Sge sge = buffer.sge();
  sge.length = 65;
  ASSERT_EQ(a->qp->Write(Context(1), {}, {}, kOpSilentSuccess), NdkStatus::kSuccess);
  ASSERT_EQ(a->qp->Send(Context(2), {&sge, 1}, kOpSilentSuccess | kOpDefer), NdkStatus::kSuccess);
  ASSERT_EQ(a->qp->Write(Context(3), {}, {}, kOpSilentSuccess), NdkStatus::kSuccess);
  ResultEx failed = a->Next();
  if (!pair->tells_of_bad_memory() && failed.request_context == Context(1)) failed = a->Next();
  EXPECT_EQ(failed.request_context, Context(2));
  EXPECT_TRUE(IsOfBadMemory(failed.status));
  const ResultEx cancelled = a->Next();
  EXPECT_EQ(cancelled.request_context, Context(3));
  EXPECT_EQ(cancelled.status, NdkStatus::kCancelled);
}

TEST_P(DataPathConformance, DeferredRequestsGoOutWithTheNextOneEvenIfThatFails) {
  Connect();
  Buffer to(b->domain, 64, kMrAllowLocalWrite);
  PostReceive(*b, to, 64);
  PostReceive(*b, to, 64);
  ASSERT_EQ(a->qp->Send(Context(1), {}, kOpDefer), NdkStatus::kSuccess);
  ASSERT_EQ(a->qp->Send(Context(2), {}, kOpDefer), NdkStatus::kSuccess);
  EXPECT_EQ(a->qp->Send(Context(3), {}, 0x8000), NdkStatus::kInvalidParameter);
  const auto results = a->Results(2);
  EXPECT_EQ(results[0].request_context, Context(1));
  EXPECT_EQ(results[1].request_context, Context(2));
  b->Results(2);
}

TEST_P(DataPathConformance, AWholeQueueOfDeferredRequestsGoesOutInOrder) {
  Connect();
  constexpr size_t kWrites = 63;
  Buffer from(a->domain, kWrites, kMrAllowLocalRead);
  Buffer to(b->domain, kWrites, kMrAllowRemoteWrite);
  from.Fill(6);
  ASSERT_EQ(b->qp->Receive(nullptr, {}), NdkStatus::kSuccess);
  for (size_t i = 0; i < kWrites; ++i) {
    const Sge sge = from.sge(i, 1);
    ASSERT_EQ(a->qp->Write(Context(i), {&sge, 1}, to.remote(i), kOpDefer), NdkStatus::kSuccess);
  }
  ASSERT_EQ(a->qp->Send(Context(kWrites), {}, 0), NdkStatus::kSuccess);
  const auto results = a->Results(kWrites + 1);
  for (size_t i = 0; i <= kWrites; ++i) EXPECT_EQ(results[i].request_context, Context(i));
  // Over iWARP a write is done, for all that its side sees, before its bytes are there.
  EXPECT_EQ(b->Next().status, NdkStatus::kSuccess);
  EXPECT_EQ(to.bytes(), from.bytes());
}

TEST_P(DataPathConformance, AFencedRequestWaitsForTheReadsBeforeIt) {
  Connect();
  Buffer shared(b->domain, 100'000, kAllAccess);
  Buffer to(a->domain, 100'000, kMrAllowLocalWrite | kMrRdmaReadSink);
  Buffer from(a->domain, 100'000, kMrAllowLocalRead);
  shared.Fill(1);
  from.Fill(2);
  const std::vector<uint8_t> before = shared.bytes();
  for (int i = 0; i < 5; ++i) {
    const Sge in = to.sge();
    const Sge out = from.sge();
    ASSERT_EQ(a->qp->Read(nullptr, {&in, 1}, shared.remote(), 0), NdkStatus::kSuccess);
    ASSERT_EQ(a->qp->Write(nullptr, {&out, 1}, shared.remote(), kOpReadFence), NdkStatus::kSuccess);
    for (const ResultEx& result : a->Results(2)) EXPECT_EQ(result.status, NdkStatus::kSuccess);
    EXPECT_EQ(to.bytes(), i == 0 ? before : from.bytes());
  }
}

TEST_P(DataPathConformance, ALocalBufferThatMayNotBeUsedEndsTheConnection) {
  Connect();
  Buffer buffer(a->domain, 64, kMrAllowLocalRead);
  Sge sge = buffer.sge();
  sge.length = 65;
  ASSERT_EQ(a->qp->Send(Context(1), {&sge, 1}, 0), NdkStatus::kSuccess);
  ASSERT_EQ(a->qp->Send(Context(2), {}, 0), NdkStatus::kSuccess);
  const auto results = a->Results(2);
  EXPECT_TRUE(IsOfBadMemory(results[0].status));
  EXPECT_EQ(results[1].status, NdkStatus::kCancelled);
  EXPECT_EQ(results[1].request_context, Context(2));
  if (pair->tells_of_ends()) b->End();
}

TEST_P(DataPathConformance, AfterAFailureBothQueuesTakeRequestsAndCancelThemUntilTheLocalEnd) {
  Connect();
  Buffer buffer(a->domain, 64, kAllAccess);
  PostReceive(*a, buffer, 64, 1);
  Sge sge = buffer.sge();
  sge.length = 65;
  ASSERT_EQ(a->qp->Send(Context(2), {&sge, 1}, 0), NdkStatus::kSuccess);
  std::vector<ResultEx> results = a->Results(2);
  EXPECT_EQ(std::count_if(results.begin(), results.end(),
                          [](const ResultEx& result) { return result.status == NdkStatus::kCancelled; }),
            pair->tells_of_bad_memory() ? 1 : 2);
  ASSERT_EQ(a->qp->Send(Context(3), {}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(a->Next().status, NdkStatus::kCancelled);
  PostReceive(*a, buffer, 64, 4);
  const ResultEx received = a->Next();
  EXPECT_EQ(received.status, NdkStatus::kCancelled);
  EXPECT_EQ(received.request_context, Context(4));
  a->qp->Flush();
  EXPECT_EQ(a->qp->Send(nullptr, {}, 0), NdkStatus::kConnectionInvalid);
  EXPECT_EQ(a->qp->Receive(nullptr, {}), NdkStatus::kConnectionInvalid);
}

TEST_P(DataPathConformance, AnOverlongSendFailsTheReceiveAndCancelsTheOthers) {
  Connect();
  Buffer from(a->domain, 65, kMrAllowLocalRead);
  Buffer to(b->domain, 64, kMrAllowLocalWrite);
  PostReceive(*b, to, 64, 1);
  PostReceive(*b, to, 64, 2);
  const Sge out = from.sge();
  ASSERT_EQ(a->qp->Send(nullptr, {&out, 1}, 0), NdkStatus::kSuccess);
  const auto results = b->Results(2);
  EXPECT_NE(results[0].status, NdkStatus::kSuccess);
  EXPECT_NE(results[0].status, NdkStatus::kCancelled);
  EXPECT_EQ(results[0].request_context, Context(1));
  EXPECT_EQ(results[1].status, NdkStatus::kCancelled);
  EXPECT_FALSE(b->End().graceful);
}

TEST_P(DataPathConformance, ASendWithoutAReceiveEndsTheConnection) {
  Connect();
  ASSERT_EQ(a->qp->Receive(nullptr, {}), NdkStatus::kSuccess);
  ASSERT_EQ(a->qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  // iWARP's senders learn of it too late for the send.
  a->Results(2);
  if (pair->tells_by_cancelling()) {
    EXPECT_FALSE(a->End().graceful);
  }
}

TEST_P(DataPathConformance, FlushEndsTheConnectionForGood) {
  Connect();
  Buffer at_a(a->domain, 64, kMrAllowLocalWrite);
  PostReceive(*a, at_a, 64, 1);
  PostReceive(*a, at_a, 64, 2);
  a->qp->Flush();
  const auto results = a->Results(2);
  EXPECT_EQ(results[0].status, NdkStatus::kCancelled);
  EXPECT_EQ(results[0].request_context, Context(1));
  EXPECT_EQ(results[1].request_context, Context(2));
  EXPECT_EQ(a->qp->Send(nullptr, {}, 0), NdkStatus::kConnectionInvalid);
  if (pair->tells_of_ends()) b->End();
  EXPECT_EQ(a->EndCount(), 0u);
}

TEST_P(DataPathConformance, FlushingOneQueuePairLeavesTheOthersOfTheQueueAlone) {
  Connect();
  const QueuePairPair others = ConnectMore(*a, *b, Context(2), Context(22));
  Buffer at_b(b->domain, 64, kMrAllowLocalWrite);
  const Sge sge = at_b.sge();
  PostReceive(*b, at_b, 64, 1);
  ASSERT_EQ(others.at_b->Receive(Context(3), {&sge, 1}), NdkStatus::kSuccess);
  others.at_b->Flush();
  const ResultEx cancelled = b->Next();
  EXPECT_EQ(cancelled.qp_context, Context(22));
  EXPECT_EQ(cancelled.request_context, Context(3));
  SendToB();
  const ResultEx received = b->Next();
  EXPECT_EQ(received.status, NdkStatus::kSuccess);
  EXPECT_EQ(received.qp_context, b.get());
  CloseAndWait(others.at_a), CloseAndWait(others.at_b);
}

TEST_P(DataPathConformance, LimitsAreChecked) {
  const AdapterInfo& info = a->adapter->info();
  const QueuePairAttributes most = {.receive_cq = a->cq,
                                    .initiator_cq = a->cq,
                                    .receive_queue_depth = info.max_receive_queue_depth,
                                    .initiator_queue_depth = info.max_initiator_queue_depth,
                                    .max_receive_request_sge = info.max_receive_request_sge,
                                    .max_initiator_request_sge = info.max_initiator_request_sge,
                                    .inline_data_size = info.max_inline_data_size};
  QueuePair* const good = a->domain->CreateQueuePair(most).object;
  ASSERT_NE(good, nullptr);
  CloseAndWait(good);
  uint32_t QueuePairAttributes::*const fields[] = {
      &QueuePairAttributes::receive_queue_depth, &QueuePairAttributes::initiator_queue_depth,
      &QueuePairAttributes::max_receive_request_sge, &QueuePairAttributes::max_initiator_request_sge,
      &QueuePairAttributes::inline_data_size};
  for (const auto field : fields) {
    QueuePairAttributes attributes = most;
    ++(attributes.*field);
    EXPECT_EQ(a->domain->CreateQueuePair(attributes).status, NdkStatus::kInvalidParameter);
  }
  for (const std::chrono::seconds keepalive :
       {-kMinKeepalive, kMinKeepalive - std::chrono::seconds(1), kMaxKeepalive + std::chrono::seconds(1),
        std::chrono::seconds::max(), std::chrono::seconds::min()}) {
    QueuePairAttributes attributes = most;
    attributes.keepalive = keepalive;
    EXPECT_EQ(a->domain->CreateQueuePair(attributes).status, NdkStatus::kInvalidParameter) << keepalive.count();
  }
  for (const std::chrono::seconds keepalive :
       {std::chrono::seconds(0), kMinKeepalive, std::chrono::seconds(kMaxKeepalive)}) {
    const SideOptions options = {.keepalive = keepalive};
    QueuePair* const made = a->NewQueuePair(options, nullptr);
    ASSERT_NE(made, nullptr) << keepalive.count();
    CloseAndWait(made);
  }
  QueuePairAttributes foreign = most;
  foreign.receive_cq = b->cq;
  EXPECT_EQ(a->domain->CreateQueuePair(foreign).status, NdkStatus::kInvalidParameter);
  EXPECT_EQ(a->adapter->CreateCompletionQueue(info.max_cq_depth + 1, {}).status, NdkStatus::kInvalidParameter);
  EXPECT_EQ(a->adapter->CreateCompletionQueue(0, {}).status, NdkStatus::kInvalidParameter);
  EXPECT_EQ(a->domain->CreateSharedReceiveQueue({.depth = info.max_srq_depth + 1}).status,
            NdkStatus::kInvalidParameter);
}

TEST_P(DataPathConformance, NonsenseCannotBeAttached) {
  EXPECT_EQ(a->qp->Attach({.socket = {}, .state = "nonsense"}, {}), NdkStatus::kInvalidParameter);
  Connect();
  EXPECT_EQ(a->qp->Attach({.socket = {}, .state = "nonsense"}, {}), NdkStatus::kInvalidParameter);
}

}  // namespace
}  // namespace rdmabroker
