// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dataplane/iwarp/wire/bytes.h"
#include "dataplane/iwarp/wire/connection_state.h"
#include "dataplane/iwarp/wire/crc32c.h"
#include "dataplane/iwarp/wire/fpdu.h"
#include "dataplane/iwarp/wire/segment.h"
#include "dataplane/iwarp/wire/terminate.h"

namespace rdmabroker::iwarp {
namespace {

using Bytes = std::vector<uint8_t>;

// A CRC-32C made bit by bit from its polynomial, to judge the fast one.
uint32_t SlowCrc(std::span<const uint8_t> bytes) {
  uint32_t state = 0xFFFFFFFF;
  for (const uint8_t byte : bytes) {
    state ^= byte;
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? 0x82F63B78 : 0);
  }
  return ~state;
}

TEST(Crc32c, GivesThePublishedCheckValueInOnePieceOrMany) {
  const auto digits = AsBytes("123456789");
  Crc32c whole;
  whole.Add(digits);
  EXPECT_EQ(whole.value(), 0xE3069283u);
  Crc32c pieces;
  pieces.Add(digits.first(4));
  pieces.Add({});
  pieces.Add(digits.subspan(4));
  EXPECT_EQ(pieces.value(), 0xE3069283u);
}

TEST(Crc32c, TravelsAsRfc3720HasIt) {
  // RFC 3720, appendix B.4: 32 bytes of zeroes have the CRC AA 36 91 8A on the wire.
  Crc32c sum;
  sum.Add(Bytes(32));
  uint8_t stored[4];
  sum.Store(stored);
  EXPECT_EQ(Bytes(stored, stored + 4), (Bytes{0xAA, 0x36, 0x91, 0x8A}));
  EXPECT_TRUE(sum.Matches(stored));
  stored[3] ^= 1;
  EXPECT_FALSE(sum.Matches(stored));
}

struct HeaderRow {
  const char* name;
  SegmentHeader header;
  Bytes bytes;
};

const HeaderRow kHeaderRows[] = {
    {"write",
     {.tagged = true, .last = true, .opcode = Opcode::kWrite, .stag = 0x01020304, .tagged_offset = 0x1112131415161718},
     {0xC1, 0x40, 1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18}},
    {"read response, not the last",
     {.tagged = true, .opcode = Opcode::kReadResponse, .stag = 0xFFFFFFFF, .tagged_offset = 1},
     {0x81, 0x42, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 1}},
    {"send",
     {.last = true, .opcode = Opcode::kSend, .msn = 7, .message_offset = 0x0A0B0C0D},
     {0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0x0A, 0x0B, 0x0C, 0x0D}},
    {"send with invalidate",
     {.last = true, .opcode = Opcode::kSendInvalidate, .invalidate_stag = 0xCAFEF00D, .msn = 1},
     {0x41, 0x44, 0xCA, 0xFE, 0xF0, 0x0D, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}},
    {"solicited send",
     {.last = true, .opcode = Opcode::kSendSolicited, .msn = 1},
     {0x41, 0x45, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}},
    {"solicited send with invalidate",
     {.last = true, .opcode = Opcode::kSendSolicitedInvalidate, .invalidate_stag = 9, .msn = 1},
     {0x41, 0x46, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}},
    {"read request",
     {.last = true, .opcode = Opcode::kReadRequest, .queue = 1, .msn = 2},
     {0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0}},
    {"terminate",
     {.last = true, .opcode = Opcode::kTerminate, .queue = 2, .msn = 1},
     {0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0}},
};

TEST(SegmentHeader, EveryOperationHasTheBytesOfTheRfcs) {
  for (const HeaderRow& row : kHeaderRows) {
    SCOPED_TRACE(row.name);
    Bytes encoded(row.header.length());
    EncodeSegmentHeader(row.header, encoded.data());
    EXPECT_EQ(encoded, row.bytes);
    SegmentHeader decoded;
    EXPECT_EQ(DecodeSegmentHeader(row.bytes, &decoded), std::nullopt);
    EXPECT_EQ(decoded, row.header);
  }
}

struct BadHeaderRow {
  const char* name;
  size_t base;  // The row of kHeaderRows whose bytes are spoilt.
  size_t at;
  uint8_t value;
  TerminateCause cause;
};

TEST(SegmentHeader, EachViolationHasItsTerminateCause) {
  const BadHeaderRow rows[] = {
      {"DDP version in a tagged segment", 0, 0, 0xC2, kDdpTaggedInvalidVersion},
      {"DDP version in an untagged segment", 2, 0, 0x40, kDdpUntaggedInvalidVersion},
      {"RDMAP version", 0, 1, 0x00, kRdmapInvalidVersion},
      {"unknown opcode", 2, 1, 0x48, kRdmapUnexpectedOpcode},
      {"unknown opcode, all ones", 0, 1, 0x4F, kRdmapUnexpectedOpcode},
      {"a send that is tagged", 0, 1, 0x43, kRdmapUnexpectedOpcode},
      {"a write that is untagged", 2, 1, 0x40, kRdmapUnexpectedOpcode},
      {"a send on the read request queue", 2, 9, 1, kRdmapUnexpectedOpcode},
      {"a read request on the send queue", 6, 9, 0, kRdmapUnexpectedOpcode},
      {"a terminate on the send queue", 7, 9, 0, kRdmapUnexpectedOpcode},
      {"a queue that does not exist", 2, 9, 3, kDdpInvalidQueue},
      {"a queue far away", 2, 6, 0xFF, kDdpInvalidQueue},
  };
  for (const BadHeaderRow& row : rows) {
    SCOPED_TRACE(row.name);
    Bytes bytes = kHeaderRows[row.base].bytes;
    bytes[row.at] = row.value;
    SegmentHeader header;
    EXPECT_EQ(DecodeSegmentHeader(bytes, &header), row.cause);
  }
}

TEST(SegmentHeader, ReservedBitsAreIgnored) {
  Bytes bytes = kHeaderRows[0].bytes;
  bytes[0] |= 0x3C;
  bytes[1] |= 0x30;
  SegmentHeader header;
  EXPECT_EQ(DecodeSegmentHeader(bytes, &header), std::nullopt);
  EXPECT_EQ(header, kHeaderRows[0].header);
}

TEST(ReadRequest, HasTheBytesOfTheRfc) {
  const ReadRequest request = {0x01020304, 0x1112131415161718, 0x21222324, 0x31323334, 0x4142434445464748};
  uint8_t bytes[kReadRequestLength];
  EncodeReadRequest(request, bytes);
  EXPECT_EQ(Bytes(bytes, bytes + sizeof bytes),
            (Bytes{1,    2,    3,    4,    0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22,
                   0x23, 0x24, 0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48}));
  EXPECT_EQ(DecodeReadRequest(bytes), request);
}

TEST(Fpdu, IsFramedAsRfc5044HasIt) {
  const SegmentHeader send = {.last = true, .opcode = Opcode::kSend, .msn = 1};
  Bytes expected = {0x00, 0x17, 0x41, 0x43, 0, 0, 0,   0,   0,   0,   0,   0, 0, 0,
                    0,    1,    0,    0,    0, 0, 'a', 'b', 'c', 'd', 'e', 0, 0, 0};
  Bytes without = expected;
  without.insert(without.end(), 4, 0);
  EXPECT_EQ(ComposeFpdu(send, AsBytes("abcde"), false), without);
  const uint32_t crc = SlowCrc(expected);
  for (int i = 0; i < 4; ++i) expected.push_back(static_cast<uint8_t>(crc >> (8 * i)));
  EXPECT_EQ(ComposeFpdu(send, AsBytes("abcde"), true), expected);
}

TEST(Fpdu, PayloadRoomFillsTheLimitAndIsAligned) {
  for (const uint32_t limit : {kMinFpduLength, 1448u, 1460u, 8948u, 65483u, kMaxFpduLength}) {
    for (const size_t header : {kTaggedHeaderLength, kUntaggedHeaderLength}) {
      const size_t payload = MaxPayloadLength(limit, header, false);
      EXPECT_EQ(payload % 4, 0u);
      const size_t fpdu = kUlpduLengthField + header + payload + PadLength(header + payload) + kCrcLength;
      EXPECT_LE(fpdu, limit);
      EXPECT_GT(fpdu + 4, limit);
      const size_t marked = MaxPayloadLength(limit, header, true);
      MarkerInserter inserter(508);
      Bytes out;
      SegmentHeader segment = {.tagged = header == kTaggedHeaderLength, .opcode = Opcode::kWrite};
      inserter.Append(ComposeFpdu(segment, Bytes(marked), false), false, &out);
      EXPECT_LE(out.size(), limit);
    }
  }
}

TEST(MarkerInserter, PutsAMarkerAtEvery512thByteThatPointsBackToItsFpdu) {
  const SegmentHeader write = {.tagged = true, .last = true, .opcode = Opcode::kWrite};
  Bytes stream;
  MarkerInserter inserter(0);
  std::vector<size_t> length_fields;
  for (const size_t payload : {600u, 0u, 13u, 1000u, 488u, 484u, 480u}) {
    const Bytes fpdu = ComposeFpdu(write, Bytes(payload, 0xEE), false);
    const size_t begin = stream.size();
    length_fields.push_back(begin % 512 == 0 ? begin + 4 : begin);
    inserter.Append(fpdu, true, &stream);
    ASSERT_EQ(inserter.position(), stream.size());
    const uint32_t crc = SlowCrc({stream.data() + begin, stream.size() - begin - 4});
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(stream[stream.size() - 4 + i], static_cast<uint8_t>(crc >> (8 * i)));
    }
  }
  ASSERT_GT(stream.size(), 3000u);
  for (size_t at = 0; at < stream.size(); at += 512) {
    EXPECT_EQ(LoadU16(&stream[at]), 0) << at;
    const uint16_t back = LoadU16(&stream[at + 2]);
    size_t owner = 0;  // The last FPDU that begins at or before this marker.
    for (const size_t field : length_fields) {
      if (field <= at + 4) owner = field;
    }
    EXPECT_EQ(back, at > owner ? at - owner : 0) << at;
  }
}

