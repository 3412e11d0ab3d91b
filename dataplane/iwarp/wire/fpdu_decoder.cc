// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/wire/fpdu_decoder.h"

#include <algorithm>
#include <optional>

#include "dataplane/iwarp/wire/bytes.h"
#include "dataplane/iwarp/wire/terminate.h"

namespace rdmabroker::iwarp {
namespace {

// Messages on the queues of read requests and Terminate are one segment of a known length (RFC 5040,
// sections 4.4, 4.8).
std::optional<TerminateCause> CheckShape(const SegmentHeader& header, size_t payload_length) {
  if (header.tagged || header.queue == kSendQueue) return std::nullopt;
  if (header.message_offset != 0) return kDdpInvalidMo;
  if (!header.last) return kDdpMessageTooLong;
  if (header.queue == kReadRequestQueue && payload_length != kReadRequestLength) {
    return payload_length > kReadRequestLength ? kDdpMessageTooLong : kRdmapStreamCatastrophic;
  }
  if (header.queue == kTerminateQueue && payload_length > kMaxTerminateLength) return kDdpMessageTooLong;
  return std::nullopt;
}

}  // namespace

FpduDecoder::Step FpduDecoder::Next(std::span<const uint8_t> input) {
  switch (state_) {
    case State::kHeader:
      return TakeHeader(input);
    case State::kPayload:
      return TakePayload(input);
    case State::kTrailer:
      return TakeTrailer(input);
    case State::kError:
      break;
  }
  return {Event::kError, 0};
}

FpduDecoder::Step FpduDecoder::TakeHeader(std::span<const uint8_t> input) {
  // The third byte tells how long the header is.
  size_t wanted = have_ > kUlpduLengthField ? kUlpduLengthField + SegmentHeaderLength(buffer_[kUlpduLengthField])
                                            : kUlpduLengthField + 1;
  size_t taken = 0;
  while (have_ < wanted) {
    const size_t piece = std::min(wanted - have_, input.size() - taken);
    if (piece == 0) return {Event::kNeedMore, taken};
    std::copy_n(input.begin() + static_cast<ptrdiff_t>(taken), piece, buffer_.begin() + static_cast<ptrdiff_t>(have_));
    have_ += piece;
    taken += piece;
    if (have_ == kUlpduLengthField + 1 && wanted == have_) {
      const size_t header_length = SegmentHeaderLength(buffer_[kUlpduLengthField]);
      has_raw_header_ = false;
      ulpdu_length_ = LoadU16(buffer_.data());
      if (ulpdu_length_ < header_length) return Fail(kMpaLengthMismatch, taken);
      wanted = kUlpduLengthField + header_length;
    }
  }
  has_raw_header_ = true;
  if (const auto cause = DecodeSegmentHeader(raw_header(), &header_)) return Fail(*cause, taken);
  if (const auto cause = CheckShape(header_, payload_length())) return Fail(*cause, taken);
  if (crc_) {
    sum_ = Crc32c();
    sum_.Add({buffer_.data(), wanted});
  }
  have_ = 0;
  payload_left_ = payload_length();
  state_ = payload_left_ == 0 ? State::kTrailer : State::kPayload;
  return {Event::kSegment, taken};
}

FpduDecoder::Step FpduDecoder::TakePayload(std::span<const uint8_t> input) {
  if (input.empty()) return {Event::kNeedMore, 0};
  const size_t taken = std::min(input.size(), payload_left_);
  PayloadPlaced(input.first(taken));
  return {Event::kPayload, taken};
}

void FpduDecoder::PayloadPlaced(std::span<const uint8_t> bytes) {
  if (crc_) sum_.Add(bytes);
  payload_left_ -= bytes.size();
  if (payload_left_ == 0) state_ = State::kTrailer;
}

FpduDecoder::Step FpduDecoder::TakeTrailer(std::span<const uint8_t> input) {
  const size_t pad = PadLength(ulpdu_length_);
  const size_t wanted = pad + kCrcLength;
  const size_t taken = std::min(wanted - have_, input.size());
  std::copy_n(input.begin(), taken, trailer_.begin() + static_cast<ptrdiff_t>(have_));
  have_ += taken;
  if (have_ < wanted) return {Event::kNeedMore, taken};
  if (crc_) {
    sum_.Add({trailer_.data(), pad});
    if (!sum_.Matches(trailer_.data() + pad)) return Fail(kMpaCrc, taken);
  }
  have_ = 0;
  state_ = State::kHeader;
  return {Event::kSegmentEnd, taken};
}

FpduDecoder::Step FpduDecoder::Fail(TerminateCause cause, size_t taken) {
  error_ = cause;
  state_ = State::kError;
  return {Event::kError, taken};
}

}  // namespace rdmabroker::iwarp
