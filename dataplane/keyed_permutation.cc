// SPDX-License-Identifier: Apache-2.0

#include "dataplane/keyed_permutation.h"

#include <bit>
#include <cstddef>

namespace rdmabroker {
namespace {

// As the paper has them for words of 16 bits.
constexpr int kAlpha = 7;
constexpr int kBeta = 2;
constexpr int kKeyWords = 4;

// One round, which is also a step of the key schedule.
void Round(uint16_t key, uint16_t& left, uint16_t& right) {
  left = static_cast<uint16_t>((std::rotr(left, kAlpha) + right) ^ key);
  right = static_cast<uint16_t>(std::rotl(right, kBeta) ^ left);
}

void RoundBack(uint16_t key, uint16_t& left, uint16_t& right) {
  right = std::rotr(static_cast<uint16_t>(left ^ right), kBeta);
  left = std::rotl(static_cast<uint16_t>((left ^ key) - right), kAlpha);
}

}  // namespace

KeyedPermutation::KeyedPermutation(uint64_t key) {
  std::array<uint16_t, kKeyWords> words;
  for (uint16_t& word : words) {
    word = static_cast<uint16_t>(key);
    key >>= 16;
  }
  for (int round = 0; round < kRounds; ++round) {
    round_keys_[static_cast<size_t>(round)] = words[0];
    const auto of_round = static_cast<size_t>(1 + round % (kKeyWords - 1));
    Round(static_cast<uint16_t>(round), words[of_round], words[0]);
  }
}

uint32_t KeyedPermutation::Of(uint32_t number) const {
  auto left = static_cast<uint16_t>(number >> 16);
  auto right = static_cast<uint16_t>(number);
  for (const uint16_t key : round_keys_) Round(key, left, right);
  return uint32_t{left} << 16 | right;
}

uint32_t KeyedPermutation::Before(uint32_t permuted) const {
  auto left = static_cast<uint16_t>(permuted >> 16);
  auto right = static_cast<uint16_t>(permuted);
  for (auto key = round_keys_.rbegin(); key != round_keys_.rend(); ++key) RoundBack(*key, left, right);
  return uint32_t{left} << 16 | right;
}

}  // namespace rdmabroker
