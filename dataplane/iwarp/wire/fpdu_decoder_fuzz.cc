// SPDX-License-Identifier: Apache-2.0

// A stream of FPDUs, which is judged the same however it is cut. The first byte says whether there is a CRC, and
// whether the peer gets it right; the second how the stream is cut; the rest is the stream.

#include "dataplane/iwarp/wire/fpdu_decoder.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "dataplane/iwarp/wire/bytes.h"
#include "dataplane/iwarp/wire/decoded_stream_for_test.h"
#include "tests/fuzz.h"

namespace rdmabroker::iwarp {
namespace {

using Bytes = std::vector<uint8_t>;

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
  const auto pieces = [most] { return most; };
  const DecodedStream outcome = Decode(stream, crc, [&] { return stream.size(); });
  Require(Decode(stream, crc, pieces) == outcome, "cutting the stream changes nothing");
  Require(Decode(stream, crc, pieces, true) == outcome, "putting payload in its place directly changes nothing");
  Bytes composed;
  for (const DecodedSegment& segment : outcome.segments) {
    const Bytes fpdu = ComposeFpdu(segment.header, segment.payload, crc);
    composed.insert(composed.end(), fpdu.begin(), fpdu.end());
  }
  Require(composed.size() <= stream.size(), "segments are written in as many bytes as they came in");
  Require(Decode(composed, crc, pieces) == DecodedStream{outcome.segments, std::nullopt, false},
          "segments that are written and read again are the same");
  return 0;
}
