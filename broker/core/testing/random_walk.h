// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_TESTING_RANDOM_WALK_H_
#define BROKER_CORE_TESTING_RANDOM_WALK_H_

#include <cstdint>
#include <random>

#include "broker/core/broker_core.h"

namespace rdmabroker {

// A core to which events of the alphabet happen by chance.
class RandomWalk {
 public:
  explicit RandomWalk(uint32_t seed);
  void Step();
  BrokerCore& core() { return core_; }

 private:
  BrokerCore core_{Limits{}};
  std::mt19937 random_;
  uint64_t steps_ = 0;
};

}  // namespace rdmabroker

#endif  // BROKER_CORE_TESTING_RANDOM_WALK_H_
