// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_WIRE_TERMINATE_H_
#define DATAPLANE_IWARP_WIRE_TERMINATE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dataplane/iwarp/wire/protocol_error.h"
#include "dataplane/iwarp/wire/segment.h"

namespace rdmabroker::iwarp {

// The payload of a Terminate message (RFC 5040, section 4.8). Copies of the segment that broke the rules are optional.
struct TerminateMessage {
  TerminateCause cause;
  std::optional<uint16_t> segment_length;  // Flag M: the ULPDU length of the segment.
  std::string segment_header;              // Flag D if not empty: the segment's DDP header, 14 or 18 bytes.
  std::string read_request;                // Flag R if not empty: the payload of an RDMA Read Request, 28 bytes.

  bool operator==(const TerminateMessage&) const = default;
};

// Control field, segment length, the longer header and a read request.
inline constexpr size_t kMaxTerminateLength = 4 + 2 + kUntaggedHeaderLength + kReadRequestLength;

std::vector<uint8_t> EncodeTerminate(const TerminateMessage& message);

// INVALID_ARGUMENT if flags and length disagree. Reserved bits are ignored.
absl::StatusOr<TerminateMessage> DecodeTerminate(std::span<const uint8_t> payload);

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_WIRE_TERMINATE_H_
