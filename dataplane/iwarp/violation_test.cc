// SPDX-License-Identifier: Apache-2.0

// What a hostile peer can do: this side's connection dies with a Terminate message that names the fault, its requests
// are cancelled, no byte lands where it may not, and another connection of the same adapter goes on.

#include <gtest/gtest.h>
#include <poll.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "dataplane/iwarp/side_for_test.h"
#include "dataplane/iwarp/wire/bytes.h"
#include "dataplane/iwarp/wire/fpdu_decoder.h"
#include "dataplane/iwarp/wire/negotiation.h"
#include "dataplane/iwarp/wire/terminate.h"
#include "dataplane/provider_error.h"
#include "tests/random_seed.h"

namespace rdmabroker::iwarp {
namespace {

using Bytes = std::vector<uint8_t>;

// The peer, which says whatever the test wants on a bare socket.
class RawPeer {
 public:
  explicit RawPeer(UniqueFd socket) : socket_(std::move(socket)) {}

  void Send(const Bytes& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t now = ::send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (now <= 0) return;  // The other side has had enough.
      sent += static_cast<size_t>(now);
    }
  }
  void SendSegment(const SegmentHeader& header, std::span<const uint8_t> payload = {}) {
    Send(ComposeFpdu(header, payload, true));
  }
  void EndStream() { ::shutdown(socket_.get(), SHUT_WR); }
  void Reset() {
    const linger now = {1, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    socket_.Reset();
  }

  // All that comes until the other side's stream ends.
  Bytes ReadAll() {
    Bytes all;
    uint8_t chunk[4096];
    pollfd readable = {socket_.get(), POLLIN, 0};
    while (::poll(&readable, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) == 1) {
      const ssize_t got = ::recv(socket_.get(), chunk, sizeof chunk, 0);
      if (got <= 0) return all;
      all.insert(all.end(), chunk, chunk + got);
    }
    ADD_FAILURE() << "the stream does not end";
    return all;
  }

  // The Terminate message, which is the last thing in the stream.
  absl::StatusOr<TerminateMessage> ReadTerminate() {
    const Bytes all = ReadAll();
    FpduDecoder decoder(true);
    Bytes payload;
    size_t at = 0;
    while (at < all.size()) {
      const auto step = decoder.Next({&all[at], all.size() - at});
      if (step.event == FpduDecoder::Event::kSegment) payload.clear();
      if (step.event == FpduDecoder::Event::kPayload) payload.assign(&all[at], &all[at] + step.taken);
      if (step.event == FpduDecoder::Event::kError) return absl::DataLossError("the stream is no good");
      at += step.taken;
    }
    if (decoder.header().opcode != Opcode::kTerminate) return absl::NotFoundError("no Terminate message");
    return DecodeTerminate(payload);
  }

 private:
  UniqueFd socket_;
};

constexpr size_t kSize = 4096;

class Violations : public testing::Test {
 protected:
  Violations() : Violations(ConnectTcpPair()) {}
  explicit Violations(TcpPair pair)
      : peer(std::move(pair.passive)),
        writable(side.domain, kSize, kMrAllowRemoteWrite),
        readable(side.domain, kSize, kMrAllowRemoteRead),
        local(side.domain, kSize, kMrAllowLocalWrite) {
    States states = StatesFor();
    states.active.inbound_read_limit = 2;
    EXPECT_EQ(side.Attach(std::move(pair.active), states.active), NdkStatus::kSuccess);
    // A second connection of the same adapter, which must not notice anything.
    TcpPair other = ConnectTcpPair();
    bystander = side.NewQueuePair({}, nullptr);
    EXPECT_EQ(bystander->Attach({std::move(other.active), EncodeConnectionState(states.active)},
                                [](const ConnectionEnd&) { ADD_FAILURE() << "the other connection ended"; }),
              NdkStatus::kSuccess);
    bystander_peer = std::make_unique<RawPeer>(std::move(other.passive));
    PostReceive(1);
    PostReceive(2);
  }
  ~Violations() override {
    // The bystander still receives.
    const Sge sge = local.sge(0, 16);
    EXPECT_EQ(bystander->Receive(Context(77), {&sge, 1}), NdkStatus::kSuccess);
    bystander_peer->SendSegment({.last = true, .opcode = Opcode::kSend, .msn = 1}, AsBytes("still here"));
    ResultEx result = side.Next();
    while (result.request_context != Context(77)) result = side.Next();
    EXPECT_EQ(result.bytes_transferred, 10u);
    writable.Close(), readable.Close(), local.Close();
    CloseAndWait(bystander);
  }

