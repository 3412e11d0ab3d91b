// SPDX-License-Identifier: Apache-2.0

#include "broker/core/ids.h"

#include <gtest/gtest.h>

#include <set>

namespace rdmabroker {
namespace {

// The greatest of 15 and of 48 bits.
constexpr uint64_t kLastDevice = (1 << 15) - 1;
constexpr uint64_t kLastCounter = (uint64_t{1} << 48) - 1;

TEST(AnIncomingConnection, SaysWhatItWasMintedWithWhicheverDeviceMintedIt) {
  std::set<ConnectionId> connections;
  for (const uint64_t device : {uint64_t{1}, uint64_t{2}, kLastDevice}) {
    for (const uint64_t counter : {uint64_t{1}, uint64_t{2}, kLastCounter}) {
      const ConnectionId connection = IncomingConnection(DeviceId(device), counter);
      EXPECT_EQ(IncomingCounter(connection), counter) << "device " << device;
      EXPECT_TRUE(connections.insert(connection).second) << "device " << device << ", counter " << counter;
    }
  }
}

TEST(AConnectionThatTheCoreMinted, HasNoCounter) {
  for (const uint64_t id : {uint64_t{1}, uint64_t{2}, kLastCounter}) EXPECT_EQ(IncomingCounter(ConnectionId(id)), 0u);
}

}  // namespace
}  // namespace rdmabroker
