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

}  // namespace rdmabroker
