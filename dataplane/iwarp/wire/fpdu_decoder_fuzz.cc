// SPDX-License-Identifier: Apache-2.0

// A stream of FPDUs, which is judged the same however it is cut. The first byte says whether there is a CRC, and
// whether the peer gets it right; the second how the stream is cut; the rest is the stream.

#include "dataplane/iwarp/wire/fpdu_decoder.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "dataplane/iwarp/wire/bytes.h"
#include "tests/fuzz.h"

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

// The stream with right CRCs, as far as it is FPDUs.
Bytes WithCrcs(Bytes stream) {
  for (size_t at = 0; at + kUlpduLengthField <= stream.size();) {
    const size_t length = LoadU16(&stream[at]);
    const size_t covered = kUlpduLengthField + length + PadLength(length);
    if (at + covered + kCrcLength > stream.size()) break;
    Crc32c sum;
    sum.Add({&stream[at], covered});
    sum.Store(&stream[at + covered]);
    at += covered + kCrcLength;
  }
  return stream;
}

// Feeds the stream in pieces of at most `most` bytes; `direct` puts payload in by PayloadPlaced.
Outcome Decode(const Bytes& stream, bool crc, size_t most, bool direct) {
  FpduDecoder decoder(crc);
  Outcome outcome;
  Segment segment;
  for (size_t at = 0; at < stream.size();) {
    const std::span<const uint8_t> piece = std::span(stream).subspan(at, std::min(most, stream.size() - at));
    if (direct && decoder.payload_left() > 0) {
      const auto placed = piece.first(std::min(piece.size(), decoder.payload_left()));
      decoder.PayloadPlaced(placed);
      segment.payload.insert(segment.payload.end(), placed.begin(), placed.end());
      at += placed.size();
      continue;
    }
    const FpduDecoder::Step step = decoder.Next(piece);
    Require(step.taken <= piece.size(), "no more is taken than was given");
    at += step.taken;
    switch (step.event) {
      case FpduDecoder::Event::kNeedMore:
        Require(step.taken == piece.size(), "all is taken before more is wanted");
        break;
      case FpduDecoder::Event::kSegment:
        segment = {decoder.header(), {}};
        break;
      case FpduDecoder::Event::kPayload:
        segment.payload.insert(segment.payload.end(), piece.begin(),
                               piece.begin() + static_cast<ptrdiff_t>(step.taken));
        break;
      case FpduDecoder::Event::kSegmentEnd:
        Require(segment.payload.size() == decoder.payload_length(), "a segment has the payload that it announces");
        outcome.segments.push_back(segment);
        break;
      case FpduDecoder::Event::kError:
        outcome.error = decoder.error();
        Require(decoder.Next(stream).event == FpduDecoder::Event::kError, "an error stays one");
        return outcome;
    }
  }
  outcome.within_fpdu = decoder.within_fpdu();
  return outcome;
}

}  // namespace
}  // namespace rdmabroker::iwarp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rdmabroker;
  using namespace rdmabroker::iwarp;
  FuzzInput input(data, size);
  const uint8_t choices = input.Byte();
  const bool crc = (choices & 1) != 0;
  const size_t most = 1 + input.Byte();
  const std::span<const uint8_t> rest = input.Rest();
  Bytes stream(rest.begin(), rest.end());
  if ((choices & 2) != 0) stream = WithCrcs(std::move(stream));
  const Outcome outcome = Decode(stream, crc, stream.size(), false);
  Require(Decode(stream, crc, most, false) == outcome, "cutting the stream changes nothing");
  Require(Decode(stream, crc, most, true) == outcome, "putting payload in its place directly changes nothing");
  Bytes composed;
  for (const Segment& segment : outcome.segments) {
    const Bytes fpdu = ComposeFpdu(segment.header, segment.payload, crc);
    composed.insert(composed.end(), fpdu.begin(), fpdu.end());
  }
  Require(composed.size() <= stream.size(), "segments are written in as many bytes as they came in");
  Require(Decode(composed, crc, most, false) == Outcome{outcome.segments, std::nullopt, false},
          "segments that are written and read again are the same");
  return 0;
}
