// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_WIRE_BYTES_H_
#define DATAPLANE_IWARP_WIRE_BYTES_H_

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace rdmabroker::iwarp {

// Big-endian integers, as every iWARP header has them. The caller answers for the room behind `at`.
inline void StoreU16(uint8_t* at, uint16_t value) {
  value = __builtin_bswap16(value);
  std::memcpy(at, &value, sizeof value);
}

inline void StoreU32(uint8_t* at, uint32_t value) {
  value = __builtin_bswap32(value);
  std::memcpy(at, &value, sizeof value);
}

inline void StoreU64(uint8_t* at, uint64_t value) {
  value = __builtin_bswap64(value);
  std::memcpy(at, &value, sizeof value);
}

inline uint16_t LoadU16(const uint8_t* at) {
  uint16_t value;
  std::memcpy(&value, at, sizeof value);
  return __builtin_bswap16(value);
}

inline uint32_t LoadU32(const uint8_t* at) {
  uint32_t value;
  std::memcpy(&value, at, sizeof value);
  return __builtin_bswap32(value);
}

inline uint64_t LoadU64(const uint8_t* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof value);
  return __builtin_bswap64(value);
}

inline std::span<const uint8_t> AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

inline std::string_view AsText(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_WIRE_BYTES_H_
