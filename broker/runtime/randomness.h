// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_RANDOMNESS_H_
#define BROKER_RUNTIME_RANDOMNESS_H_

#include <array>
#include <cstdint>

namespace rdmabroker {

// Returns 16 bytes from the kernel's randomness (getrandom(2)). A thread reads several secrets at a time. Do not call
// it in a forked child: parent and child would get the same secrets. The process ends if there is no randomness,
// because a secret that can be guessed is worse than no broker.
std::array<uint8_t, 16> RandomSecret();

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_RANDOMNESS_H_
