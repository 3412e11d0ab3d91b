// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_WIRE_SEGMENT_H_
#define DATAPLANE_IWARP_WIRE_SEGMENT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/iwarp/wire/protocol_error.h"

namespace rdmabroker::iwarp {

// RDMAP's operations (RFC 5040, section 4.1).
enum class Opcode : uint8_t {
  kWrite = 0,
  kReadRequest = 1,
  kReadResponse = 2,
  kSend = 3,
  kSendInvalidate = 4,
  kSendSolicited = 5,
  kSendSolicitedInvalidate = 6,
  kTerminate = 7,
};

constexpr bool IsSend(Opcode opcode) { return opcode >= Opcode::kSend && opcode <= Opcode::kSendSolicitedInvalidate; }
constexpr bool Invalidates(Opcode opcode) {
  return opcode == Opcode::kSendInvalidate || opcode == Opcode::kSendSolicitedInvalidate;
}
constexpr bool IsSolicited(Opcode opcode) {
  return opcode == Opcode::kSendSolicited || opcode == Opcode::kSendSolicitedInvalidate;
}

// DDP's untagged queues (RFC 5040, section 4): sends, read requests, Terminate.
inline constexpr uint32_t kSendQueue = 0;
inline constexpr uint32_t kReadRequestQueue = 1;
inline constexpr uint32_t kTerminateQueue = 2;
inline constexpr size_t kQueueCount = 3;

inline constexpr size_t kTaggedHeaderLength = 14;    // RFC 5041, section 4.2.
inline constexpr size_t kUntaggedHeaderLength = 18;  // RFC 5041, section 4.3.
inline constexpr size_t kMaxSegmentHeaderLength = kUntaggedHeaderLength;

// The header of a DDP segment with RDMAP's control field in it.
struct SegmentHeader {
  bool tagged = false;
  bool last = false;
  Opcode opcode = Opcode::kSend;
  uint32_t stag = 0;             // Tagged: the buffer.
  uint64_t tagged_offset = 0;    // Tagged: TO of the first payload byte.
  uint32_t invalidate_stag = 0;  // Untagged, sends that invalidate.
  uint32_t queue = 0;            // Untagged.
  uint32_t msn = 0;              // Untagged: message sequence number, from 1.
  uint32_t message_offset = 0;   // Untagged: of the first payload byte.

  bool operator==(const SegmentHeader&) const = default;
  size_t length() const { return tagged ? kTaggedHeaderLength : kUntaggedHeaderLength; }
};

// Writes header.length() bytes.
void EncodeSegmentHeader(const SegmentHeader& header, uint8_t* at);

// What length the header that starts with this byte has.
constexpr size_t SegmentHeaderLength(uint8_t first_byte) {
  return (first_byte & 0x80) != 0 ? kTaggedHeaderLength : kUntaggedHeaderLength;
}

// `bytes` has SegmentHeaderLength(bytes[0]) bytes. Checks versions, the opcode, and that opcode, tag and queue fit
// together; bits that the RFCs reserve are ignored, as they ask. Returns the violation, or nothing.
std::optional<TerminateCause> DecodeSegmentHeader(std::span<const uint8_t> bytes, SegmentHeader* header);

// The payload of an RDMA Read Request message (RFC 5040, section 4.4).
struct ReadRequest {
  uint32_t sink_stag = 0;
  uint64_t sink_offset = 0;
  uint32_t length = 0;
  uint32_t source_stag = 0;
  uint64_t source_offset = 0;

  bool operator==(const ReadRequest&) const = default;
};

inline constexpr size_t kReadRequestLength = 28;

void EncodeReadRequest(const ReadRequest& request, uint8_t* at);
ReadRequest DecodeReadRequest(std::span<const uint8_t, kReadRequestLength> bytes);

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_WIRE_SEGMENT_H_
