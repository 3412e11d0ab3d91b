// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_SECRETS_H_
#define BROKER_CORE_SECRETS_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace rdmabroker {

// What proves that a returning client is the one that the session was made for. Random; never logged.
using SessionSecret = std::array<uint8_t, 16>;

// Where a device's client fetches the established connection's transport: a one-use secret that the hand-off socket
// takes. Absent where the queue pair itself is the transport.
using HandoffSecret = std::array<uint8_t, 16>;

// Compares in time that does not depend on where the first difference is.
inline bool SecretsEqual(const std::array<uint8_t, 16>& one, const std::array<uint8_t, 16>& other) {
  uint8_t difference = 0;
  for (size_t i = 0; i < one.size(); ++i) difference = static_cast<uint8_t>(difference | (one[i] ^ other[i]));
  return difference == 0;
}

}  // namespace rdmabroker

#endif  // BROKER_CORE_SECRETS_H_