struct TerminateRow {
  const char* name;
  TerminateMessage message;
  Bytes bytes;
};

TEST(Terminate, HasTheBytesOfTheRfc) {
  const std::string tagged = {'\x81', '\x40', 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2};
  const std::string untagged = {'\x41', '\x41', 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0};
  const TerminateRow rows[] = {
      {"bare", {kMpaCrc, {}, "", ""}, {0x20, 0x02, 0, 0}},
      {"tagged", {kDdpBaseOrBounds, 0x0102, tagged, ""}, {0x11, 0x01, 0xC0, 0, 1, 2}},
      {"read", {kRdmapAccessRights, 0x002E, untagged, std::string(28, 'r')}, {0x01, 0x02, 0xE0, 0, 0, 0x2E}},
  };
  for (const TerminateRow& row : rows) {
    SCOPED_TRACE(row.name);
    Bytes expected = row.bytes;
    expected.insert(expected.end(), row.message.segment_header.begin(), row.message.segment_header.end());
    expected.insert(expected.end(), row.message.read_request.begin(), row.message.read_request.end());
    EXPECT_EQ(EncodeTerminate(row.message), expected);
    const auto decoded = DecodeTerminate(expected);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, row.message);
    for (size_t length = 0; length < expected.size(); ++length) {
      EXPECT_FALSE(DecodeTerminate(std::span(expected).first(length)).ok()) << length;
    }
    expected.push_back(0);
    EXPECT_FALSE(DecodeTerminate(expected).ok());
  }
}

