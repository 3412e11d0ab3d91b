// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_BACK_OFF_H_
#define CLIENT_BACK_OFF_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>

namespace rdmabroker::client {

// How long to wait before another attempt: `first`, doubled for each that there was `before`, but no more than
// `longest`; and by `random` up to twice that, so that those who were turned away together do not come again together.
inline std::chrono::milliseconds BackOff(std::chrono::milliseconds first, std::chrono::milliseconds longest, int before,
                                         uint64_t random) {
  // Beyond so many it would not fit.
  constexpr int kMostDoublings = 20;
  const std::chrono::milliseconds delay = std::min(first * (1 << std::min(before, kMostDoublings)), longest);
  return delay + std::chrono::milliseconds(random % static_cast<uint64_t>(delay.count()));
}

// The waits of one who tries again and again: BackOff's, with randomness of its own, so that it shares them with
// nobody.
class RandomBackOff {
 public:
  explicit RandomBackOff(uint32_t seed = std::random_device()()) : random_(seed) {}
  std::chrono::milliseconds operator()(std::chrono::milliseconds first, std::chrono::milliseconds longest, int before) {
    return BackOff(first, longest, before, random_());
  }

 private:
  std::minstd_rand random_;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_BACK_OFF_H_
