// SPDX-License-Identifier: Apache-2.0

#ifndef PROTO_RPC_TESTING_FUZZED_FRAMES_H_
#define PROTO_RPC_TESTING_FUZZED_FRAMES_H_

#include <cstdint>
#include <span>
#include <string>

#include "proto/rpc/headers.h"
#include "proto/rpc/inbound.h"
#include "proto/rpc/testing/frames.h"
#include "tests/fuzz.h"

namespace rdmabroker::rpc {

inline std::string PieceOf(FuzzInput& input, size_t longest) {
  const std::span<const uint8_t> piece = input.Piece(longest);
  return {piece.begin(), piece.end()};
}

// The next octets that a peer sends: frames that may be sent, frames that may not, or what is no frame at all.
// `headers` are good ones.
inline std::string FuzzedOctets(FuzzInput& input, const Headers& headers) {
  const uint8_t kind = input.Byte();
  const int32_t stream = input.Byte() % 16;
  const uint8_t flags = input.Byte();
  switch (kind % 6) {
    case 0:
      return HeadersFrame(stream, headers, flags & NGHTTP2_FLAG_END_STREAM);
    case 1:
      return DataFrame(stream, Framed(PieceOf(input, input.Byte())), flags & NGHTTP2_FLAG_END_STREAM);
    case 2:
      return DataFrame(stream, PieceOf(input, input.Byte()), flags);
    case 3:
      return Frame(input.Byte() % 12, flags, stream, PieceOf(input, input.Byte()));
    case 4: {
      Headers changed = headers;
      changed.push_back({PieceOf(input, input.Byte() % 16), PieceOf(input, input.Byte() % 16)});
      return HeadersFrame(stream, changed, flags & NGHTTP2_FLAG_END_STREAM);
    }
    default:
      return PieceOf(input, input.Byte());
  }
}

}  // namespace rdmabroker::rpc

#endif  // PROTO_RPC_TESTING_FUZZED_FRAMES_H_
