// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/wire/negotiation.h"

#include <gtest/gtest.h>

#include "dataplane/iwarp/wire/bytes.h"

namespace rdmabroker::iwarp {
namespace {

std::string Bytes(std::initializer_list<int> values) {
  std::string out;
  for (const int value : values) out.push_back(static_cast<char>(value));
  return out;
}

TEST(StartupFrame, HasTheBytesOfTheRfcs) {
  const struct {
    const char* name;
    StartupFrame frame;
    std::string bytes;
  } rows[] = {
      {"request, revision 1, markers",
       {.markers = true, .crc = false, .revision = 1, .private_data = "pd"},
       "MPA ID Req Frame" + Bytes({0x80, 1, 0, 2}) + "pd"},
      {"request, revision 2, no form",
       {.enhanced = EnhancedData{.inbound_read_limit = 8, .outbound_read_limit = 2}},
       "MPA ID Req Frame" + Bytes({0x50, 2, 0, 4, 0, 8, 0, 2})},
      {"request, revision 2, every form, limits at their most",
       {.enhanced = EnhancedData{.peer_to_peer = true,
                                 .rtr_send = true,
                                 .rtr_write = true,
                                 .rtr_read = true,
                                 .inbound_read_limit = 0x3FFF,
                                 .outbound_read_limit = 0x1234},
        .private_data = "x"},
       "MPA ID Req Frame" + Bytes({0x50, 2, 0, 5, 0xFF, 0xFF, 0xD2, 0x34}) + "x"},
      {"reply, write form",
       {.kind = StartupKind::kReply, .enhanced = EnhancedData{.peer_to_peer = true, .rtr_write = true}},
       "MPA ID Rep Frame" + Bytes({0x50, 2, 0, 4, 0x80, 0, 0x80, 0})},
      {"reject with data",
       {.kind = StartupKind::kReply, .reject = true, .revision = 1, .private_data = "no"},
       "MPA ID Rep Frame" + Bytes({0x60, 1, 0, 2}) + "no"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const auto encoded = EncodeStartupFrame(row.frame);
    ASSERT_TRUE(encoded.ok()) << encoded.status();
    EXPECT_EQ(*encoded, row.bytes);
    const auto decoded = DecodeStartupFrame(AsBytes(row.bytes + "FPDU"), row.frame.kind);
    ASSERT_TRUE(decoded.ok() && decoded->has_value()) << decoded.status();
    EXPECT_EQ((*decoded)->frame, row.frame);
    EXPECT_EQ((*decoded)->length, row.bytes.size());
    for (size_t length = 0; length < row.bytes.size(); ++length) {
      const auto partial = DecodeStartupFrame(AsBytes(row.bytes.substr(0, length)), row.frame.kind);
      ASSERT_TRUE(partial.ok()) << partial.status();
      EXPECT_FALSE(partial->has_value()) << length;
    }
  }
}

TEST(StartupFrame, MalformedOnesAreRefusedAsSoonAsTheyShowIt) {
  const std::string key = "MPA ID Req Frame";
  const struct {
    const char* name;
    std::string bytes;
    const char* message;
  } rows[] = {
      {"garbage", "G", "key"},
      {"one wrong letter", "MPA ID Rex", "key"},
      {"a reply where a request belongs", "MPA ID Rep Frame", "key"},
      {"revision 0", key + Bytes({0x40, 0, 0, 0}), "revision 0"},
      {"revision 3", key + Bytes({0x40, 3, 0, 0}), "revision 3"},
      {"513 bytes of private data", key + Bytes({0x40, 1, 2, 1}), "513"},
      {"65535 bytes of private data", key + Bytes({0x40, 2, 0xFF, 0xFF}), "65535"},
      {"enhanced data cut off", key + Bytes({0x50, 2, 0, 3}), "enhanced"},
  };
  for (const auto& row : rows) {
    const auto decoded = DecodeStartupFrame(AsBytes(row.bytes), StartupKind::kRequest);
    ASSERT_FALSE(decoded.ok()) << row.name;
    EXPECT_NE(decoded.status().message().find(row.message), std::string::npos) << decoded.status();
  }
}

TEST(StartupFrame, PrivateDataFillsTheFrameAndNoMore) {
  StartupFrame frame;
  frame.private_data = std::string(512, 'x');
  EXPECT_TRUE(EncodeStartupFrame(frame).ok());
  frame.private_data += 'x';
  EXPECT_FALSE(EncodeStartupFrame(frame).ok());
  EXPECT_TRUE(BuildRequest({}, std::string(kMaxConsumerPrivateData, 'x')).ok());
  EXPECT_FALSE(BuildRequest({}, std::string(kMaxConsumerPrivateData + 1, 'x')).ok());
}

struct Connected {
  ConnectionState initiator, responder;
};

// Both sides of a handshake, the frames going through their encodings.
Connected Connect(const Offer& active, const Offer& passive, const StartupFrame& request) {
  const auto reply = BuildReply(request, passive, "welcome");
  EXPECT_TRUE(reply.ok()) << reply.status();
  const auto decoded = DecodeStartupFrame(AsBytes(*EncodeStartupFrame(reply->reply)), StartupKind::kReply);
  const auto outcome = CheckReply(request, active, (**decoded).frame);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  return {std::get<ConnectionState>(*outcome), reply->state};
}

TEST(Negotiation, ReadLimitsAreTheLowerOfWhatEachSideSays) {
  const struct {
    uint32_t active_in, active_out, passive_in, passive_out;
    uint32_t in, out;  // The active side's effective ones.
  } rows[] = {
      {8, 2, 4, 16, 8, 2},
      {0, 5, 5, 5, 0, 5},
      {5, 0, 5, 5, 5, 0},
      {1, 1, 0, 0, 0, 0},
      {0xFFFFFFFF, 256, 255, 0xFFFFFFFF, 0x3FFF, 255},
  };
  for (const auto& row : rows) {
    const Offer active = {.inbound_read_limit = row.active_in, .outbound_read_limit = row.active_out};
    const Offer passive = {.inbound_read_limit = row.passive_in, .outbound_read_limit = row.passive_out};
    const Connected connected = Connect(active, passive, *BuildRequest(active, "hello"));
    EXPECT_EQ(connected.initiator.inbound_read_limit, row.in);
    EXPECT_EQ(connected.initiator.outbound_read_limit, row.out);
    EXPECT_EQ(connected.responder.inbound_read_limit, row.out);
    EXPECT_EQ(connected.responder.outbound_read_limit, row.in);
    EXPECT_EQ(connected.initiator.peer_data, "welcome");
    EXPECT_EQ(connected.responder.peer_data, "hello");
    EXPECT_EQ(connected.initiator.ready_to_receive, ReadyToReceive::kWrite);
    EXPECT_TRUE(connected.responder.three_way());
  }
}

TEST(Negotiation, CrcIsInUseIfEitherSideWantsIt) {
  for (const bool active_wants : {false, true}) {
    for (const bool passive_wants : {false, true}) {
      const Offer active = {.crc = active_wants};
      const Offer passive = {.crc = passive_wants};
      const Connected connected = Connect(active, passive, *BuildRequest(active, ""));
      EXPECT_EQ(connected.initiator.crc, active_wants || passive_wants);
      EXPECT_EQ(connected.responder.crc, active_wants || passive_wants);
    }
  }
}

TEST(Negotiation, MarkersGoOnlyToThePeerThatRequiresThem) {
  StartupFrame request = *BuildRequest({}, "");
  request.markers = true;
  const Connected connected = Connect({}, {}, request);
  EXPECT_TRUE(connected.responder.markers_to_peer);
  EXPECT_FALSE(connected.initiator.markers_to_peer);
}

TEST(Negotiation, APeerOfRevisionOneGivesATwoWayHandshake) {
  const Offer offer = {.inbound_read_limit = 4, .outbound_read_limit = 5};
  StartupFrame request = {.revision = kRevision1};
  const auto reply = BuildReply(request, offer, "");
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->reply.revision, kRevision1);
  EXPECT_FALSE(reply->reply.enhanced);
  EXPECT_TRUE(reply->state.holds_sends());
  EXPECT_EQ(reply->state.inbound_read_limit, 4u);
  const auto outcome = CheckReply(*BuildRequest(offer, ""), offer, reply->reply);
  ASSERT_TRUE(outcome.ok());
  EXPECT_FALSE(std::get<ConnectionState>(*outcome).three_way());
  EXPECT_EQ(std::get<ConnectionState>(*outcome).outbound_read_limit, 5u);
}

TEST(Negotiation, APeerThatDoesNotOfferAFormGivesATwoWayHandshake) {
  StartupFrame request = *BuildRequest({}, "");
  request.enhanced->peer_to_peer = false;
  const auto reply = BuildReply(request, {}, "");
  ASSERT_TRUE(reply.ok());
  EXPECT_FALSE(reply->state.three_way());
  EXPECT_FALSE(reply->reply.enhanced->peer_to_peer);
  EXPECT_FALSE(TermsOf(request).three_way);
}

TEST(Negotiation, ARejectCarriesItsPrivateData) {
  const StartupFrame request = *BuildRequest({}, "");
  const auto reject = BuildReject(request, "busy");
  ASSERT_TRUE(reject.ok());
  const auto decoded = DecodeStartupFrame(AsBytes(*EncodeStartupFrame(*reject)), StartupKind::kReply);
  const auto outcome = CheckReply(request, {}, (**decoded).frame);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(std::get<Rejected>(*outcome).private_data, "busy");
  EXPECT_FALSE(BuildReject(request, std::string(kMaxConsumerPrivateData + 1, 'x')).ok());
}

TEST(Negotiation, RepliesThatDoNotAnswerTheRequestAreRefused) {
  const Offer offer = {.inbound_read_limit = 4, .outbound_read_limit = 4};
  const StartupFrame request = *BuildRequest(offer, "");
  StartupFrame reply = BuildReply(request, offer, "")->reply;
  reply.enhanced->outbound_read_limit = 5;
  EXPECT_FALSE(CheckReply(request, offer, reply).ok());
  reply = BuildReply(request, offer, "")->reply;
  reply.enhanced->rtr_write = reply.enhanced->rtr_read = false;
  reply.enhanced->rtr_send = true;
  EXPECT_FALSE(CheckReply(request, offer, reply).ok());
}

TEST(ReadyToReceive, EachFormIsSentAndTakenHoweverItIsCut) {
  for (const ReadyToReceive form : {ReadyToReceive::kWrite, ReadyToReceive::kRead, ReadyToReceive::kSend}) {
    for (const bool crc : {false, true}) {
      ConnectionState initiator;
      initiator.crc = crc;
      initiator.ready_to_receive = form;
      ConnectionState responder;
      responder.role = Role::kResponder;
      responder.crc = crc;
      responder.ready_to_receive = ReadyToReceive::kWrite;
      const ConnectionState before = responder;
      std::vector<uint8_t> message = ReadyToReceiveMessage(&initiator);
      const size_t length = message.size();
      EXPECT_EQ(initiator.bytes_sent, length);
      for (size_t cut = 0; cut < length; ++cut) {
        const auto taken = TakeReadyToReceive(std::span(message).first(cut), &responder);
        ASSERT_TRUE(taken.ok()) << taken.status();
        EXPECT_FALSE(taken->has_value());
        EXPECT_EQ(responder, before);
      }
      message.push_back(0x17);
      const auto taken = TakeReadyToReceive(message, &responder);
      ASSERT_TRUE(taken.ok() && taken->has_value()) << taken.status();
      EXPECT_EQ((*taken)->length, length);
      EXPECT_EQ(responder.ready_to_receive, form);
      EXPECT_EQ(responder.next_receive_msn, initiator.next_send_msn);
      EXPECT_EQ((*taken)->response.empty(), form != ReadyToReceive::kRead);
      EXPECT_EQ(initiator.read_response_due, form == ReadyToReceive::kRead);
      EXPECT_EQ(responder.bytes_sent, (*taken)->response.size());
    }
  }
}

TEST(ReadyToReceive, TheWriteFormHasTheBytesOfTheRfcs) {
  ConnectionState state;
  state.crc = false;
  state.ready_to_receive = ReadyToReceive::kWrite;
  EXPECT_EQ(ReadyToReceiveMessage(&state),
            (std::vector<uint8_t>{0, 14, 0xC1, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(ReadyToReceive, MarkersGoInFromTheFirstByte) {
  ConnectionState state;
  state.crc = false;
  state.markers_to_peer = true;
  state.ready_to_receive = ReadyToReceive::kWrite;
  const auto message = ReadyToReceiveMessage(&state);
  EXPECT_EQ(message.size(), 24u);
  EXPECT_EQ(LoadU32(message.data()), 0u);
  EXPECT_EQ(LoadU16(message.data() + 4), 14);
  EXPECT_EQ(state.bytes_sent, 24u);
}

TEST(ReadyToReceive, AnythingElseIsRefused) {
  const SegmentHeader write = {.tagged = true, .last = true, .opcode = Opcode::kWrite};
  const SegmentHeader send = {.last = true, .opcode = Opcode::kSend, .msn = 1};
  const SegmentHeader read = {.last = true, .opcode = Opcode::kReadRequest, .queue = 1, .msn = 1};
  uint8_t long_read[kReadRequestLength];
  EncodeReadRequest({.length = 1}, long_read);
  const uint8_t data[4] = {};
  const std::vector<uint8_t> messages[] = {
      ComposeFpdu(write, data, true),
      ComposeFpdu(write, std::vector<uint8_t>(60000), true),
      ComposeFpdu({.tagged = true, .opcode = Opcode::kWrite}, {}, true),
      ComposeFpdu({.tagged = true, .last = true, .opcode = Opcode::kReadResponse}, {}, true),
      ComposeFpdu(send, data, true),
      ComposeFpdu({.last = true, .opcode = Opcode::kSend, .msn = 2}, {}, true),
      ComposeFpdu({.last = true, .opcode = Opcode::kSendSolicited, .msn = 1}, {}, true),
      ComposeFpdu(read, long_read, true),
      ComposeFpdu({.last = true, .opcode = Opcode::kReadRequest, .queue = 1, .msn = 2},
                  std::vector<uint8_t>(kReadRequestLength), true),
      ComposeFpdu({.last = true, .opcode = Opcode::kTerminate, .queue = 2, .msn = 1}, data, true),
      ComposeFpdu(write, {}, false),
  };
  for (const auto& message : messages) {
    ConnectionState state;
    state.ready_to_receive = ReadyToReceive::kWrite;
    const ConnectionState before = state;
    EXPECT_FALSE(TakeReadyToReceive(message, &state).ok());
    EXPECT_EQ(state, before);
  }
}

}  // namespace
}  // namespace rdmabroker::iwarp
