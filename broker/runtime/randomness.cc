// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/randomness.h"

#include <sys/random.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace rdmabroker {

std::array<uint8_t, 16> RandomSecret() {
  // getrandom is not interrupted by signals for up to 256 bytes.
  static thread_local std::array<std::array<uint8_t, 16>, 16> secrets;
  static thread_local size_t left = 0;
  if (left == 0) {
    if (::getrandom(secrets.data(), sizeof secrets, 0) != static_cast<ssize_t>(sizeof secrets)) {
      std::perror("getrandom");
      std::abort();
    }
    left = secrets.size();
  }
  // It stays with its taker alone.
  return std::exchange(secrets.at(--left), {});
}

}  // namespace rdmabroker
