// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/memory_table.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <optional>
#include <thread>
#include <unordered_set>
#include <utility>
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

TEST_F(TheMemoryTable, GivesATokenOnceIn2To20HoweverFewEntriesThereAre) {
  constexpr int kRegistrations = 1 << 20;
  std::unordered_set<uint32_t> given = {token};
  for (int i = 0; i < kRegistrations; ++i) {
    const uint32_t next = table.NextToken(entry);
    EXPECT_NE(next, 0u);
    ASSERT_TRUE(given.insert(next).second) << i;
    table.Publish(entry, next, {});
  }
}

TEST_F(TheMemoryTable, GivesTokensThatAnotherTableDoesNot) {
  MemoryTable other;
  MemoryTable::Entry* const of_other = other.Allocate();
  int same = 0;
  for (int i = 0; i < 100; ++i) same += other.NextToken(of_other) == table.NextToken(entry) ? 1 : 0;
  EXPECT_LT(same, 5) << "who knows one cannot guess the other's";
}

TEST_F(TheMemoryTable, FindsEachOfManyTokens) {
  std::vector<std::pair<MemoryTable::Entry*, uint32_t>> all;
  for (uint64_t i = 0; i < 10'000; ++i) {
    MemoryTable::Entry* const one = table.Allocate();
    all.emplace_back(one, table.NextToken(one));
    table.Publish(one, all.back().second, {.base = i});
  }
  for (uint64_t i = 0; i < all.size(); ++i) {
    const MemoryTable::Pin pin = table.Lookup(all[i].second);
    ASSERT_TRUE(pin) << i;
    EXPECT_EQ(pin->base, i);
  }
  EXPECT_TRUE(table.Lookup(token));
}

TEST_F(TheMemoryTable, KeepsTheLiveTokenUntilANextOneIsPublished) {
  const uint32_t cancelled = table.NextToken(entry);
  const uint32_t next = table.NextToken(entry);
  EXPECT_TRUE(table.Lookup(token));
  EXPECT_FALSE(table.Lookup(next));
  table.Discard(entry, cancelled);
  EXPECT_TRUE(table.Lookup(token));
  table.Publish(entry, next, {});
  EXPECT_FALSE(table.Lookup(token));
  EXPECT_TRUE(table.Lookup(next));
}

// As two queue pairs may carry out what was posted to them.
TEST_F(TheMemoryTable, FindsTokensInWhateverOrderTheyArePublished) {
  const uint32_t first = table.NextToken(entry);
  const uint32_t second = table.NextToken(entry);
  table.Publish(entry, second, {});
  EXPECT_TRUE(table.Lookup(second));
  table.Publish(entry, first, {});
  EXPECT_TRUE(table.Lookup(first));
  EXPECT_FALSE(table.Lookup(second));
}

// What the time limit of the test sees: if each moved those that are free already, it would take minutes.
TEST_F(TheMemoryTable, TakesEachEntryBackHoweverManyAreFree) {
  std::vector<MemoryTable::Entry*> all;
  while (MemoryTable::Entry* const next = table.Allocate()) all.push_back(next);
  EXPECT_GT(all.size(), 1'000'000U);
  for (MemoryTable::Entry* const used : all) table.Free(used);
  EXPECT_NE(table.Allocate(), nullptr);
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
