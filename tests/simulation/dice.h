// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SIMULATION_DICE_H_
#define TESTS_SIMULATION_DICE_H_

#include <cstdint>
#include <random>
#include <vector>

namespace rdmabroker {

// Where all chance of a simulation comes from: the same seed throws the same.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}

  // 0 to `bound` - 1. std::uniform_int_distribution would not throw the same with every library.
  uint64_t Below(uint64_t bound) { return engine_() % bound; }
  bool Percent(uint64_t chance) { return Below(100) < chance; }
  bool Permille(uint64_t chance) { return Below(1000) < chance; }
  template <typename Value>
  const Value& Of(const std::vector<Value>& values) {
    return values[Below(values.size())];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace rdmabroker

#endif  // TESTS_SIMULATION_DICE_H_
