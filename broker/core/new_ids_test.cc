// SPDX-License-Identifier: Apache-2.0

#include "broker/core/new_ids.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "broker/core/broker_core.h"

namespace rdmabroker {
namespace {

constexpr uint64_t kBlock = uint64_t{1} << 32;

ConnectorId Take(uint64_t key, uint64_t& counter, const Table<ConnectorId, ConnectorRecord>& table = {}) {
  NewIds<ConnectorKind> ids(key, counter);
  const ConnectorId id = ids.Next(table);
  ids.Take();
  return id;
}

TEST(NewIds, AreEachGivenOnceAndInNoOrderThatIsToBeSeen) {
  std::set<ConnectorId> taken;
  int rising = 0;
  ConnectorId last;
  for (const uint64_t first : {uint64_t{0}, kBlock - 500, 7 * kBlock}) {
    uint64_t counter = first;
    for (int i = 0; i < 1000; ++i) {
      const ConnectorId id = Take(99, counter);
      EXPECT_TRUE(id);
      EXPECT_TRUE(taken.insert(id).second);
      rising += id > last ? 1 : 0;
      last = id;
    }
  }
  EXPECT_GT(rising, 1000);
  EXPECT_LT(rising, 2000);
}

TEST(NewIds, AreTheCountWithoutAKey) {
  uint64_t counter = 6;
  EXPECT_EQ(Take(0, counter), ConnectorId(7));
  EXPECT_EQ(Take(0, counter), ConnectorId(8));
}

TEST(NewIds, AreNotGivenOutUnlessTheyAreTaken) {
  uint64_t counter = 6;
  EXPECT_EQ(NewIds<ConnectorKind>(0, counter).Next(Table<ConnectorId, ConnectorRecord>()), ConnectorId(7));
  EXPECT_EQ(counter, 6u);
}

TEST(NewIds, NameNothingThatIsThere) {
  Table<ConnectorId, ConnectorRecord> table;
  for (const uint64_t id : {7, 8}) table[ConnectorId(id)].id = ConnectorId(id);
  uint64_t counter = 6;
  EXPECT_EQ(Take(0, counter, table), ConnectorId(9)) << "whatever a damaged store says of the counter";
}

TEST(NewIds, OfABrokerThatHadNoKeyAreNotGivenOutAgain) {
  Counters counters;
  counters.session = 5;
  counters.connector = 3 * kBlock + 1;
  SetKeyOfIds(99, counters);
  EXPECT_EQ(counters.id_key, 99u);
  EXPECT_EQ(counters.session, kBlock);
  EXPECT_EQ(counters.connector, 4 * kBlock);
  EXPECT_EQ(counters.listener, 0u);
  EXPECT_GE(Take(99, counters.connector).value(), 4 * kBlock);
}

TEST(ACoreWithAKey, GivesIdsThatDependOnIt) {
  const auto ids_of = [](uint64_t key) {
    BrokerCore core(Limits{}, 1, key);
    std::set<uint64_t> ids;
    for (uint64_t stream = 1; stream <= 4; ++stream) {
      for (const Effect& effect : core.Handle(absl::UnixEpoch(), OpenSession{StreamId(stream), {}, {}})) {
        if (const auto* opened = std::get_if<SessionOpened>(&effect)) ids.insert(opened->session.value());
      }
    }
    return ids;
  };
  EXPECT_EQ(ids_of(1).size(), 4u);
  EXPECT_NE(ids_of(1), ids_of(2));
}

}  // namespace
}  // namespace rdmabroker
