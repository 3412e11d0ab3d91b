// SPDX-License-Identifier: Apache-2.0

#ifndef PROTO_RPC_FRAME_SCAN_H_
#define PROTO_RPC_FRAME_SCAN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rdmabroker::rpc {

// The most octets of a frame's payload while no end allows more (RFC 9113 section 4.2).
inline constexpr uint32_t kLongestFrame = 16384;

// The length and type of a frame's header (RFC 9113 section 4.1).
struct FrameHeader {
  uint32_t length = 0;  // Octets of the payload, as the peer says: may exceed kLongestFrame.
  uint8_t type = 0;
  uint8_t flags = 0;
};

// Finds the frame headers in a connection's octets. nghttp2 has no callback for frames of unknown types or frames that
// it ignores, so its caller could not count them.
class FrameScan {
 public:
  struct Step {
    size_t octets = 0;                 // How many were read.
    std::optional<FrameHeader> frame;  // The frame whose header ends with them.
  };

  // `preface`: the number of octets before the first frame.
  explicit FrameScan(size_t preface) : skip_(preface) {}

  // Reads up to the end of a frame's header, or all.
  Step Next(std::string_view octets);

 private:
  size_t skip_;  // Octets up to the next header.
  size_t size_ = 0;
  std::array<uint8_t, 9> header_;
};

}  // namespace rdmabroker::rpc

#endif  // PROTO_RPC_FRAME_SCAN_H_
