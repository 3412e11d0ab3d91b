// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SURVIVE_NEW_MORTAL_BROKER_H_
#define TESTS_SURVIVE_NEW_MORTAL_BROKER_H_

#include <memory>
#include <string>

#include "tests/survive/kept_broker.h"

namespace rdmabroker {

// tests/survive/mortal_broker on the adapter, which takes its commands; "fake" with a network of its own, which lives
// as long as the object and takes FakeSurroundings' commands, too.
//
// Settings that say nothing of the ports or of the grace period get OwnPorts' and one that is short: a test waits for
// half a minute until all is closed, for a start, and then this.
std::shared_ptr<KeptBroker> NewMortalBroker(const std::string& adapter, const std::string& settings);

}  // namespace rdmabroker

#endif  // TESTS_SURVIVE_NEW_MORTAL_BROKER_H_
