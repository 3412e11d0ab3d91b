// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/wire/fpdu_decoder.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <vector>

#include "dataplane/iwarp/wire/bytes.h"
#include "dataplane/iwarp/wire/terminate.h"
#include "tests/random_seed.h"

namespace rdmabroker::iwarp {
namespace {

using Bytes = std::vector<uint8_t>;

struct Segment {
  SegmentHeader header;
  Bytes payload;

  bool operator==(const Segment&) const = default;
};

struct Outcome {
  std::vector<Segment> segments;  // Complete ones.
  std::optional<TerminateCause> error;
  bool within_fpdu = false;

  bool operator==(const Outcome&) const = default;
};

// Feeds the stream in pieces of random length (whole if `random` is null); `direct` puts payload in by PayloadPlaced.
Outcome Decode(const Bytes& stream, bool crc, std::mt19937* random, bool direct = false) {
  FpduDecoder decoder(crc);
  Outcome outcome;
  Segment segment;
  size_t at = 0;
  while (at < stream.size() && !outcome.error) {
    size_t left = stream.size() - at;
    if (random != nullptr) left = std::min<size_t>(left, 1 + (*random)() % 40);
    while (left > 0) {
      if (direct && decoder.payload_left() > 0) {
        const size_t piece = std::min(left, decoder.payload_left());
        decoder.PayloadPlaced({&stream[at], piece});
        segment.payload.insert(segment.payload.end(), &stream[at], &stream[at] + piece);
        at += piece;
        left -= piece;
        continue;
      }
      const auto step = decoder.Next({&stream[at], left});
      EXPECT_LE(step.taken, left);
      if (step.event == FpduDecoder::Event::kSegment) segment = {decoder.header(), {}};
      if (step.event == FpduDecoder::Event::kPayload) {
        segment.payload.insert(segment.payload.end(), &stream[at], &stream[at] + step.taken);
      }
      if (step.event == FpduDecoder::Event::kSegmentEnd) outcome.segments.push_back(segment);
      at += step.taken;
      left -= step.taken;
      if (step.event == FpduDecoder::Event::kError) {
        outcome.error = decoder.error();
        EXPECT_EQ(decoder.Next(stream).event, FpduDecoder::Event::kError);
        return outcome;
      }
      if (step.event == FpduDecoder::Event::kNeedMore) {
        EXPECT_EQ(left, 0u) << "the decoder must take all that it is given";
        break;
      }
    }
  }
  outcome.within_fpdu = decoder.within_fpdu();
  return outcome;
}

Segment RandomSegment(std::mt19937& random) {
  const SegmentHeader headers[] = {
      {.tagged = true, .last = random() % 2 == 0, .opcode = Opcode::kWrite, .stag = 5, .tagged_offset = random()},
      {.tagged = true, .last = true, .opcode = Opcode::kReadResponse, .stag = 6},
      {.last = random() % 2 == 0, .opcode = Opcode::kSend, .msn = 3, .message_offset = 9},
      {.last = true, .opcode = Opcode::kSendSolicitedInvalidate, .invalidate_stag = 77, .msn = 4},
      {.last = true, .opcode = Opcode::kReadRequest, .queue = 1, .msn = 1},
      {.last = true, .opcode = Opcode::kTerminate, .queue = 2, .msn = 1},
  };
  Segment segment = {headers[random() % 6], {}};
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
    Bytes stream;
    Outcome expected;
    for (int i = 0; i < 8; ++i) {
      expected.segments.push_back(RandomSegment(random));
      const Bytes fpdu = ComposeFpdu(expected.segments.back().header, expected.segments.back().payload, crc);
      stream.insert(stream.end(), fpdu.begin(), fpdu.end());
    }
    ASSERT_EQ(Decode(stream, crc, nullptr), expected);
    ASSERT_EQ(Decode(stream, crc, &random), expected);
    ASSERT_EQ(Decode(stream, crc, &random, true), expected);
    const size_t cut = 1 + random() % (stream.size() - 1);
    ASSERT_FALSE(Decode(Bytes(stream.begin(), stream.begin() + static_cast<ptrdiff_t>(cut)), crc, nullptr).error);
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
    const Outcome outcome = Decode(row.bytes, true, nullptr);
    EXPECT_EQ(outcome.error, row.cause);
    EXPECT_TRUE(outcome.segments.empty());
  }
}

TEST(FpduDecoder, WithoutCrcTheFieldIsNotLookedAt) {
  const SegmentHeader send = {.last = true, .opcode = Opcode::kSend, .msn = 1};
  EXPECT_EQ(Decode(Spoilt(Fpdu(send, 4, false), 27), false, nullptr).segments.size(), 1u);
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
