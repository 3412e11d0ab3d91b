// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_STORE_RECORDS_FOR_TEST_H_
#define BROKER_STORE_RECORDS_FOR_TEST_H_

#include <cstdint>
#include <random>

#include "broker/core/broker_core.h"

namespace rdmabroker {

// Records in which no field that version 1 of the store's format knows has the value it has by itself; several where a
// field can be in several ways. Together they make no sense to a core.
//
// The store of version 1 in testdata has them. Once that version is released, what is added to the core's records does
// not belong in here, but in what the next version's store has.
Records FullRecords();

// A core to which events of the alphabet happen by chance (broker/core/testing/alphabet.h).
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

#endif  // BROKER_STORE_RECORDS_FOR_TEST_H_
