// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_WIRE_DECODED_STREAM_FOR_TEST_H_
#define DATAPLANE_IWARP_WIRE_DECODED_STREAM_FOR_TEST_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "dataplane/iwarp/wire/fpdu_decoder.h"
#include "dataplane/iwarp/wire/terminate.h"

namespace rdmabroker::iwarp {

struct DecodedSegment {
  SegmentHeader header;
  std::vector<uint8_t> payload;

  bool operator==(const DecodedSegment&) const = default;
};

// What a decoder has made of a stream.
struct DecodedStream {
  std::vector<DecodedSegment> segments;  // Complete ones.
  std::optional<TerminateCause> error;
  bool within_fpdu = false;

  bool operator==(const DecodedStream&) const = default;
};

// Feeds the stream in pieces of at most the length that `most` says each time; `direct` puts payload in by
// PayloadPlaced. A decoder that breaks its word ends the process (Require in tests/fuzz.h).
DecodedStream Decode(const std::vector<uint8_t>& stream, bool crc, const std::function<size_t()>& most,
                     bool direct = false);

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_WIRE_DECODED_STREAM_FOR_TEST_H_