TEST(Terminate, CausesHaveNames) {
  EXPECT_EQ(TerminateCauseName(kDdpInvalidStag), "DDP: invalid STag");
  EXPECT_EQ(TerminateCauseName({9, 9, 9}), "unknown cause");
  EXPECT_EQ(kDdpMessageTooLong.number(), 0x1205);
}

ConnectionState FullState() {
  ConnectionState state;
  state.role = Role::kResponder;
  state.ready_to_receive = ReadyToReceive::kRead;
  state.crc = false;
  state.markers_to_peer = true;
  state.fpdu_limit = 1448;
  state.inbound_read_limit = 3;
  state.outbound_read_limit = 0x3FFF;
  state.next_send_msn = {1, 2, 3};
  state.next_receive_msn = {4, 5, 0xFFFFFFFF};
  state.bytes_sent = 0x100000004;
  state.read_response_due = true;
  state.unread = std::string("\0unread", 7);
  state.peer_data = "hello";
  return state;
}

TEST(ConnectionState, SurvivesItsEncoding) {
  for (const ConnectionState& state : {ConnectionState(), FullState()}) {
    const std::string bytes = EncodeConnectionState(state);
    EXPECT_LE(bytes.size(), kMaxConnectionStateLength);
    const auto decoded = DecodeConnectionState(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, state);
  }
}

TEST(ConnectionState, EachBadFieldIsNamed) {
  const struct {
    const char* field;
    size_t at;
    uint8_t value;
  } rows[] = {
      {"magic", 0, 'x'},          {"version", 5, 2},           {"role", 6, 2},
      {"ready_to_receive", 7, 4}, {"flags", 8, 0x80},          {"fpdu_limit", 9, 1},
      {"bytes_sent", 52, 1},      {"length of unread", 53, 1}, {"length of peer_data", 57, 1},
  };
  for (const auto& row : rows) {
    std::string bytes = EncodeConnectionState(FullState());
    bytes[row.at] = static_cast<char>(row.value);
    const auto decoded = DecodeConnectionState(bytes);
    ASSERT_FALSE(decoded.ok()) << row.field;
    EXPECT_NE(decoded.status().message().find(row.field), std::string::npos) << decoded.status();
  }
  const std::string bytes = EncodeConnectionState(FullState());
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(DecodeConnectionState(bytes.substr(0, length)).ok());
  EXPECT_FALSE(DecodeConnectionState(bytes + "x").ok());
}

TEST(ConnectionState, OnlyTheResponderOfATwoWayHandshakeHoldsItsSends) {
  ConnectionState state;
  state.role = Role::kInitiator;
  EXPECT_FALSE(state.holds_sends());
  state.role = Role::kResponder;
  EXPECT_TRUE(state.holds_sends());
  state.ready_to_receive = ReadyToReceive::kWrite;
  EXPECT_FALSE(state.holds_sends());
}

}  // namespace
}  // namespace rdmabroker::iwarp