  void PostReceive(uintptr_t context) {
    const Sge sge = local.sge(0, 64);
    ASSERT_EQ(side.qp->Receive(Context(context), {&sge, 1}), NdkStatus::kSuccess);
  }
  static uint32_t Stag(Buffer& buffer) { return static_cast<uint32_t>(buffer.remote().token); }
  SegmentHeader WriteTo(Buffer& buffer, uint64_t offset) {
    return {.tagged = true,
            .last = true,
            .opcode = Opcode::kWrite,
            .stag = Stag(buffer),
            .tagged_offset = buffer.remote().address + offset};
  }
  void SendReadRequest(const ReadRequest& request, uint32_t msn = 1) {
    uint8_t payload[kReadRequestLength];
    EncodeReadRequest(request, payload);
    peer.SendSegment({.last = true, .opcode = Opcode::kReadRequest, .queue = kReadRequestQueue, .msn = msn}, payload);
  }

  Side side;
  QueuePair* bystander = nullptr;
  std::unique_ptr<RawPeer> bystander_peer;
  RawPeer peer;
  Buffer writable, readable, local;
};

struct ViolationRow {
  const char* name;
  std::function<void(Violations*)> act;
  TerminateCause cause;
  bool with_read_request = false;
};

// Grants the table access to the fixture's members.
class EachViolation : public Violations, public testing::WithParamInterface<size_t> {
 public:
  static const std::vector<ViolationRow>& Rows();
};

const std::vector<ViolationRow>& EachViolation::Rows() {
  using Self = EachViolation;
  const auto on = [](void (*act)(Self*)) { return [act](Violations* test) { act(static_cast<Self*>(test)); }; };
  static const std::vector<ViolationRow> kRows = {
      {"write_to_unknown_stag", on([](Self* t) {
         t->peer.SendSegment({.tagged = true, .last = true, .opcode = Opcode::kWrite, .stag = 0xABCDEF01}, Bytes(4));
       }),
       kDdpInvalidStag},
      {"write_to_stag_zero",
       on([](Self* t) { t->peer.SendSegment({.tagged = true, .last = true, .opcode = Opcode::kWrite}, Bytes(4)); }),
       kDdpInvalidStag},
      {"write_with_a_stale_key", on([](Self* t) {
         auto h = t->WriteTo(t->writable, 0);
         h.stag ^= 1;
         t->peer.SendSegment(h, Bytes(4));
       }),
       kDdpInvalidStag},
      {"write_one_beyond_the_end",
       on([](Self* t) { t->peer.SendSegment(t->WriteTo(t->writable, kSize - 3), Bytes(4)); }), kDdpBaseOrBounds},
      {"write_one_before_the_start", on([](Self* t) {
         auto h = t->WriteTo(t->writable, 0);
         --h.tagged_offset;
         t->peer.SendSegment(h, Bytes(4));
       }),
       kDdpBaseOrBounds},
      {"write_longer_than_the_region",
       on([](Self* t) { t->peer.SendSegment(t->WriteTo(t->writable, 0), Bytes(kSize + 1)); }), kDdpBaseOrBounds},
      {"write_that_wraps", on([](Self* t) {
         auto h = t->WriteTo(t->writable, 0);
         h.tagged_offset = ~uint64_t{0} - 1;
         t->peer.SendSegment(h, Bytes(4));
       }),
       kDdpToWrap},
      {"write_to_what_may_be_read", on([](Self* t) { t->peer.SendSegment(t->WriteTo(t->readable, 0), Bytes(4)); }),
       kRdmapAccessRights},
      {"write_to_what_is_local", on([](Self* t) { t->peer.SendSegment(t->WriteTo(t->local, 0), Bytes(4)); }),
       kRdmapAccessRights},
      {"write_to_a_deregistered_region", on([](Self* t) {
         const auto h = t->WriteTo(t->writable, 0);
         EXPECT_EQ(t->writable.region()->Deregister(), NdkStatus::kSuccess);
         t->peer.SendSegment(h, Bytes(4));
       }),
       kDdpInvalidStag},
      {"second_segment_out_of_bounds", on([](Self* t) {
         auto h = t->WriteTo(t->writable, 0);
         h.last = false;
         t->peer.SendSegment(h, Bytes(kSize));
         h.last = true;
         h.tagged_offset += kSize;
         t->peer.SendSegment(h, Bytes(1));
       }),
       kDdpBaseOrBounds},
      {"read_of_unknown_stag", on([](Self* t) { t->SendReadRequest({.length = 1, .source_stag = 0xABCDEF01}); }),
       kRdmapInvalidStag, true},
      {"read_of_what_may_be_written", on([](Self* t) {
         t->SendReadRequest(
             {.length = 1, .source_stag = Stag(t->writable), .source_offset = t->writable.remote().address});
       }),
       kRdmapAccessRights, true},
      {"read_beyond_the_end", on([](Self* t) {
         t->SendReadRequest(
             {.length = kSize + 1, .source_stag = Stag(t->readable), .source_offset = t->readable.remote().address});
       }),
       kRdmapBaseOrBounds, true},
      {"read_of_four_gigabytes", on([](Self* t) {
         t->SendReadRequest(
             {.length = 0xFFFFFFFF, .source_stag = Stag(t->readable), .source_offset = t->readable.remote().address});
       }),
       kRdmapBaseOrBounds, true},
      {"read_that_wraps", on([](Self* t) {
         t->SendReadRequest({.length = 16, .source_stag = Stag(t->readable), .source_offset = ~uint64_t{0} - 3});
       }),
       kRdmapToWrap, true},
      {"read_request_number_skipped", on([](Self* t) { t->SendReadRequest({}, 2); }), kDdpMsnOutOfRange},
      {"send_number_skipped",
       on([](Self* t) { t->peer.SendSegment({.last = true, .opcode = Opcode::kSend, .msn = 2}); }), kDdpMsnOutOfRange},
      {"send_number_repeated", on([](Self* t) {
         t->peer.SendSegment({.last = true, .opcode = Opcode::kSend, .msn = 1});
         t->peer.SendSegment({.last = true, .opcode = Opcode::kSend, .msn = 1});
       }),
       kDdpMsnOutOfRange},
      {"send_at_an_offset",
       on([](Self* t) { t->peer.SendSegment({.last = true, .opcode = Opcode::kSend, .msn = 1, .message_offset = 4}); }),
       kDdpInvalidMo},
      {"send_with_a_gap", on([](Self* t) {
         t->peer.SendSegment({.opcode = Opcode::kSend, .msn = 1}, Bytes(8));
         t->peer.SendSegment({.last = true, .opcode = Opcode::kSend, .msn = 1, .message_offset = 12});
       }),
       kDdpInvalidMo},
      {"send_that_changes_its_kind", on([](Self* t) {
         t->peer.SendSegment({.opcode = Opcode::kSend, .msn = 1}, Bytes(8));
         t->peer.SendSegment({.last = true, .opcode = Opcode::kSendSolicited, .msn = 1, .message_offset = 8});
       }),
       kRdmapUnexpectedOpcode},
      {"send_too_long",
       on([](Self* t) { t->peer.SendSegment({.last = true, .opcode = Opcode::kSend, .msn = 1}, Bytes(65)); }),
       kDdpMessageTooLong},
      {"send_too_long_in_its_second_segment", on([](Self* t) {
         t->peer.SendSegment({.opcode = Opcode::kSend, .msn = 1}, Bytes(64));
         t->peer.SendSegment({.last = true, .opcode = Opcode::kSend, .msn = 1, .message_offset = 64}, Bytes(1));
       }),
       kDdpMessageTooLong},
      {"more_sends_than_receives", on([](Self* t) {
         for (uint32_t msn = 1; msn <= 3; ++msn)
           t->peer.SendSegment({.last = true, .opcode = Opcode::kSend, .msn = msn});
       }),
       kDdpNoBuffer},
      {"invalidate_of_an_unknown_stag", on([](Self* t) {
         t->peer.SendSegment(
             {.last = true, .opcode = Opcode::kSendInvalidate, .invalidate_stag = 0xABCDEF01, .msn = 1});
       }),
       kRdmapStagCannotBeInvalidated},
      {"invalidate_of_a_region", on([](Self* t) {
         t->peer.SendSegment(
             {.last = true, .opcode = Opcode::kSendInvalidate, .invalidate_stag = Stag(t->writable), .msn = 1});
       }),
       kRdmapStagCannotBeInvalidated},
      {"response_to_no_read", on([](Self* t) {
         t->peer.SendSegment({.tagged = true, .last = true, .opcode = Opcode::kReadResponse, .stag = Stag(t->local)},
                             Bytes(4));
       }),
       kDdpInvalidStag},
      {"crc_wrong", on([](Self* t) {
         Bytes fpdu = ComposeFpdu(t->WriteTo(t->writable, 0), Bytes(4), true);
         fpdu.back() ^= 1;
         t->peer.Send(fpdu);
       }),
       kMpaCrc},
      {"length_too_small", on([](Self* t) {
         t->peer.Send({0, 3, 0x41, 0x43, 0});
       }),
       kMpaLengthMismatch},
      {"garbage", on([](Self* t) { t->peer.Send(Bytes(100, 0xFF)); }), kDdpTaggedInvalidVersion},
      {"terminate_that_makes_no_sense", on([](Self* t) {
         t->peer.SendSegment({.last = true, .opcode = Opcode::kTerminate, .queue = kTerminateQueue, .msn = 1},
                             Bytes{0, 0});
       }),
       kRdmapStreamCatastrophic},
  };
  return kRows;
}

TEST_P(EachViolation, EndsThisConnectionAloneAndIsToldToThePeer) {
  const ViolationRow& row = Rows()[GetParam()];
  writable.Fill(1);
  const Bytes before = writable.bytes();
  row.act(this);
  const auto terminate = peer.ReadTerminate();
  ASSERT_TRUE(terminate.ok()) << terminate.status();
  EXPECT_EQ(terminate->cause, row.cause) << TerminateCauseName(terminate->cause);
  EXPECT_EQ(!terminate->read_request.empty(), row.with_read_request);
  const ConnectionEnd end = side.End();
  EXPECT_FALSE(end.graceful);
  EXPECT_EQ(end.provider_error, TerminateSent(row.cause))
      << ConnectionEndText(NdkStatus::kConnectionAborted, end.provider_error);
  for (const ResultEx& result : side.Results(2)) {
    if (result.status == NdkStatus::kSuccess) continue;  // Of a message before the fault.
    EXPECT_TRUE(result.status == NdkStatus::kCancelled || result.status == NdkStatus::kBufferOverflow);
  }
  if (row.cause != kDdpBaseOrBounds && row.cause != kMpaCrc) {
    EXPECT_EQ(writable.bytes(), before);
  }
  EXPECT_EQ(side.qp->Send(Context(5), {}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(side.Next().status, NdkStatus::kCancelled);
  PostReceive(6);
  EXPECT_EQ(side.Next().status, NdkStatus::kCancelled);
}

INSTANTIATE_TEST_SUITE_P(OfAPeer, EachViolation, testing::Range<size_t>(0, EachViolation::Rows().size()),
                         [](const auto& row) { return EachViolation::Rows()[row.param].name; });

TEST_F(Violations, MoreReadsThanTheLimitEndTheConnection) {
  // Larger than what the sockets hold together, so that the first response cannot be gone before the others are asked
  // for.
  Buffer large(side.domain, 64 << 20, kMrAllowRemoteRead);
  const ReadRequest request = {.length = 64 << 20, .source_stag = Stag(large), .source_offset = large.remote().address};
  for (uint32_t msn = 1; msn <= 3; ++msn) SendReadRequest(request, msn);
  EXPECT_EQ(side.End().provider_error, TerminateSent(kDdpNoBuffer));
  peer.Reset();
}

TEST_F(Violations, AResponseThatDoesNotFitItsReadEndsTheConnection) {
  const Sge sge = local.sge(0, 100);
  ASSERT_EQ(side.qp->Read(Context(3), {&sge, 1}, {0x1000, RemoteToken{0x55}}, 0), NdkStatus::kSuccess);
  peer.SendSegment({.tagged = true,
                    .last = true,
                    .opcode = Opcode::kReadResponse,
                    .stag = Stag(local),
                    .tagged_offset = local.remote().address},
                   Bytes(99));
  EXPECT_EQ(side.End().provider_error, TerminateSent(kDdpBaseOrBounds));
  for (const ResultEx& result : side.Results(3)) EXPECT_EQ(result.status, NdkStatus::kCancelled);
}

TEST_F(Violations, AStreamThatEndsBetweenMessagesIsAGracefulEndThatFlushesNothing) {
  peer.EndStream();
  EXPECT_TRUE(side.End().graceful);
  ResultEx result;
  EXPECT_EQ(side.cq->GetResultsEx({&result, 1}), 0u);
  side.qp->Flush();
  for (const ResultEx& cancelled : side.Results(2)) EXPECT_EQ(cancelled.status, NdkStatus::kCancelled);
}

TEST_F(Violations, AResetAfterTheGoodbyeIsNoticed) {
  peer.EndStream();
  EXPECT_TRUE(side.End().graceful);
  peer.Reset();
  for (const ResultEx& cancelled : side.Results(2)) EXPECT_EQ(cancelled.status, NdkStatus::kCancelled);
}

TEST_F(Violations, APeerThatRequiresMarkersGetsThem) {
  TcpPair pair = ConnectTcpPair();
  QueuePair* const qp = side.NewQueuePair({}, nullptr);
  ConnectionState state = StatesFor(false, 1448).active;
  state.markers_to_peer = true;
  RawPeer demanding(std::move(pair.passive));
  ASSERT_EQ(qp->Attach({std::move(pair.active), EncodeConnectionState(state)}, {}), NdkStatus::kSuccess);
  local.Fill(9);
  const Sge sge = local.sge();
  ASSERT_EQ(qp->Send(Context(21), {&sge, 1}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(side.Next().request_context, Context(21));
  qp->Flush();
  const Bytes stream = demanding.ReadAll();
  Bytes plain;
  for (size_t at = 0; at < stream.size(); ++at) {
    if (at % kMarkerSpacing >= kMarkerLength) plain.push_back(stream[at]);
  }
  FpduDecoder decoder(false);
  Bytes payload;
  for (size_t at = 0; at < plain.size();) {
    const auto step = decoder.Next({&plain[at], plain.size() - at});
    ASSERT_NE(step.event, FpduDecoder::Event::kError);
    if (step.event == FpduDecoder::Event::kPayload) payload.insert(payload.end(), &plain[at], &plain[at] + step.taken);
    at += step.taken;
  }
  EXPECT_FALSE(decoder.within_fpdu());
  EXPECT_EQ(payload, local.bytes());
  CloseAndWait(qp);
}

TEST_F(Violations, AStreamThatEndsWithinAMessageIsAnAbortiveEnd) {
  const Bytes fpdu = ComposeFpdu(WriteTo(writable, 0), Bytes(100), true);
  peer.Send(Bytes(fpdu.begin(), fpdu.begin() + 50));
  peer.EndStream();
  const ConnectionEnd end = side.End();
  EXPECT_FALSE(end.graceful);
  EXPECT_EQ(end.provider_error, kSocketError);
  for (const ResultEx& result : side.Results(2)) EXPECT_EQ(result.status, NdkStatus::kCancelled);
}

TEST_F(Violations, AStreamThatEndsBetweenThePartsOfAMessageIsAnAbortiveEnd) {
  SegmentHeader first = {.opcode = Opcode::kSend, .msn = 1};
  peer.SendSegment(first, AsBytes("half of"));
  peer.EndStream();
  EXPECT_FALSE(side.End().graceful);
  for (const ResultEx& result : side.Results(2)) EXPECT_EQ(result.status, NdkStatus::kCancelled);
}

TEST_F(Violations, AStreamThatEndsBetweenThePartsOfAWriteIsAnAbortiveEnd) {
  SegmentHeader first = WriteTo(writable, 0);
  first.last = false;
  peer.SendSegment(first, AsBytes("half of"));
  peer.EndStream();
  EXPECT_FALSE(side.End().graceful);
  side.Results(2);
}

TEST_F(Violations, AStreamThatEndsBeforeAReadIsAnsweredIsAnAbortiveEnd) {
  const Sge sge = local.sge(0, 100);
  ASSERT_EQ(side.qp->Read(Context(3), {&sge, 1}, {0x1000, RemoteToken{0x55}}, 0), NdkStatus::kSuccess);
  peer.EndStream();
  EXPECT_FALSE(side.End().graceful);
  const auto results = side.Results(3);
  EXPECT_EQ(results[0].request_context, Context(3));
  EXPECT_EQ(results[0].status, NdkStatus::kIoTimeout);
}

TEST_F(Violations, AResetIsAnAbortiveEndAndReadsTimeOut) {
  const Sge sge = local.sge(0, 100);
  ASSERT_EQ(side.qp->Read(Context(3), {&sge, 1}, {0x1000, RemoteToken{0x55}}, 0), NdkStatus::kSuccess);
  ASSERT_EQ(side.qp->Send(Context(4), {}, 0), NdkStatus::kSuccess);
  peer.Reset();
  EXPECT_EQ(side.End().provider_error, kSocketError | ECONNRESET);
  const auto results = side.Results(4);
  EXPECT_EQ(results[0].status, NdkStatus::kIoTimeout);
  EXPECT_EQ(results[0].request_context, Context(3));
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(results[i].status, NdkStatus::kCancelled);
}

TEST_F(Violations, ATerminateFromThePeerIsReportedWithItsCause) {
  const Sge sge = local.sge(0, 100);
  ASSERT_EQ(side.qp->Read(Context(3), {&sge, 1}, {0x1000, RemoteToken{0x55}}, 0), NdkStatus::kSuccess);
  TerminateMessage message;
  message.cause = kRdmapAccessRights;
  peer.SendSegment({.last = true, .opcode = Opcode::kTerminate, .queue = kTerminateQueue, .msn = 1},
                   EncodeTerminate(message));
  EXPECT_EQ(side.End().provider_error, TerminateReceived(kRdmapAccessRights));
  EXPECT_EQ(side.Next().status, NdkStatus::kAccessViolation);
  side.Results(2);
}

TEST_F(Violations, RandomBytesAfterValidMessagesNeverHurtTheProcess) {
  const uint32_t seed = RandomSeed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    TcpPair pair = ConnectTcpPair();
    QueuePair* const qp = side.NewQueuePair({}, nullptr);
    std::atomic<bool> ended = false;
    States states = StatesFor(random() % 2 == 0);
    ASSERT_EQ(qp->Attach({std::move(pair.active), EncodeConnectionState(states.active)},
                         [&](const ConnectionEnd&) { ended = true; }),
              NdkStatus::kSuccess);
    RawPeer hostile(std::move(pair.passive));
    Bytes bytes;
    for (int i = 0; i < 3; ++i) {
      const Bytes fpdu = ComposeFpdu(WriteTo(writable, random() % 100), Bytes(random() % 3000), states.active.crc);
      bytes.insert(bytes.end(), fpdu.begin(), fpdu.end());
    }
    const size_t flips = random() % 8;
    for (size_t i = 0; i < flips; ++i) bytes[random() % bytes.size()] ^= static_cast<uint8_t>(random());
    for (size_t i = random() % 300; i > 0; --i) bytes.push_back(static_cast<uint8_t>(random()));
    hostile.Send(bytes);
    hostile.EndStream();
    EXPECT_TRUE(Eventually([&] { return ended.load(); }));
    CloseAndWait(qp);
  }
}

TEST_F(Violations, WhatWasReadBeforeTheHandOverIsDealtWithFirst) {
  TcpPair pair = ConnectTcpPair();
  QueuePair* const qp = side.NewQueuePair({}, Context(9));
  const Sge sge = local.sge(0, 64);
  ASSERT_EQ(qp->Receive(Context(11), {&sge, 1}), NdkStatus::kSuccess);
  ConnectionState state = StatesFor().active;
  const Bytes fpdu = ComposeFpdu({.last = true, .opcode = Opcode::kSend, .msn = 1}, AsBytes("early"), true);
  state.unread = AsText(fpdu);
  RawPeer early(std::move(pair.passive));
  ASSERT_EQ(qp->Attach({std::move(pair.active), EncodeConnectionState(state)}, {}), NdkStatus::kSuccess);
  const ResultEx result = side.Next();
  EXPECT_EQ(result.request_context, Context(11));
  EXPECT_EQ(result.bytes_transferred, 5u);
  CloseAndWait(qp);
}

TEST_F(Violations, TheResponseToAReadyToReceiveReadIsSwallowed) {
  TcpPair pair = ConnectTcpPair();
  QueuePair* const qp = side.NewQueuePair({}, nullptr);
  ConnectionState state;
  state.ready_to_receive = ReadyToReceive::kRead;
  state.outbound_read_limit = 1;
  ReadyToReceiveMessage(&state);
  RawPeer responder(std::move(pair.passive));
  ASSERT_EQ(qp->Attach({std::move(pair.active), EncodeConnectionState(state)}, {}), NdkStatus::kSuccess);
  const Sge sge = local.sge(0, 4);
  ASSERT_EQ(qp->Read(Context(12), {&sge, 1}, {1, RemoteToken{2}}, 0), NdkStatus::kSuccess);
  responder.SendSegment({.tagged = true, .last = true, .opcode = Opcode::kReadResponse});
  responder.SendSegment({.tagged = true,
                         .last = true,
                         .opcode = Opcode::kReadResponse,
                         .stag = Stag(local),
                         .tagged_offset = local.remote().address},
                        AsBytes("data"));
  const ResultEx result = side.Next();
  EXPECT_EQ(result.request_context, Context(12));
  EXPECT_EQ(result.status, NdkStatus::kSuccess);
  CloseAndWait(qp);
}

}  // namespace
}  // namespace rdmabroker::iwarp
