// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/wire/startup_frame.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "dataplane/iwarp/wire/bytes.h"

namespace rdmabroker::iwarp {
namespace {

constexpr std::string_view kRequestKey = "MPA ID Req Frame";
constexpr std::string_view kReplyKey = "MPA ID Rep Frame";
constexpr size_t kKeyLength = 16;
static_assert(kRequestKey.size() == kKeyLength && kReplyKey.size() == kKeyLength);

constexpr uint8_t kMarkersFlag = 0x80;
constexpr uint8_t kCrcFlag = 0x40;
constexpr uint8_t kRejectFlag = 0x20;
constexpr uint8_t kEnhancedFlag = 0x10;

// The two upper bits of each half of the enhanced data.
constexpr uint16_t kUpperFlag = 0x8000;
constexpr uint16_t kLowerFlag = 0x4000;

std::string_view KeyOf(StartupKind kind) { return kind == StartupKind::kRequest ? kRequestKey : kReplyKey; }

absl::Status Bad(StartupKind kind, const std::string& what) {
  return absl::InvalidArgumentError((kind == StartupKind::kRequest ? "MPA request: " : "MPA reply: ") + what);
}

void EncodeEnhanced(const EnhancedData& data, uint8_t* at) {
  StoreU16(at, static_cast<uint16_t>((data.peer_to_peer ? kUpperFlag : 0) | (data.rtr_send ? kLowerFlag : 0) |
                                     (data.inbound_read_limit & kMaxReadLimit)));
  StoreU16(at + 2, static_cast<uint16_t>((data.rtr_write ? kUpperFlag : 0) | (data.rtr_read ? kLowerFlag : 0) |
                                         (data.outbound_read_limit & kMaxReadLimit)));
}

EnhancedData DecodeEnhanced(const uint8_t* at) {
  const uint16_t inbound = LoadU16(at);
  const uint16_t outbound = LoadU16(at + 2);
  return {.peer_to_peer = (inbound & kUpperFlag) != 0,
          .rtr_send = (inbound & kLowerFlag) != 0,
          .rtr_write = (outbound & kUpperFlag) != 0,
          .rtr_read = (outbound & kLowerFlag) != 0,
          .inbound_read_limit = static_cast<uint16_t>(inbound & kMaxReadLimit),
          .outbound_read_limit = static_cast<uint16_t>(outbound & kMaxReadLimit)};
}

}  // namespace

absl::StatusOr<std::string> EncodeStartupFrame(const StartupFrame& frame) {
  const size_t enhanced_length = frame.enhanced ? kEnhancedDataLength : 0;
  if (frame.private_data.size() + enhanced_length > kMaxStartupPrivateData) {
    return Bad(frame.kind, "private data has " + std::to_string(frame.private_data.size()) + " bytes, at most " +
                               std::to_string(kMaxStartupPrivateData - enhanced_length) + " fit");
  }
  std::string out(KeyOf(frame.kind));
  uint8_t rest[4 + kEnhancedDataLength] = {};
  rest[0] = static_cast<uint8_t>((frame.markers ? kMarkersFlag : 0) | (frame.crc ? kCrcFlag : 0) |
                                 (frame.reject ? kRejectFlag : 0) | (frame.enhanced ? kEnhancedFlag : 0));
  rest[1] = frame.revision;
  StoreU16(rest + 2, static_cast<uint16_t>(frame.private_data.size() + enhanced_length));
  if (frame.enhanced) EncodeEnhanced(*frame.enhanced, rest + 4);
  out += AsText({rest, 4 + enhanced_length});
  return out + frame.private_data;
}

absl::StatusOr<std::optional<DecodedStartupFrame>> DecodeStartupFrame(std::span<const uint8_t> input,
                                                                      StartupKind kind) {
  const std::string_view text = AsText(input);
  const size_t key = std::min(input.size(), kKeyLength);
  if (text.substr(0, key) != KeyOf(kind).substr(0, key)) return Bad(kind, "the key is wrong: the peer speaks no MPA");
  if (input.size() < kStartupHeaderLength) return std::nullopt;
  DecodedStartupFrame decoded;
  StartupFrame& frame = decoded.frame;
  const uint8_t flags = input[kKeyLength];
  frame.kind = kind;
  frame.markers = (flags & kMarkersFlag) != 0;
  frame.crc = (flags & kCrcFlag) != 0;
  frame.reject = kind == StartupKind::kReply && (flags & kRejectFlag) != 0;
  frame.revision = input[kKeyLength + 1];
  if (frame.revision < kRevision1 || frame.revision > kRevision2) {
    return Bad(kind, "revision " + std::to_string(frame.revision) + " is not supported, only 1 and 2");
  }
  const size_t data_length = LoadU16(input.data() + kKeyLength + 2);
  if (data_length > kMaxStartupPrivateData) {
    return Bad(kind, "private data of " + std::to_string(data_length) + " bytes, at most " +
                         std::to_string(kMaxStartupPrivateData) + " are allowed");
  }
  const bool enhanced = frame.revision >= kRevision2 && (flags & kEnhancedFlag) != 0;
  if (enhanced && data_length < kEnhancedDataLength)
    return Bad(kind, "too short for the enhanced data that it announces");
  if (input.size() < kStartupHeaderLength + data_length) return std::nullopt;
  decoded.length = kStartupHeaderLength + data_length;
  const size_t skip = enhanced ? kEnhancedDataLength : 0;
  if (enhanced) frame.enhanced = DecodeEnhanced(input.data() + kStartupHeaderLength);
  frame.private_data = text.substr(kStartupHeaderLength + skip, data_length - skip);
  return decoded;
}

}  // namespace rdmabroker::iwarp
