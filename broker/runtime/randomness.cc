// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/randomness.h"

#include <sys/random.h>

#include <cstdio>
#include <cstdlib>

namespace rdmabroker {

std::array<uint8_t, 16> RandomSecret() {
  std::array<uint8_t, 16> secret = {};
  if (::getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) {
    std::perror("getrandom");
    std::abort();
  }
  return secret;
}

bool SecretsEqual(const std::array<uint8_t, 16>& one, const std::array<uint8_t, 16>& other) {
  uint8_t difference = 0;
  for (size_t i = 0; i < one.size(); ++i) difference = static_cast<uint8_t>(difference | (one[i] ^ other[i]));
  return difference == 0;
}

}  // namespace rdmabroker
