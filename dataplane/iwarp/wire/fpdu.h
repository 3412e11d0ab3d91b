// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_WIRE_FPDU_H_
#define DATAPLANE_IWARP_WIRE_FPDU_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/iwarp/wire/segment.h"

namespace rdmabroker::iwarp {

// MPA's framing of one DDP segment (RFC 5044, section 4.1): length, ULPDU, pad to four bytes, CRC. The CRC field is
// there even where no CRC is used; it is then sent as zero and not looked at.
inline constexpr size_t kUlpduLengthField = 2;
inline constexpr size_t kCrcLength = 4;
inline constexpr size_t kMaxFpduHeaderLength = kUlpduLengthField + kMaxSegmentHeaderLength;
inline constexpr size_t kMaxFpduTrailerLength = 3 + kCrcLength;

// The longest ULPDU that this side sends: the largest 16-bit length that needs no pad.
inline constexpr size_t kMaxSentUlpduLength = 65534;
inline constexpr uint32_t kMaxFpduLength = kUlpduLengthField + kMaxSentUlpduLength + kCrcLength;
// The default MSS of IPv4 (RFC 9293, section 3.7.1): every path carries an FPDU of this length in one segment. MPA
// asks for room for at least 128 bytes of ULPDU (RFC 5044, section 3.2).
inline constexpr uint32_t kMinFpduLength = 536;

inline constexpr size_t kMarkerSpacing = 512;  // RFC 5044, section 4.3.
inline constexpr size_t kMarkerLength = 4;

constexpr size_t PadLength(size_t ulpdu_length) { return (4 - (kUlpduLengthField + ulpdu_length) % 4) % 4; }

// How much payload one FPDU of at most `fpdu_limit` bytes carries behind a segment header of that length: a multiple of
// four, so that only a message's last FPDU is padded. `fpdu_limit` lies in [kMinFpduLength, kMaxFpduLength].
size_t MaxPayloadLength(uint32_t fpdu_limit, size_t segment_header_length, bool markers);

// Puts the markers into the stream of FPDUs that goes to a peer which requires them. Position 0 is the first byte after
// the start-up frame; the first marker stands there.
class MarkerInserter {
 public:
  explicit MarkerInserter(uint64_t position) : position_(position) {}

  // `fpdu` is a whole one without markers, its CRC field not yet filled. Appends it with markers and, if `crc`, with
  // the CRC, which covers the markers too.
  void Append(std::span<const uint8_t> fpdu, bool crc, std::vector<uint8_t>* out);
  // Bytes of the stream so far, markers included.
  uint64_t position() const { return position_; }

 private:
  uint64_t position_;
};

// A whole FPDU in one piece, without markers. For messages that are rare and small; the data path gathers instead.
std::vector<uint8_t> ComposeFpdu(const SegmentHeader& header, std::span<const uint8_t> payload, bool crc);

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_WIRE_FPDU_H_
