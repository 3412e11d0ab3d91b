// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/memory_table.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

namespace rdmabroker::iwarp {
namespace {

// Turns that a thread is given to do what it must not.
constexpr int kTurns = 1000;

class TheMemoryTable : public testing::Test {
 protected:
  TheMemoryTable() : entry(table.Allocate()), token(table.NextToken(entry)) { table.Publish(entry, token, {}); }

  MemoryTable table;
  MemoryTable::Entry* const entry;
  const uint32_t token;
};

TEST_F(TheMemoryTable, FindsALiveTokenAndNoOther) {
  EXPECT_TRUE(table.Lookup(token));
  EXPECT_FALSE(table.Lookup(token + 1));
  EXPECT_FALSE(table.Lookup(0));
  table.Withdraw(entry);
  EXPECT_FALSE(table.Lookup(token));
}

TEST_F(TheMemoryTable, UsesTheEntryAgainThatHasRestedLongest) {
  MemoryTable::Entry* const other = table.Allocate();
  table.Withdraw(entry);
  table.Free(other);
  table.Free(entry);
  const MemoryTable::Entry* next = table.Allocate();
  while (next != other && next != entry) next = table.Allocate();
  EXPECT_EQ(next, other);
  EXPECT_EQ(table.Allocate(), entry);
}

// What the time limit of the test sees: if each moved those that are free already, it would take minutes.
TEST_F(TheMemoryTable, TakesEachEntryBackHoweverManyAreFree) {
  std::vector<MemoryTable::Entry*> all;
  while (MemoryTable::Entry* const next = table.Allocate()) all.push_back(next);
  EXPECT_GT(all.size(), 1'000'000U);
  for (MemoryTable::Entry* const used : all) table.Free(used);
  EXPECT_EQ(table.Allocate(), all.front());
}

TEST_F(TheMemoryTable, LetsNobodyGoOnWhileAWithdrawnEntryIsPinned) {
  std::optional<MemoryTable::Pin> pin = table.Lookup(token);
  std::atomic<bool> let_go = false;
  std::thread first([&] {
    EXPECT_TRUE(table.Withdraw(entry, token));
    EXPECT_TRUE(let_go);
  });
  while (MemoryTable::LiveToken(entry) != 0) ::sched_yield();
  // The token is dead; what it meant is in use yet.
  std::atomic<bool> begun = false;
  std::thread second([&] {
    begun = true;
    table.Withdraw(entry);
    EXPECT_TRUE(let_go);
  });
  while (!begun) ::sched_yield();
  for (int turn = 0; turn < kTurns; ++turn) ::sched_yield();
  let_go = true;
  pin.reset();
  first.join();
  second.join();
}

}  // namespace
}  // namespace rdmabroker::iwarp
