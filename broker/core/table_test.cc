// SPDX-License-Identifier: Apache-2.0

#include "broker/core/table.h"

#include <gtest/gtest.h>

#include <compare>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "broker/core/broker_core.h"
#include "broker/core/ids.h"

namespace rdmabroker {
namespace {

using Names = Table<DeviceId, std::string>;
using Ids = std::vector<DeviceId>;

// A key that counts how many of its kind there are.
class CountedKey {
 public:
  explicit CountedKey(int value) : value_(value) { ++count; }
  CountedKey(const CountedKey& other) : value_(other.value_) { ++count; }
  CountedKey& operator=(const CountedKey& other) = default;
  ~CountedKey() { --count; }

  auto operator<=>(const CountedKey& other) const = default;

  template <typename H>
  friend H AbslHashValue(H state, const CountedKey& key) {
    return H::combine(std::move(state), key.value_);
  }

  static inline int count = 0;

 private:
  int value_;
};

// Three names, of which nothing is noted yet.
Names ThreeNames() {
  Names names;
  for (const uint64_t id : {1, 2, 3}) names[DeviceId(id)] = "name";
  (void)names.TakeNotes();
  return names;
}

TEST(ATable, NotesEveryRecordThatItGivesOutForWriting) {
  const struct {
    const char* what;
    std::function<void(Names&)> access;
    Ids noted;
  } cases[] = {
      {"at", [](Names& names) { names.at(DeviceId(2)) = "other"; }, {DeviceId(2)}},
      {"find", [](Names& names) { names.find(DeviceId(2))->second = "other"; }, {DeviceId(2)}},
      {"find of none", [](Names& names) { (void)names.find(DeviceId(9)); }, {}},
      {"[]", [](Names& names) { names[DeviceId(2)] = "other"; }, {DeviceId(2)}},
      {"[] of a new one", [](Names& names) { names[DeviceId(9)] = "new"; }, {DeviceId(9)}},
      {"erase by id", [](Names& names) { names.erase(DeviceId(2)); }, {DeviceId(2)}},
      {"erase by place", [](Names& names) { names.erase(names.find(DeviceId(2))); }, {DeviceId(2)}},
      {"several",
       [](Names& names) {
         for (const uint64_t id : {3, 1, 1, 3}) names.at(DeviceId(id)) = "other";
       },
       {DeviceId(1), DeviceId(3)}},
  };
  for (const auto& [what, access, noted] : cases) {
    Names names = ThreeNames();
    access(names);
    EXPECT_EQ(names.TakeNotes(), noted) << what;
    EXPECT_EQ(names.TakeNotes(), Ids()) << what << ": taken already";
  }
}

TEST(ATable, NotesNothingThatIsOnlyRead) {
  Names names = ThreeNames();
  const Names& read = names;
  EXPECT_EQ(read.at(DeviceId(1)), "name");
  EXPECT_EQ(read.find(DeviceId(1))->second, "name");
  for (const auto& [id, name] : names) EXPECT_EQ(name, "name");
  EXPECT_TRUE(names.contains(DeviceId(1)));
  EXPECT_EQ(names.TakeNotes(), Ids());
}

TEST(ATable, NotesNothingBeforeSomebodyWantsTheNotes) {
  Names names;
  names[DeviceId(1)] = "name";
  EXPECT_EQ(names.TakeNotes(), Ids());
  names[DeviceId(1)] = "other";
  names.StopNoting(ChangeReader::kStore);
  names[DeviceId(1)] = "third";
  EXPECT_EQ(names.TakeNotes(), Ids());
}

TEST(ATable, TakesNoMoreMemoryForARecordThatIsNotedAgainAndAgain) {
  Table<CountedKey, int> table;
  (void)table.TakeNotes();
  for (int i = 0; i < 1000; ++i) table[CountedKey(i % 2)] = i;
  EXPECT_LT(CountedKey::count, 100);
  EXPECT_EQ(table.TakeNotes().size(), 2u);
}

TEST(ATable, IsEqualToAnotherWithTheSameRecordsWhateverIsNoted) {
  const Names quiet = ThreeNames();
  Names noted = quiet;
  noted.at(DeviceId(1)) = "name";
  EXPECT_EQ(noted, quiet);
  Names copy = noted;
  EXPECT_EQ(copy.TakeNotes(), Ids{DeviceId(1)}) << "a copy has the notes, too";
}

TEST(ATable, NotesARecordOnceHoweverOftenItIsReachedFor) {
  Names names = ThreeNames();
  Ids all;
  for (uint64_t id = 1; id <= 100; ++id) all.emplace_back(id);
  for (int round = 0; round < 1000; ++round) {
    for (const DeviceId id : all) names[id] = "name";
  }
  EXPECT_EQ(names.TakeNotes(), all);
}

TEST(ACore, TellsAllAtFirstAndThenWhatHasChanged) {
  BrokerCore core{Limits{}};
  const Changes first = core.TakeChanges();
  EXPECT_TRUE(first.all);
  EXPECT_EQ(core.TakeChanges(), Changes{});
  (void)core.Handle(absl::UnixEpoch(), OpenSession{StreamId(1), {}, {}});
  Changes opened;
  opened.counters = true;
  opened.sessions = {SessionId(1)};
  EXPECT_EQ(core.TakeChanges(), opened);
  EXPECT_EQ(core.TakeChanges(), Changes{});
}

// By such reports fabrics have stored what they have noted, in the middle of storms.
TEST(ACore, HasNothingToStoreOfADeviceReportThatSaysNothingNew) {
  BrokerCore core{Limits{}};
  Device device = {.id = DeviceId(1), .name = "nic0", .addresses = {{.bytes = {192, 0, 2, 1}}}};
  (void)core.Handle(absl::UnixEpoch(), FabricReport(DeviceChanged{device}));
  (void)core.Handle(absl::UnixEpoch(), OpenSession{StreamId(1), {}, {}});
  uint64_t id = 0;
  for (const Request& request :
       std::vector<Request>{OpenAdapter{"nic0", kNdkVersion}, ReservePort{AdapterId(1), {device.addresses[0], 7000}}}) {
    (void)core.Handle(absl::UnixEpoch(), ClientRequest{SessionId(1), RequestId(++id), EventNumber(), request});
  }
  ASSERT_FALSE(core.records().endpoints.empty());
  (void)core.TakeChanges();
  EXPECT_TRUE(core.Handle(absl::UnixEpoch(), FabricReport(DeviceChanged{device})).empty());
  EXPECT_EQ(core.TakeChanges(), Changes{});
  device.addresses.clear();
  (void)core.Handle(absl::UnixEpoch(), FabricReport(DeviceChanged{device}));
  EXPECT_EQ(core.TakeChanges().devices, std::vector<DeviceId>{device.id});
}

TEST(ACore, TellsEachReaderByItselfUntilItStops) {
  BrokerCore core{Limits{}};
  (void)core.TakeChanges(ChangeReader::kWatches);
  (void)core.Handle(absl::UnixEpoch(), OpenSession{StreamId(1), {}, {}});
  EXPECT_TRUE(core.TakeChanges().all);
  EXPECT_EQ(core.TakeChanges(ChangeReader::kWatches).sessions, std::vector<SessionId>{SessionId(1)});
  (void)core.Handle(absl::UnixEpoch(), OpenSession{StreamId(2), {}, {}});
  EXPECT_EQ(core.TakeChanges().sessions, std::vector<SessionId>{SessionId(2)}) << "nothing is stolen";
  core.StopTaking(ChangeReader::kWatches);
  (void)core.Handle(absl::UnixEpoch(), OpenSession{StreamId(3), {}, {}});
  EXPECT_TRUE(core.TakeChanges(ChangeReader::kWatches).all) << "it begins anew";
  EXPECT_EQ(core.TakeChanges().sessions, std::vector<SessionId>{SessionId(3)});
}

TEST(ARestoredCore, TellsAllAtFirst) {
  BrokerCore core{Limits{}};
  (void)core.TakeChanges();
  (void)core.Handle(absl::UnixEpoch(), OpenSession{StreamId(1), {}, {}});
  absl::StatusOr<BrokerCore> restored = BrokerCore::Restore(core.limits(), core.records());
  ASSERT_TRUE(restored.ok()) << restored.status();
  Changes all;
  all.all = true;
  EXPECT_EQ(restored->TakeChanges(), all);
  EXPECT_EQ(restored->TakeChanges(), Changes{});
}

}  // namespace
}  // namespace rdmabroker
