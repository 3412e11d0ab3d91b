// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/wire/terminate.h"

#include "dataplane/iwarp/wire/bytes.h"

namespace rdmabroker::iwarp {
namespace {

constexpr size_t kControlLength = 4;
constexpr uint8_t kSegmentLengthPresent = 0x80;  // M
constexpr uint8_t kSegmentHeaderPresent = 0x40;  // D
constexpr uint8_t kReadRequestPresent = 0x20;    // R

void Append(std::vector<uint8_t>& out, std::string_view text) { out.insert(out.end(), text.begin(), text.end()); }

absl::Status TooShort(std::string_view part) {
  return absl::InvalidArgumentError("Terminate message: shorter than its flags say; missing: " + std::string(part));
}

}  // namespace

std::vector<uint8_t> EncodeTerminate(const TerminateMessage& message) {
  std::vector<uint8_t> out(kControlLength);
  StoreU16(out.data(), message.cause.number());
  out[2] = static_cast<uint8_t>((message.segment_length ? kSegmentLengthPresent : 0) |
                                (message.segment_header.empty() ? 0 : kSegmentHeaderPresent) |
                                (message.read_request.empty() ? 0 : kReadRequestPresent));
  if (message.segment_length) {
    out.resize(kControlLength + 2);
    StoreU16(out.data() + kControlLength, *message.segment_length);
  }
  Append(out, message.segment_header);
  Append(out, message.read_request);
  return out;
}

absl::StatusOr<TerminateMessage> DecodeTerminate(std::span<const uint8_t> payload) {
  if (payload.size() < kControlLength) return TooShort("the control field");
  TerminateMessage message;
  message.cause = {static_cast<uint8_t>(payload[0] >> 4), static_cast<uint8_t>(payload[0] & 0x0F), payload[1]};
  const uint8_t flags = payload[2];
  payload = payload.subspan(kControlLength);
  if ((flags & kSegmentLengthPresent) != 0) {
    if (payload.size() < 2) return TooShort("the segment length");
    message.segment_length = LoadU16(payload.data());
    payload = payload.subspan(2);
  }
  if ((flags & kSegmentHeaderPresent) != 0) {
    const size_t length = payload.empty() ? kTaggedHeaderLength : SegmentHeaderLength(payload[0]);
    if (payload.size() < length) return TooShort("the segment's header");
    message.segment_header = AsText(payload.first(length));
    payload = payload.subspan(length);
  }
  if ((flags & kReadRequestPresent) != 0) {
    if (payload.size() < kReadRequestLength) return TooShort("the read request");
    message.read_request = AsText(payload.first(kReadRequestLength));
    payload = payload.subspan(kReadRequestLength);
  }
  if (!payload.empty()) return absl::InvalidArgumentError("Terminate message: longer than its flags say");
  return message;
}

}  // namespace rdmabroker::iwarp
