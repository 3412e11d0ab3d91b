// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/wire/segment.h"

#include "dataplane/iwarp/wire/bytes.h"

namespace rdmabroker::iwarp {
namespace {

// DDP control field: T, L, four reserved bits, two bits of version (RFC 5041, section 4.1).
constexpr uint8_t kTagged = 0x80;
constexpr uint8_t kLast = 0x40;
constexpr uint8_t kDdpVersionMask = 0x03;
constexpr uint8_t kDdpVersion = 1;

// RDMAP control field: two bits of version, two reserved, four of opcode (RFC 5040, section 4.1).
constexpr uint8_t kRdmapVersionShift = 6;
constexpr uint8_t kRdmapVersion = 1;
constexpr uint8_t kOpcodeMask = 0x0F;

bool QueueFits(const SegmentHeader& header) {
  switch (header.queue) {
    case kSendQueue:
      return IsSend(header.opcode);
    case kReadRequestQueue:
      return header.opcode == Opcode::kReadRequest;
    default:
      return header.opcode == Opcode::kTerminate;
  }
}

}  // namespace

void EncodeSegmentHeader(const SegmentHeader& header, uint8_t* at) {
  at[0] = static_cast<uint8_t>((header.tagged ? kTagged : 0) | (header.last ? kLast : 0) | kDdpVersion);
  at[1] = static_cast<uint8_t>(kRdmapVersion << kRdmapVersionShift | static_cast<uint8_t>(header.opcode));
  if (header.tagged) {
    StoreU32(at + 2, header.stag);
    StoreU64(at + 6, header.tagged_offset);
    return;
  }
  StoreU32(at + 2, header.invalidate_stag);
  StoreU32(at + 6, header.queue);
  StoreU32(at + 10, header.msn);
  StoreU32(at + 14, header.message_offset);
}

std::optional<TerminateCause> DecodeSegmentHeader(std::span<const uint8_t> bytes, SegmentHeader* header) {
  const uint8_t* const at = bytes.data();
  *header = SegmentHeader();
  header->tagged = (at[0] & kTagged) != 0;
  header->last = (at[0] & kLast) != 0;
  if ((at[0] & kDdpVersionMask) != kDdpVersion) {
    return header->tagged ? kDdpTaggedInvalidVersion : kDdpUntaggedInvalidVersion;
  }
  if (header->tagged) {
    header->stag = LoadU32(at + 2);
    header->tagged_offset = LoadU64(at + 6);
  } else {
    header->invalidate_stag = LoadU32(at + 2);
    header->queue = LoadU32(at + 6);
    header->msn = LoadU32(at + 10);
    header->message_offset = LoadU32(at + 14);
    if (header->queue >= kQueueCount) return kDdpInvalidQueue;
  }
  if (at[1] >> kRdmapVersionShift != kRdmapVersion) return kRdmapInvalidVersion;
  const uint8_t opcode = at[1] & kOpcodeMask;
  if (opcode > static_cast<uint8_t>(Opcode::kTerminate)) return kRdmapUnexpectedOpcode;
  header->opcode = static_cast<Opcode>(opcode);
  const bool tagged_opcode = header->opcode == Opcode::kWrite || header->opcode == Opcode::kReadResponse;
  if (header->tagged != tagged_opcode || (!header->tagged && !QueueFits(*header))) return kRdmapUnexpectedOpcode;
  return std::nullopt;
}

void EncodeReadRequest(const ReadRequest& request, uint8_t* at) {
  StoreU32(at, request.sink_stag);
  StoreU64(at + 4, request.sink_offset);
  StoreU32(at + 12, request.length);
  StoreU32(at + 16, request.source_stag);
  StoreU64(at + 20, request.source_offset);
}

ReadRequest DecodeReadRequest(std::span<const uint8_t, kReadRequestLength> bytes) {
  const uint8_t* const at = bytes.data();
  return {LoadU32(at), LoadU64(at + 4), LoadU32(at + 12), LoadU32(at + 16), LoadU64(at + 20)};
}

}  // namespace rdmabroker::iwarp
