// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/wire/fpdu_decoder.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "dataplane/iwarp/wire/bytes.h"
#include "dataplane/iwarp/wire/decoded_stream_for_test.h"
#include "dataplane/iwarp/wire/terminate.h"
#include "tests/random_seed.h"

namespace rdmabroker::iwarp {
namespace {

using Bytes = std::vector<uint8_t>;

size_t Whole() { return std::numeric_limits<size_t>::max(); }

DecodedSegment RandomSegment(std::mt19937& random) {
  const SegmentHeader headers[] = {
      {.tagged = true, .last = random() % 2 == 0, .opcode = Opcode::kWrite, .stag = 5, .tagged_offset = random()},
      {.tagged = true, .last = true, .opcode = Opcode::kReadResponse, .stag = 6},
      {.last = random() % 2 == 0, .opcode = Opcode::kSend, .msn = 3, .message_offset = 9},
      {.last = true, .opcode = Opcode::kSendSolicitedInvalidate, .invalidate_stag = 77, .msn = 4},
      {.last = true, .opcode = Opcode::kReadRequest, .queue = 1, .msn = 1},
      {.last = true, .opcode = Opcode::kTerminate, .queue = 2, .msn = 1},
  };
  DecodedSegment segment = {headers[random() % 6], {}};
  size_t length = random() % 200;
  if (segment.header.opcode == Opcode::kReadRequest) length = kReadRequestLength;
  if (segment.header.opcode == Opcode::kTerminate) length = 4 + random() % 40;
  for (size_t i = 0; i < length; ++i) segment.payload.push_back(static_cast<uint8_t>(random()));
  return segment;
}

TEST(FpduDecoder, CuttingTheStreamDifferentlyChangesNothing) {
  const uint32_t seed = RandomSeed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const bool crc = random() % 2 == 0;
    const auto pieces = [&random] { return 1 + random() % 40; };
    Bytes stream;
    DecodedStream expected;
    for (int i = 0; i < 8; ++i) {
      expected.segments.push_back(RandomSegment(random));
      const Bytes fpdu = ComposeFpdu(expected.segments.back().header, expected.segments.back().payload, crc);
      stream.insert(stream.end(), fpdu.begin(), fpdu.end());
    }
    ASSERT_EQ(Decode(stream, crc, Whole), expected);
    ASSERT_EQ(Decode(stream, crc, pieces), expected);
    ASSERT_EQ(Decode(stream, crc, pieces, true), expected);
    const size_t cut = 1 + random() % (stream.size() - 1);
    ASSERT_FALSE(Decode(Bytes(stream.begin(), stream.begin() + static_cast<ptrdiff_t>(cut)), crc, Whole).error);
  }
}

struct MalformedRow {
  const char* name;
  Bytes bytes;
  TerminateCause cause;
};

Bytes Fpdu(const SegmentHeader& header, size_t payload, bool crc = true) {
  return ComposeFpdu(header, Bytes(payload), crc);
}

Bytes Spoilt(Bytes bytes, size_t at) {
  bytes[at] ^= 0x10;
  return bytes;
}

TEST(FpduDecoder, EachViolationHasItsTerminateCause) {
  const SegmentHeader write = {.tagged = true, .last = true, .opcode = Opcode::kWrite};
  const SegmentHeader send = {.last = true, .opcode = Opcode::kSend, .msn = 1};
  const SegmentHeader read = {.last = true, .opcode = Opcode::kReadRequest, .queue = 1, .msn = 1};
  const SegmentHeader terminate = {.last = true, .opcode = Opcode::kTerminate, .queue = 2, .msn = 1};
  const MalformedRow rows[] = {
      {"length zero", {0, 0, 0xC1}, kMpaLengthMismatch},
      {"shorter than a tagged header", {0, 13, 0xC1}, kMpaLengthMismatch},
      {"shorter than an untagged header", {0, 17, 0x41}, kMpaLengthMismatch},
      {"CRC wrong", Spoilt(Fpdu(write, 4), 22), kMpaCrc},
      {"payload changed", Spoilt(Fpdu(write, 4), 18), kMpaCrc},
      {"header changed", Spoilt(Fpdu(write, 4), 5), kMpaCrc},
      {"pad changed", Spoilt(Fpdu(send, 1), 22), kMpaCrc},
      {"read request too short", Fpdu(read, 27), kRdmapStreamCatastrophic},
      {"read request too long", Fpdu(read, 29), kDdpMessageTooLong},
      {"read request in two", Fpdu({.opcode = Opcode::kReadRequest, .queue = 1, .msn = 1}, 28), kDdpMessageTooLong},
      {"read request at an offset",
       Fpdu({.last = true, .opcode = Opcode::kReadRequest, .queue = 1, .msn = 1, .message_offset = 4}, 28),
       kDdpInvalidMo},
      {"terminate too long", Fpdu(terminate, kMaxTerminateLength + 1), kDdpMessageTooLong},
      {"HTTP", Bytes{'G', 'E', 'T', ' ', '/', ' ', 'H', 'T', 'T', 'P', '/', '1', '.', '1', 13, 10, 13, 10, 0, 0},
       kDdpUntaggedInvalidVersion},
  };
  for (const MalformedRow& row : rows) {
    SCOPED_TRACE(row.name);
    const DecodedStream outcome = Decode(row.bytes, true, Whole);
    EXPECT_EQ(outcome.error, row.cause);
    EXPECT_TRUE(outcome.segments.empty());
  }
}

TEST(FpduDecoder, WithoutCrcTheFieldIsNotLookedAt) {
  const SegmentHeader send = {.last = true, .opcode = Opcode::kSend, .msn = 1};
  EXPECT_EQ(Decode(Spoilt(Fpdu(send, 4, false), 27), false, Whole).segments.size(), 1u);
}

TEST(FpduDecoder, TheHeaderAsItCameIsKeptForTheTerminateMessage) {
  const SegmentHeader write = {.tagged = true, .last = true, .opcode = Opcode::kWrite, .stag = 0x01020304};
  const Bytes fpdu = Fpdu(write, 5);
  FpduDecoder decoder(true);
  EXPECT_FALSE(decoder.has_raw_header());
  EXPECT_EQ(decoder.Next(fpdu).event, FpduDecoder::Event::kSegment);
  ASSERT_TRUE(decoder.has_raw_header());
  EXPECT_EQ(decoder.ulpdu_length(), 19);
  EXPECT_EQ(Bytes(decoder.raw_header().begin(), decoder.raw_header().end()),
            Bytes(fpdu.begin() + 2, fpdu.begin() + 16));
}

}  // namespace
}  // namespace rdmabroker::iwarp
