// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_RANDOM_SEED_H_
#define TESTS_RANDOM_SEED_H_

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace rdmabroker {

// RDMA_BROKER_SEED of the environment, else a number that differs each time. A test prints what it got where it fails.
inline uint32_t RandomSeed() {
  const char* given = std::getenv("RDMA_BROKER_SEED");
  return given == nullptr ? std::random_device()() : static_cast<uint32_t>(std::stoul(given));
}

}  // namespace rdmabroker

#endif  // TESTS_RANDOM_SEED_H_
