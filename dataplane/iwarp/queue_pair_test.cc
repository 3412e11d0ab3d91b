// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "dataplane/iwarp/side_for_test.h"
#include "dataplane/provider_error.h"

namespace rdmabroker::iwarp {
namespace {

struct Variant {
  const char* name;
  int family;
  bool crc;
  uint32_t fpdu_limit;
};

class Operations : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override { Connect(a, b, StatesFor(GetParam().crc, GetParam().fpdu_limit), GetParam().family); }
  Side a, b;
};

// It would hold the connection, whose peer is to see the end of this process.
TEST_P(Operations, AForkedChildHasNoSocketOfTheConnection) {
  const auto has_tcp = [] {
    for (int fd = 0; fd < 1024; ++fd) {
      int protocol = 0;
      socklen_t length = sizeof protocol;
      if (::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) == 0 && protocol == IPPROTO_TCP) return true;
    }
    return false;
  };
  EXPECT_TRUE(has_tcp());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(has_tcp() ? 1 : 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_P(Operations, SendArrivesInAReceiveWithLengthAndContexts) {
  Buffer from(a.domain, 200'000, kMrAllowLocalRead);
  Buffer to(b.domain, 200'000, kMrAllowLocalWrite);
  from.Fill(1);
  for (const size_t length : {0u, 1u, 3u, 64u, 511u, 513u, 1500u, 65'519u, 65'536u, 200'000u}) {
    to.Fill(2);
    const Sge in = to.sge();
    ASSERT_EQ(b.qp->Receive(Context(7), {&in, 1}), NdkStatus::kSuccess);
    const Sge out[] = {from.sge(0, length / 2), from.sge(length / 2, length - length / 2)};
    ASSERT_EQ(a.qp->Send(Context(8), out, 0), NdkStatus::kSuccess);
    std::thread sender([&] {
      const ResultEx sent = a.Next();
      EXPECT_EQ(sent.status, NdkStatus::kSuccess);
      EXPECT_EQ(sent.type, OperationType::kSend);
      EXPECT_EQ(sent.request_context, Context(8));
      EXPECT_EQ(sent.qp_context, &a);
    });
    const ResultEx received = b.Next();
    sender.join();
    EXPECT_EQ(received.status, NdkStatus::kSuccess);
    EXPECT_EQ(received.type, OperationType::kReceive);
    EXPECT_EQ(received.bytes_transferred, length);
    EXPECT_EQ(received.request_context, Context(7));
    EXPECT_EQ(received.qp_context, &b);
    EXPECT_EQ(received.provider_error, 0u);
    EXPECT_TRUE(
        std::equal(from.bytes().begin(), from.bytes().begin() + static_cast<ptrdiff_t>(length), to.bytes().begin()));
  }
}

TEST_P(Operations, AWriteAndThenASendThatTellsOfIt) {
  Buffer from(a.domain, 3'000'000, kMrAllowLocalRead);
  Buffer to(b.domain, 3'000'000, kMrAllowRemoteWrite);
  Buffer note(b.domain, 8, kMrAllowLocalWrite);
  from.Fill(3);
  const Sge in = note.sge();
  ASSERT_EQ(b.qp->Receive(nullptr, {&in, 1}), NdkStatus::kSuccess);
  const Sge out = from.sge(0, from.bytes().size() - 5);
  ASSERT_EQ(a.qp->Write(Context(1), {&out, 1}, to.remote(5), kOpDefer), NdkStatus::kSuccess);
  ASSERT_EQ(a.qp->Send(Context(2), {}, 0), NdkStatus::kSuccess);
  std::thread sender([&] {
    const auto results = a.Results(2);
    EXPECT_EQ(results[0].type, OperationType::kWrite);
    EXPECT_EQ(results[0].status, NdkStatus::kSuccess);
    EXPECT_EQ(results[1].type, OperationType::kSend);
  });
  EXPECT_EQ(b.Next().status, NdkStatus::kSuccess);
  sender.join();
  EXPECT_TRUE(std::equal(to.bytes().begin() + 5, to.bytes().end(), from.bytes().begin()));
}

TEST_P(Operations, AReadNeedsNobodyToPollOnTheOtherSide) {
  Buffer to(a.domain, 1'000'003, kMrAllowLocalWrite);
  Buffer from(b.domain, 1'000'003, kMrAllowRemoteRead);
  from.Fill(4);
  const Sge in[] = {to.sge(0, 400'001), to.sge(400'001, 600'002)};
  ASSERT_EQ(a.qp->Read(Context(1), in, from.remote(), 0), NdkStatus::kSuccess);
  const ResultEx read = a.Next();
  EXPECT_EQ(read.status, NdkStatus::kSuccess);
  EXPECT_EQ(read.type, OperationType::kRead);
  EXPECT_EQ(to.bytes(), from.bytes());
}

TEST_P(Operations, ZeroLengthAccessesNeedNoMemory) {
  ASSERT_EQ(a.qp->Write(nullptr, {}, {0, RemoteToken{0xDEAD}}, 0), NdkStatus::kSuccess);
  ASSERT_EQ(a.qp->Read(nullptr, {}, {0, RemoteToken{0xDEAD}}, 0), NdkStatus::kSuccess);
  for (const ResultEx& result : a.Results(2)) EXPECT_EQ(result.status, NdkStatus::kSuccess);
}

TEST_P(Operations, MoreReadsThanTheLimitWaitTheirTurnAndCompleteInOrder) {
  constexpr size_t kReads = 60;
  Buffer to(a.domain, kReads * 1000, kMrAllowLocalWrite);
  Buffer from(b.domain, kReads * 1000, kMrAllowRemoteRead);
  from.Fill(5);
  for (size_t i = 0; i < kReads; ++i) {
    const Sge in = to.sge(i * 1000, 1000);
    ASSERT_EQ(a.qp->Read(Context(i), {&in, 1}, from.remote(i * 1000), 0), NdkStatus::kSuccess);
  }
  const auto results = a.Results(kReads);
  for (size_t i = 0; i < kReads; ++i) {
    EXPECT_EQ(results[i].status, NdkStatus::kSuccess);
    EXPECT_EQ(results[i].request_context, Context(i));
  }
  EXPECT_EQ(to.bytes(), from.bytes());
}

INSTANTIATE_TEST_SUITE_P(OverLoopback, Operations,
                         testing::Values(Variant{"v4", AF_INET, true, kMaxFpduLength},
                                         Variant{"v6", AF_INET6, true, 65483},
                                         Variant{"without_crc", AF_INET, false, kMaxFpduLength},
                                         Variant{"ethernet", AF_INET6, true, 1448},
                                         Variant{"smallest", AF_INET, false, kMinFpduLength}),
                         [](const auto& variant) { return variant.param.name; });

class QueuePairs : public testing::Test {
 protected:
  // A receive of `length` bytes at the start of the buffer.
  static void PostReceive(Side& side, Buffer& buffer, size_t length, uintptr_t context = 0) {
    const Sge sge = buffer.sge(0, length);
    ASSERT_EQ(side.qp->Receive(Context(context), {&sge, 1}), NdkStatus::kSuccess);
  }
  Side a, b;
};

TEST_F(QueuePairs, BeforeTheyAreConnectedOnlyReceivesCanBePosted) {
  Buffer buffer(a.domain, 8192, kAllAccess);
  const Sge sge = buffer.sge();
  MemoryWindow* const window = a.domain->CreateMemoryWindow().object;
  MemoryRegion* const fast = a.domain->CreateMemoryRegion(true).object;
  ASSERT_EQ(fast->InitializeFastRegister(2, true), NdkStatus::kSuccess);
  void* const pages[] = {buffer.bytes().data()};
  const RemoteMemory nowhere;
  EXPECT_EQ(a.qp->Send(nullptr, {&sge, 1}, 0), NdkStatus::kConnectionInvalid);
  EXPECT_EQ(a.qp->SendAndInvalidate(nullptr, {&sge, 1}, 0, {}), NdkStatus::kConnectionInvalid);
  EXPECT_EQ(a.qp->Read(nullptr, {&sge, 1}, nowhere, 0), NdkStatus::kConnectionInvalid);
  EXPECT_EQ(a.qp->Write(nullptr, {&sge, 1}, nowhere, 0), NdkStatus::kConnectionInvalid);
  EXPECT_EQ(a.qp->Bind(nullptr, buffer.region(), window, buffer.bytes().data(), 1, kOpAllowRemoteRead),
            NdkStatus::kConnectionInvalid);
  EXPECT_EQ(a.qp->FastRegister(nullptr, fast, pages, 0, 1, 0, 0), NdkStatus::kConnectionInvalid);
  EXPECT_EQ(a.qp->Invalidate(nullptr, window, 0), NdkStatus::kConnectionInvalid);
  EXPECT_EQ(a.qp->Invalidate(nullptr, fast, 0), NdkStatus::kConnectionInvalid);
  EXPECT_EQ(a.qp->Disconnect(std::chrono::seconds(1), [](NdkStatus) { FAIL(); }), NdkStatus::kConnectionInvalid);
  EXPECT_EQ(a.qp->Receive(nullptr, {&sge, 1}), NdkStatus::kSuccess);
  CloseAndWait(window);
  CloseAndWait(fast);
}

TEST_F(QueuePairs, SendAndInvalidateMakesTheWindowsTokenInvalidBeforeTheReceiveCompletes) {
  Connect(a, b);
  Buffer to(a.domain, 64, kMrAllowLocalWrite);
  Buffer shared(b.domain, 64, kAllAccess);
  Buffer note(b.domain, 64, kMrAllowLocalWrite);
  MemoryWindow* const window = b.domain->CreateMemoryWindow().object;
  ASSERT_EQ(b.qp->Bind(Context(5), shared.region(), window, shared.bytes().data() + 8, 8, kOpAllowRemoteRead),
            NdkStatus::kSuccess);
  EXPECT_EQ(b.Next().type, OperationType::kBind);
  EXPECT_EQ(shared.region()->Deregister(), NdkStatus::kDeviceBusy);
  const RemoteMemory source = {shared.remote(8).address, window->remote_token()};
  const Sge in = to.sge(0, 8);
  ASSERT_EQ(a.qp->Read(nullptr, {&in, 1}, source, 0), NdkStatus::kSuccess);
  EXPECT_EQ(a.Next().status, NdkStatus::kSuccess);
  PostReceive(b, note, 64);
  ASSERT_EQ(a.qp->SendAndInvalidate(nullptr, {}, 0, source.token), NdkStatus::kSuccess);
  EXPECT_EQ(a.Next().type, OperationType::kSend);
  const ResultEx received = b.Next();
  EXPECT_EQ(received.type, OperationType::kReceiveAndInvalidate);
  EXPECT_EQ(received.invalidated_token, source.token);
  ASSERT_EQ(a.qp->Read(nullptr, {&in, 1}, source, 0), NdkStatus::kSuccess);
  const ResultEx failed = a.Next();
  EXPECT_EQ(failed.status, NdkStatus::kAccessViolation);
  EXPECT_EQ(failed.provider_error, TerminateReceived(kRdmapInvalidStag));
  EXPECT_EQ(b.End().provider_error, TerminateSent(kRdmapInvalidStag));
  CloseAndWait(window);
  EXPECT_EQ(shared.region()->Deregister(), NdkStatus::kSuccess);
}

TEST_F(QueuePairs, AFastRegisteredRegionGathersItsPages) {
  Connect(a, b);
  MemoryRegion* const region = b.domain->CreateMemoryRegion(true).object;
  EXPECT_EQ(region->InitializeFastRegister(100'000, true), NdkStatus::kImplementationLimit);
  ASSERT_EQ(region->InitializeFastRegister(3, true), NdkStatus::kSuccess);
  std::vector<uint8_t> memory(5 * 4096);
  std::iota(memory.begin(), memory.end(), 0);
  void* const pages[] = {memory.data() + 4 * 4096, memory.data(), memory.data() + 2 * 4096};
  constexpr uint64_t kBase = 0x7000'0000'0000 + 96;
  EXPECT_EQ(b.qp->FastRegister(nullptr, region, pages, 96, 3 * 4096, kBase, 0), NdkStatus::kInvalidParameter);
  ASSERT_EQ(b.qp->FastRegister(nullptr, region, pages, 96, 10'000, kBase, kOpAllowRemoteRead), NdkStatus::kSuccess);
  EXPECT_EQ(b.Next().type, OperationType::kFastRegister);
  std::vector<uint8_t> expected(pages[0] == nullptr ? 0 : 3 * 4096);
  for (size_t i = 0; i < 3; ++i)
    std::copy_n(static_cast<uint8_t*>(pages[i]), 4096, expected.begin() + static_cast<ptrdiff_t>(i * 4096));
  Buffer to(a.domain, 10'000, kMrAllowLocalWrite);
  const Sge in = to.sge();
  ASSERT_EQ(a.qp->Read(nullptr, {&in, 1}, {kBase, region->remote_token()}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(a.Next().status, NdkStatus::kSuccess);
  EXPECT_TRUE(std::equal(to.bytes().begin(), to.bytes().end(), expected.begin() + 96));
  ASSERT_EQ(b.qp->Invalidate(nullptr, region, 0), NdkStatus::kSuccess);
  EXPECT_EQ(b.Next().status, NdkStatus::kSuccess);
  ASSERT_EQ(a.qp->Read(nullptr, {&in, 1}, {kBase, region->remote_token()}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(a.Next().status, NdkStatus::kAccessViolation);
  b.End();
  CloseAndWait(region);
}

TEST_F(QueuePairs, FastRegisterWithoutRemoteAccessGrantsNone) {
  Connect(a, b);
  MemoryRegion* const region = a.domain->CreateMemoryRegion(true).object;
  ASSERT_EQ(region->InitializeFastRegister(1, false), NdkStatus::kSuccess);
  std::vector<uint8_t> page(4096);
  void* const pages[] = {page.data()};
  EXPECT_EQ(a.qp->FastRegister(nullptr, region, pages, 0, 4096, 0, kOpAllowRemoteRead), NdkStatus::kAccessViolation);
  EXPECT_EQ(a.qp->FastRegister(nullptr, region, pages, 0, 4096, 0, kOpAllowLocalWrite), NdkStatus::kSuccess);
  EXPECT_EQ(a.Next().status, NdkStatus::kSuccess);
  CloseAndWait(region);
}

TEST_F(QueuePairs, BindAsksNoMoreThanTheRegionHas) {
  Connect(a, b);
  Buffer readable(a.domain, 64, kMrAllowLocalRead);
  MemoryWindow* const window = a.domain->CreateMemoryWindow().object;
  void* const at = readable.bytes().data();
  EXPECT_EQ(a.qp->Bind(nullptr, readable.region(), window, at, 64, kOpAllowRemoteWrite), NdkStatus::kAccessViolation);
  EXPECT_EQ(a.qp->Bind(nullptr, readable.region(), window, at, 65, kOpAllowRemoteRead), NdkStatus::kInvalidParameter);
  EXPECT_EQ(window->remote_token(), RemoteToken{});
  EXPECT_EQ(a.qp->Invalidate(nullptr, window, 0), NdkStatus::kInvalidDeviceRequest);
  EXPECT_EQ(a.qp->Bind(nullptr, readable.region(), window, at, 64, kOpAllowRemoteRead), NdkStatus::kSuccess);
  EXPECT_NE(window->remote_token(), RemoteToken{});
  EXPECT_EQ(a.Next().status, NdkStatus::kSuccess);
  EXPECT_EQ(a.qp->Invalidate(nullptr, window, 0), NdkStatus::kSuccess);
  EXPECT_EQ(a.Next().status, NdkStatus::kSuccess);
  EXPECT_EQ(a.qp->Invalidate(nullptr, window, 0), NdkStatus::kSuccess);
  EXPECT_EQ(a.Next().status, NdkStatus::kInvalidDeviceRequest);
  EXPECT_FALSE(a.End().graceful);
  CloseAndWait(window);
}

TEST_F(QueuePairs, AChangeOfMemoryThatIsRefusedSendsWhatWasDeferredBeforeIt) {
  Connect(a, b);
  Buffer readable(a.domain, 64, kMrAllowLocalRead);
  MemoryWindow* const window = a.domain->CreateMemoryWindow().object;
  void* const pages[] = {readable.bytes().data()};
  const std::function<NdkStatus()> refused[] = {
      [&] { return a.qp->Bind(nullptr, readable.region(), window, pages[0], 64, kOpAllowRemoteWrite); },
      [&] { return a.qp->FastRegister(nullptr, readable.region(), pages, 0, 64, 0, 0); },
      [&] { return a.qp->Invalidate(nullptr, readable.region(), 0); },
      [&] { return a.qp->Invalidate(nullptr, window, 0); }};
  for (const auto& post : refused) {
    ASSERT_EQ(b.qp->Receive(nullptr, {}), NdkStatus::kSuccess);
    ASSERT_EQ(a.qp->Send(nullptr, {}, kOpDefer | kOpSilentSuccess), NdkStatus::kSuccess);
    EXPECT_FALSE(IsSuccess(post()));
    EXPECT_EQ(b.Next().status, NdkStatus::kSuccess);
  }
  CloseAndWait(window);
}

TEST_F(QueuePairs, AChangeOfMemoryIsTakenAndCancelledWhereTheConnectionIsBroken) {
  Connect(a, b);
  ASSERT_EQ(a.qp->Send(nullptr, {}, kOpSilentSuccess), NdkStatus::kSuccess);
  EXPECT_NE(a.End().provider_error, 0u) << "the peer has no receive for it";
  Buffer buffer(a.domain, 64, kAllAccess);
  MemoryWindow* const window = a.domain->CreateMemoryWindow().object;
  ASSERT_EQ(a.qp->Bind(Context(1), buffer.region(), window, buffer.bytes().data(), 64, kOpAllowRemoteRead),
            NdkStatus::kSuccess);
  const ResultEx bound = a.Next();
  EXPECT_EQ(bound.request_context, Context(1));
  EXPECT_EQ(bound.status, NdkStatus::kCancelled);
  EXPECT_EQ(window->remote_token(), RemoteToken{});
  CloseAndWait(window);
}

TEST_F(QueuePairs, ALocalBufferThatMayNotBeUsedEndsTheConnection) {
  Connect(a, b);
  Buffer buffer(a.domain, 64, kMrAllowLocalRead);
  Sge sge = buffer.sge(0, 64);
  sge.length = 65;
  ASSERT_EQ(a.qp->Send(Context(1), {&sge, 1}, 0), NdkStatus::kSuccess);
  ASSERT_EQ(a.qp->Send(Context(2), {}, 0), NdkStatus::kSuccess);
  const auto results = a.Results(2);
  EXPECT_EQ(results[0].status, NdkStatus::kAccessViolation);
  EXPECT_EQ(results[1].status, NdkStatus::kCancelled);
  EXPECT_EQ(b.End().provider_error, TerminateReceived(kRdmapLocalCatastrophic));
}

TEST_F(QueuePairs, AnOverlongSendEndsTheConnectionWithBufferOverflowAtTheReceiver) {
  Connect(a, b);
  Buffer from(a.domain, 65, kMrAllowLocalRead);
  Buffer to(b.domain, 64, kMrAllowLocalWrite);
  PostReceive(b, to, 64, 1);
  PostReceive(b, to, 64, 2);
  const Sge out = from.sge();
  ASSERT_EQ(a.qp->Send(nullptr, {&out, 1}, 0), NdkStatus::kSuccess);
  const auto results = b.Results(2);
  EXPECT_EQ(results[0].status, NdkStatus::kBufferOverflow);
  EXPECT_EQ(results[0].provider_error, TerminateSent(kDdpMessageTooLong));
  EXPECT_EQ(results[1].status, NdkStatus::kCancelled);
  EXPECT_EQ(a.End().provider_error, TerminateReceived(kDdpMessageTooLong));
}

TEST_F(QueuePairs, ASendWithoutAReceiveEndsTheConnection) {
  Connect(a, b);
  ASSERT_EQ(a.qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(a.End().provider_error, TerminateReceived(kDdpNoBuffer));
  EXPECT_EQ(b.End().provider_error, TerminateSent(kDdpNoBuffer));
}

TEST_F(QueuePairs, OverATwoWayHandshakeTheResponderHoldsItsSendsUntilItHasHeardFromTheInitiator) {
  States states = StatesFor();
  states.active.ready_to_receive = states.passive.ready_to_receive = ReadyToReceive::kNone;
  Connect(a, b, states);
  Buffer to(a.domain, 64, kMrAllowLocalWrite);
  PostReceive(a, to, 64);
  ASSERT_EQ(b.qp->Send(Context(1), {}, 0), NdkStatus::kSuccess);
  ResultEx result;
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(b.cq->GetResultsEx({&result, 1}), 0u);
    ASSERT_EQ(a.cq->GetResultsEx({&result, 1}), 0u);
  }
  ASSERT_EQ(a.qp->Write(nullptr, {}, {}, kOpSilentSuccess), NdkStatus::kSuccess);
  EXPECT_EQ(b.Next().request_context, Context(1));
  EXPECT_EQ(a.Next().type, OperationType::kReceive);
}

TEST_F(QueuePairs, DisconnectWaitsForThePeerAndThenCancelsWhatIsLeft) {
  Connect(a, b);
  Buffer at_a(a.domain, 64, kMrAllowLocalWrite);
  Buffer at_b(b.domain, 64, kMrAllowLocalWrite);
  PostReceive(a, at_a, 64);
  PostReceive(b, at_b, 64);
  std::atomic<int> done_a = 0;
  std::atomic<int> done_b = 0;
  EXPECT_EQ(a.qp->Disconnect(kPatience, {}), NdkStatus::kInvalidParameter);
  ASSERT_EQ(a.qp->Disconnect(kPatience, [&](NdkStatus status) { done_a = status == NdkStatus::kSuccess ? 1 : 2; }),
            NdkStatus::kPending);
  EXPECT_EQ(a.qp->Disconnect(kPatience, {}), NdkStatus::kInvalidDeviceState);
  EXPECT_EQ(a.qp->Send(nullptr, {}, 0), NdkStatus::kConnectionInvalid);
  EXPECT_TRUE(b.End().graceful);
  ResultEx result;
  EXPECT_EQ(b.cq->GetResultsEx({&result, 1}), 0u) << "the peer's goodbye flushes nothing";
  EXPECT_EQ(done_a, 0);
  ASSERT_EQ(b.qp->Disconnect(kPatience, [&](NdkStatus status) { done_b = status == NdkStatus::kSuccess ? 1 : 2; }),
            NdkStatus::kPending);
  EXPECT_EQ(b.Next().status, NdkStatus::kCancelled);
  EXPECT_EQ(a.Next().status, NdkStatus::kCancelled);
  EXPECT_TRUE(Eventually([&] { return done_a == 1 && done_b == 1; }));
  EXPECT_EQ(a.EndCount(), 0u);
  TcpPair pair = ConnectTcpPair();
  EXPECT_EQ(a.Attach(std::move(pair.active), StatesFor().active), NdkStatus::kConnectionActive);
}

TEST_F(QueuePairs, DisconnectSendsWhatWasPostedFirst) {
  Connect(a, b);
  Buffer from(a.domain, 8'000'000, kMrAllowLocalRead);
  Buffer to(b.domain, 8'000'000, kMrAllowRemoteWrite);
  from.Fill(1);
  const Sge out = from.sge();
  ASSERT_EQ(a.qp->Write(nullptr, {&out, 1}, to.remote(), 0), NdkStatus::kSuccess);
  std::atomic<bool> done = false;
  ASSERT_EQ(a.qp->Disconnect(kPatience, [&](NdkStatus status) { done = status == NdkStatus::kSuccess; }),
            NdkStatus::kPending);
  EXPECT_TRUE(b.End().graceful);
  ASSERT_EQ(b.qp->Disconnect(kPatience, [](NdkStatus) {}), NdkStatus::kPending);
  EXPECT_TRUE(Eventually([&] { return done.load(); }));
  EXPECT_EQ(a.Next().status, NdkStatus::kSuccess);
  EXPECT_EQ(from.bytes(), to.bytes());
}

TEST_F(QueuePairs, DisconnectTimesOutIfThePeerDoesNotAnswer) {
  Connect(a, b);
  std::atomic<NdkStatus> done = NdkStatus::kPending;
  ASSERT_EQ(a.qp->Disconnect(std::chrono::milliseconds(20), [&](NdkStatus status) { done = status; }),
            NdkStatus::kPending);
  EXPECT_TRUE(Eventually([&] { return done == NdkStatus::kIoTimeout; }));
  EXPECT_TRUE(b.End().graceful);
}

TEST_F(QueuePairs, FlushEndsTheConnectionAndThePeerSeesIt) {
  Connect(a, b);
  Buffer at_a(a.domain, 64, kMrAllowLocalWrite);
  PostReceive(a, at_a, 64);
  a.qp->Flush();
  EXPECT_EQ(a.Next().status, NdkStatus::kCancelled);
  EXPECT_EQ(a.qp->Send(nullptr, {}, 0), NdkStatus::kConnectionInvalid);
  b.End();
  EXPECT_EQ(a.EndCount(), 0u);
}

TEST_F(QueuePairs, ClosingOneSideIsAnEndOnTheOther) {
  Connect(a, b);
  a.Close();
  b.End();
  EXPECT_EQ(b.qp->Send(nullptr, {}, 0), NdkStatus::kSuccess) << "posts are taken until the local side ends, too";
}

// As with hardware: undefined bytes arrive, and the connection goes on. FPDUs of this length leave room for a part of
// another one.
TEST_F(QueuePairs, ASourceThatChangesWhileItIsSentBreaksNoConnection) {
  constexpr size_t kLength = 1 << 20;  // More than sockets hold, and
  const int room = 16 * 1024;          // within an FPDU.
  Buffer from(a.domain, kLength, 0, 1);
  Buffer to(b.domain, kLength, kMrAllowRemoteWrite);
  TcpPair pair = ConnectTcpPair();
  ASSERT_EQ(::setsockopt(pair.active.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
  const States states = StatesFor(true, 40'000);
  ASSERT_EQ(a.Attach(std::move(pair.active), states.active), NdkStatus::kSuccess);
  const Sge sge = from.sge();
  ASSERT_EQ(a.qp->Write(nullptr, {&sge, 1}, to.remote(), 0), NdkStatus::kSuccess);
  for (uint8_t& byte : from.bytes()) ++byte;
  ASSERT_EQ(b.Attach(std::move(pair.passive), states.passive), NdkStatus::kSuccess);
  EXPECT_EQ(a.Next().status, NdkStatus::kSuccess);
  ASSERT_EQ(b.qp->Receive(nullptr, {}), NdkStatus::kSuccess);
  ASSERT_EQ(a.qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(b.Next().status, NdkStatus::kSuccess);
}

TEST_F(QueuePairs, ARequestHasAPieceOfMemoryWhereNobodyHasSaidHowMany) {
  QueuePair* const qp =
      a.domain->CreateQueuePair({.receive_cq = a.cq, .initiator_cq = a.cq, .receive_queue_depth = 1}).object;
  SharedReceiveQueue* const srq = a.domain->CreateSharedReceiveQueue({.depth = 1}).object;
  Buffer buffer(a.domain, 64, kMrAllowLocalWrite);
  const Sge sge = buffer.sge();
  EXPECT_EQ(qp->Receive(nullptr, {&sge, 1}), NdkStatus::kSuccess);
  EXPECT_EQ(srq->Receive(nullptr, {&sge, 1}), NdkStatus::kSuccess);
  CloseAndWait(qp), CloseAndWait(srq);
}

// Nagle's algorithm would hold back the second of two messages until the peer has acknowledged the first.
TEST_F(QueuePairs, AnAttachedSocketSendsEachMessageAtOnce) {
  TcpPair pair = ConnectTcpPair();
  const UniqueFd socket(::dup(pair.active.get()));
  ASSERT_EQ(a.Attach(std::move(pair.active), StatesFor().active), NdkStatus::kSuccess);
  int at_once = 0;
  socklen_t length = sizeof at_once;
  ASSERT_EQ(::getsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, &length), 0);
  EXPECT_TRUE(at_once);
}

TEST_F(QueuePairs, NonsenseCannotBeAttached) {
  TcpPair pair = ConnectTcpPair();
  EXPECT_EQ(a.qp->Attach({std::move(pair.active), "nonsense"}, {}), NdkStatus::kInvalidParameter);
  EXPECT_EQ(a.qp->Attach({UniqueFd(), EncodeConnectionState(StatesFor().active)}, {}), NdkStatus::kInvalidParameter);
  ConnectionState state;
  state.inbound_read_limit = 100'000;
  EXPECT_EQ(a.qp->Attach({std::move(pair.passive), EncodeConnectionState(state)}, {}), NdkStatus::kInvalidParameter);
}

}  // namespace
}  // namespace rdmabroker::iwarp
