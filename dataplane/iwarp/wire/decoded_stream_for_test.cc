// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/wire/decoded_stream_for_test.h"

#include <algorithm>
#include <span>

#include "tests/fuzz.h"

namespace rdmabroker::iwarp {

DecodedStream Decode(const std::vector<uint8_t>& stream, bool crc, const std::function<size_t()>& most, bool direct) {
  FpduDecoder decoder(crc);
  DecodedStream decoded;
  DecodedSegment segment;
  for (size_t at = 0; at < stream.size();) {
    const std::span<const uint8_t> piece = std::span(stream).subspan(at, std::min(most(), stream.size() - at));
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
        decoded.segments.push_back(segment);
        break;
      case FpduDecoder::Event::kError:
        decoded.error = decoder.error();
        Require(decoder.Next(stream).event == FpduDecoder::Event::kError, "an error stays one");
        return decoded;
    }
  }
  decoded.within_fpdu = decoder.within_fpdu();
  return decoded;
}

}  // namespace rdmabroker::iwarp
