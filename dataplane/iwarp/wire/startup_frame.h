// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_WIRE_STARTUP_FRAME_H_
#define DATAPLANE_IWARP_WIRE_STARTUP_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace rdmabroker::iwarp {

inline constexpr size_t kStartupHeaderLength = 20;  // RFC 5044, section 7.1.
inline constexpr size_t kMaxStartupPrivateData = 512;
inline constexpr size_t kEnhancedDataLength = 4;  // RFC 6581, section 9.1.
// What a consumer may send where the frame also carries the enhanced data.
inline constexpr size_t kMaxConsumerPrivateData = kMaxStartupPrivateData - kEnhancedDataLength;
inline constexpr uint16_t kMaxReadLimit = 0x3FFF;  // 14 bits; this value itself says "not negotiated".
inline constexpr uint8_t kRevision1 = 1;           // RFC 5044.
inline constexpr uint8_t kRevision2 = 2;           // RFC 6581.

// The four bytes that RFC 6581 puts before the private data.
struct EnhancedData {
  bool peer_to_peer = false;  // A: the initiator sends a ready-to-receive message.
  bool rtr_send = false;      // B: as a zero-length send (RFC 6581: zero-length FULPDU).
  bool rtr_write = false;     // C: as a zero-length write.
  bool rtr_read = false;      // D: as a zero-length read.
  uint16_t inbound_read_limit = 0;
  uint16_t outbound_read_limit = 0;

  bool operator==(const EnhancedData&) const = default;
};

enum class StartupKind : uint8_t { kRequest, kReply };

// An MPA request or reply frame.
struct StartupFrame {
  StartupKind kind = StartupKind::kRequest;
  bool markers = false;  // M: the sender requires markers in what it receives.
  bool crc = true;       // C
  bool reject = false;   // R: only in a reply.
  uint8_t revision = kRevision2;
  std::optional<EnhancedData> enhanced = std::nullopt;  // S, from revision 2 on.
  std::string private_data = {};                        // Without the enhanced data.

  bool operator==(const StartupFrame&) const = default;
};

// INVALID_ARGUMENT if the private data does not fit.
absl::StatusOr<std::string> EncodeStartupFrame(const StartupFrame& frame);

struct DecodedStartupFrame {
  StartupFrame frame;
  size_t length = 0;  // Bytes of the input that were the frame; FPDUs may follow it.
};

// Nothing if the input is the beginning of a frame; INVALID_ARGUMENT as soon as it cannot be one, which for garbage is
// at its first wrong byte. Hostile input is welcome. Never wants more than kStartupHeaderLength +
// kMaxStartupPrivateData.
absl::StatusOr<std::optional<DecodedStartupFrame>> DecodeStartupFrame(std::span<const uint8_t> input, StartupKind kind);

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_WIRE_STARTUP_FRAME_H_
