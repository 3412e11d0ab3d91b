// SPDX-License-Identifier: Apache-2.0

#ifndef PROTO_RPC_TESTING_FRAMES_H_
#define PROTO_RPC_TESTING_FRAMES_H_

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/rpc/headers.h"

namespace rdmabroker::rpc {

// Frames of HTTP/2 as nghttp2 would not write them.

inline std::string BigEndian(uint64_t number, size_t octets) {
  std::string text;
  for (size_t i = octets; i > 0; --i) text += static_cast<char>(number >> (8 * (i - 1)));
  return text;
}

inline std::string Frame(uint8_t type, uint8_t flags, int32_t stream, std::string_view payload) {
  std::string frame = BigEndian(payload.size(), 3);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  return frame.append(BigEndian(static_cast<uint32_t>(stream), 4)).append(payload);
}

// A client's first octets.
inline std::string Preface() { return std::string(NGHTTP2_CLIENT_MAGIC) + Frame(NGHTTP2_SETTINGS, 0, 0, ""); }
inline std::string SettingsAck() { return Frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, ""); }

// HPACK's literals that are not indexed, of names and values shorter than 127 octets.
inline std::string HeaderBlock(const Headers& headers) {
  std::string block;
  for (const auto& [name, value] : headers) {
    block += '\0';
    block.append(BigEndian(name.size(), 1)).append(name).append(BigEndian(value.size(), 1)).append(value);
  }
  return block;
}

inline std::string HeadersFrame(int32_t stream, const Headers& headers, uint8_t flags = 0) {
  return Frame(NGHTTP2_HEADERS, flags | NGHTTP2_FLAG_END_HEADERS, stream, HeaderBlock(headers));
}
inline std::string DataFrame(int32_t stream, std::string_view data, uint8_t flags = 0) {
  return Frame(NGHTTP2_DATA, flags, stream, data);
}
inline std::string ResetFrame(int32_t stream, uint32_t error) {
  return Frame(NGHTTP2_RST_STREAM, 0, stream, BigEndian(error, 4));
}

// What a client begins a call with.
inline Headers CallHeaders(const std::string& path) {
  return {{":method", "POST"},         {":scheme", "http"}, {":path", path},
          {":authority", "localhost"}, {"te", "trailers"},  {"content-type", "application/grpc"}};
}

}  // namespace rdmabroker::rpc

#endif  // PROTO_RPC_TESTING_FRAMES_H_
