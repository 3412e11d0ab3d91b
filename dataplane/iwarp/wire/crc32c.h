// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_WIRE_CRC32C_H_
#define DATAPLANE_IWARP_WIRE_CRC32C_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace rdmabroker::iwarp {

// The CRC-32C of RFC 5044, section 4.4, over bytes that come in pieces.
class Crc32c {
 public:
  void Add(std::span<const uint8_t> bytes);
  // Writes the four bytes as they travel: the bit order of iSCSI puts the least significant byte first.
  void Store(uint8_t* at) const;
  bool Matches(const uint8_t* at) const;
  uint32_t value() const { return ~state_; }

 private:
  uint32_t state_ = 0xFFFFFFFF;
};

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_WIRE_CRC32C_H_
