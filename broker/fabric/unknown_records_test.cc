// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/unknown_records.h"

#include <gtest/gtest.h>

#include <vector>

namespace rdmabroker {
namespace {

TEST(UnknownRecords, OnlyThoseOfObjectsThatTheCoreHasStay) {
  Records records;
  records.endpoints[EndpointId(1)].id = EndpointId(1);
  records.connections[ConnectionId(2)].id = ConnectionId(2);
  FabricRecords expected;
  expected.endpoints[EndpointId(1)] = "endpoint";
  expected.connections[ConnectionId(2)] = "connection";
  FabricRecords kept = expected;
  kept.endpoints[EndpointId(2)] = "another";
  kept.connections[ConnectionId(1)] = "another";
  DropUnknown(records, &kept);
  EXPECT_EQ(kept, expected);
}

TEST(UnknownRecords, WhatIsErasedIsNotedForTheStore) {
  FabricRecords kept;
  kept.connections[ConnectionId(1)] = "another";
  (void)kept.connections.TakeNotes();
  DropUnknown(Records(), &kept);
  EXPECT_EQ(kept.connections.TakeNotes(), std::vector<ConnectionId>{ConnectionId(1)});
}

}  // namespace
}  // namespace rdmabroker
