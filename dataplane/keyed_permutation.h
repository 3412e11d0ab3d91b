// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_KEYED_PERMUTATION_H_
#define DATAPLANE_KEYED_PERMUTATION_H_

#include <array>
#include <cstdint>

namespace rdmabroker {

// Numbers of 32 bits in an order that only who has the key can tell: each number for exactly one other. The cipher is
// Speck32/64 (Beaulieu et al., "The SIMON and SPECK Families of Lightweight Block Ciphers", 2013). It keeps others from
// guessing ids; nothing that must stay secret for long may rest on it.
class KeyedPermutation {
 public:
  explicit KeyedPermutation(uint64_t key);

  [[nodiscard]] uint32_t Of(uint32_t number) const;
  // The number whose Of that is.
  [[nodiscard]] uint32_t Before(uint32_t permuted) const;

  bool operator==(const KeyedPermutation&) const = default;

 private:
  static constexpr int kRounds = 22;

  std::array<uint16_t, kRounds> round_keys_;
};

}  // namespace rdmabroker

#endif  // DATAPLANE_KEYED_PERMUTATION_H_
