// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_WIRE_FPDU_DECODER_H_
#define DATAPLANE_IWARP_WIRE_FPDU_DECODER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/iwarp/wire/crc32c.h"
#include "dataplane/iwarp/wire/fpdu.h"
#include "dataplane/iwarp/wire/protocol_error.h"
#include "dataplane/iwarp/wire/segment.h"

namespace rdmabroker::iwarp {

// Takes a stream of FPDUs apart, however its bytes are cut. The bytes are hostile. The decoder keeps no payload: who
// drives it puts payload where it belongs, either from the input or straight from the socket (PayloadPlaced). It knows
// no markers, for this side never asks for them. What the numbers mean (STag, MSN, offsets) is the caller's to check.
// The CRC comes last on the wire, so payload is placed before it is known to be intact; a message must count as
// delivered only at kSegmentEnd.
class FpduDecoder {
 public:
  explicit FpduDecoder(bool crc) : crc_(crc) {}

  enum class Event {
    kNeedMore,    // All of the input was taken.
    kSegment,     // A header is complete: header() and payload_left().
    kPayload,     // The bytes taken are payload.
    kSegmentEnd,  // The segment is complete and its CRC, if in use, right.
    kError,       // error(); the stream is dead and every further call says so again.
  };
  struct Step {
    Event event;
    size_t taken;  // Bytes taken from the front of the input.
  };

  Step Next(std::span<const uint8_t> input);

  // The caller has read `bytes` (at most payload_left()) of payload to where they belong.
  void PayloadPlaced(std::span<const uint8_t> bytes);

  const SegmentHeader& header() const { return header_; }
  // Payload of the segment, and what is still to come of it.
  size_t payload_length() const { return ulpdu_length_ - header_.length(); }
  size_t payload_left() const { return payload_left_; }
  TerminateCause error() const { return error_; }
  // Whether the stream stands within an FPDU: an end of the stream here is not a graceful one.
  bool within_fpdu() const { return state_ != State::kHeader || have_ != 0; }

  // For a Terminate message about the segment: its length and its header as it came. Only once a header is complete.
  uint16_t ulpdu_length() const { return ulpdu_length_; }
  std::span<const uint8_t> raw_header() const {
    return {buffer_.data() + kUlpduLengthField, SegmentHeaderLength(buffer_[kUlpduLengthField])};
  }
  bool has_raw_header() const { return has_raw_header_; }

 private:
  enum class State { kHeader, kPayload, kTrailer, kError };

  Step TakeHeader(std::span<const uint8_t> input);
  Step TakePayload(std::span<const uint8_t> input);
  Step TakeTrailer(std::span<const uint8_t> input);
  Step Fail(TerminateCause cause, size_t taken);

  const bool crc_;
  bool has_raw_header_ = false;
  State state_ = State::kHeader;
  uint16_t ulpdu_length_ = 0;
  size_t have_ = 0;  // Bytes of the header or the trailer so far.
  size_t payload_left_ = 0;
  SegmentHeader header_;
  TerminateCause error_;
  Crc32c sum_;
  std::array<uint8_t, kMaxFpduHeaderLength> buffer_ = {};
  std::array<uint8_t, kMaxFpduTrailerLength> trailer_ = {};
};

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_WIRE_FPDU_DECODER_H_
