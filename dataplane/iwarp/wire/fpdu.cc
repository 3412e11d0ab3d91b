// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/wire/fpdu.h"

#include <algorithm>

#include "dataplane/iwarp/wire/bytes.h"
#include "dataplane/iwarp/wire/crc32c.h"

namespace rdmabroker::iwarp {

size_t MaxPayloadLength(uint32_t fpdu_limit, size_t segment_header_length, bool markers) {
  size_t room = fpdu_limit;
  // One marker for each begun interval, and one more where the FPDU does not start with an interval.
  if (markers) room -= kMarkerLength * (fpdu_limit / kMarkerSpacing + 2);
  room = room / 4 * 4;
  return room - kUlpduLengthField - segment_header_length - kCrcLength;
}

void MarkerInserter::Append(std::span<const uint8_t> fpdu, bool crc, std::vector<uint8_t>* out) {
  const size_t begin = out->size();
  // Where the ULPDU length field stands in `out`: behind a marker that comes first, whose pointer is then zero.
  const size_t length_field = begin + (position_ % kMarkerSpacing == 0 ? kMarkerLength : 0);
  const auto append = [&](std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      if (position_ % kMarkerSpacing == 0) {
        uint8_t marker[kMarkerLength] = {};
        if (out->size() > length_field) StoreU16(marker + 2, static_cast<uint16_t>(out->size() - length_field));
        out->insert(out->end(), marker, marker + kMarkerLength);
        position_ += kMarkerLength;
      }
      const size_t piece = std::min<size_t>(bytes.size(), kMarkerSpacing - position_ % kMarkerSpacing);
      out->insert(out->end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(piece));
      position_ += piece;
      bytes = bytes.subspan(piece);
    }
  };
  append(fpdu.first(fpdu.size() - kCrcLength));
  append(fpdu.last(kCrcLength));
  if (!crc) return;
  // A marker right before the CRC field is covered; the field itself, being aligned, is never split.
  Crc32c sum;
  sum.Add({out->data() + begin, out->size() - begin - kCrcLength});
  sum.Store(out->data() + out->size() - kCrcLength);
}

std::vector<uint8_t> ComposeFpdu(const SegmentHeader& header, std::span<const uint8_t> payload, bool crc) {
  const size_t ulpdu_length = header.length() + payload.size();
  std::vector<uint8_t> fpdu(kUlpduLengthField + ulpdu_length + PadLength(ulpdu_length) + kCrcLength);
  StoreU16(fpdu.data(), static_cast<uint16_t>(ulpdu_length));
  EncodeSegmentHeader(header, fpdu.data() + kUlpduLengthField);
  std::copy(payload.begin(), payload.end(), fpdu.begin() + static_cast<ptrdiff_t>(kUlpduLengthField + header.length()));
  if (crc) {
    Crc32c sum;
    sum.Add({fpdu.data(), fpdu.size() - kCrcLength});
    sum.Store(fpdu.data() + fpdu.size() - kCrcLength);
  }
  return fpdu;
}

}  // namespace rdmabroker::iwarp
