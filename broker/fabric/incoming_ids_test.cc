// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/incoming_ids.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "broker/core/ids.h"

namespace rdmabroker {
namespace {

TEST(IncomingIdsOfAFabric, AreCountedUnderItsFirstDevice) {
  IncomingIds ids(DeviceId(2)), of_another(DeviceId(3));
  for (uint64_t counter = 1; counter <= 3; ++counter) {
    EXPECT_EQ(ids.Next(), IncomingConnection(DeviceId(2), counter));
    EXPECT_EQ(of_another.Next(), IncomingConnection(DeviceId(3), counter));
  }
}

TEST(IncomingIdsOfAFabric, AreNoneOfThoseThatItHasAdopted) {
  IncomingIds ids(DeviceId(2));
  // A broker that counted those of each device by themselves has left the first.
  for (const ConnectionId adopted :
       {IncomingConnection(DeviceId(7), 500), IncomingConnection(DeviceId(2), 20), ConnectionId(1000)}) {
    ids.Adopt(adopted);
  }
  EXPECT_EQ(ids.Next(), IncomingConnection(DeviceId(2), 501));
}

}  // namespace
}  // namespace rdmabroker
