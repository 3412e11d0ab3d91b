// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SURVIVE_NEW_MORTAL_BROKER_H_
#define TESTS_SURVIVE_NEW_MORTAL_BROKER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tests/survive/kept_broker.h"

namespace rdmabroker {

// tests/survive/mortal_broker on the adapter, which takes its commands; "fake" with a network of its own, which lives
// as long as the object and takes FakeSurroundings' commands, too.
//
// Settings that say nothing of the ports or of the grace period get OwnPorts', and KeptBroker's grace for the adapter.
std::shared_ptr<KeptBroker> NewMortalBroker(const std::string& adapter, const std::string& settings);

// When one of NewMortalBroker's is to die.
struct Death {
  std::string when;  // "before" or "after" ...
  uint32_t commit = 1;
  // Otherwise it waits while it would end a handshake.
  bool anyhow = false;
};

// Runs `live`, in which the broker dies once at most; afterwards it dies no more. Whether it has.
bool DiesWithin(KeptBroker& broker, const Death& death, const std::function<void()>& live);
// Runs `live`, in which the broker dies once, and no more than once. What has fewer commits than that is run again,
// for half as many, until the death falls within.
void LiveThrough(KeptBroker& broker, Death death, const std::function<void()>& live);
// What runs the current test case alone, with values of the environment such as "RDMA_BROKER_SEED=7": for a shell,
// where the test was started.
std::string CommandOfThisCase(const std::string& value);
// How many of its deaths were `anyhow`, and within a handshake.
uint64_t DeathsWithinHandshakes(const KeptBroker& broker);

}  // namespace rdmabroker

#endif  // TESTS_SURVIVE_NEW_MORTAL_BROKER_H_
