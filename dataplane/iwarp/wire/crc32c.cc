// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/wire/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <limits>

namespace rdmabroker::iwarp {

void Crc32c::Add(std::span<const uint8_t> bytes) {
  constexpr size_t kMost = std::numeric_limits<int>::max();
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kMost));
    // ISA-L's prototype lacks a const; it only reads.
    state_ = ::crc32_iscsi(const_cast<uint8_t*>(piece.data()), static_cast<int>(piece.size()), state_);
    bytes = bytes.subspan(piece.size());
  }
}

void Crc32c::Store(uint8_t* at) const {
  const uint32_t crc = value();
  for (int i = 0; i < 4; ++i) at[i] = static_cast<uint8_t>(crc >> (8 * i));
}

bool Crc32c::Matches(const uint8_t* at) const {
  uint8_t expected[4];
  Store(expected);
  return std::equal(expected, expected + 4, at);
}

}  // namespace rdmabroker::iwarp
