// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_RANDOMNESS_H_
#define BROKER_RUNTIME_RANDOMNESS_H_

#include <array>
#include <cstdint>

namespace rdmabroker {

// 16 bytes from the kernel's randomness (getrandom(2)), of which a thread takes several secrets' at a time: a forked
// child, which would have the same, takes none. The process ends where there is none: a secret that can be guessed is
// worse than no broker.
std::array<uint8_t, 16> RandomSecret();

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_RANDOMNESS_H_
