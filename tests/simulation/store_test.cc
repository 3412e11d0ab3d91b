// SPDX-License-Identifier: Apache-2.0

// Every broker of a simulation commits what each event has changed, and now and then what the store has is compared
// with what the core has. Where a broker's process dies, the next one goes on with what its store has. Each seed's
// stores come from nothing.

#include "broker/store/store.h"

#include <gtest/gtest.h>

#include <array>
#include <iostream>
#include <memory>

#include "broker/store/round_trip_for_test.h"
#include "tests/control/temporary_folder.h"
#include "tests/simulation/world.h"

namespace rdmabroker {
namespace {

constexpr uint64_t kSeeds = 30;
constexpr uint64_t kEvents = 3000;
constexpr uint64_t kCompareEvery = 250;
constexpr uint64_t kDeaths = 3;  // In 1000 events.

// The store of one of the brokers.
class BrokersStore {
 public:
  BrokersStore() : store_(*Store::Open(folder_.path(), "")) {}

  absl::Status Keep(const BrokerCore& core, const Changes& changes) {
    absl::Status kept = CheckRoundTrips(core.records(), changes);
    if (kept.ok()) kept = store_->Commit(core.records(), changes, {}, {});
    if (kept.ok() && ++commits_ % kCompareEvery == 0) kept = Compare(core);
    return kept;
  }

  // As another process does.
  absl::StatusOr<Records> Find() {
    store_ = nullptr;
    auto store = Store::Open(folder_.path(), "");
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
    absl::StatusOr<Stored> loaded = store_->Load();
    if (!loaded.ok()) return loaded.status();
    return std::move(loaded->records);
  }

 private:
  absl::Status Compare(const BrokerCore& core) {
    absl::StatusOr<Stored> loaded = store_->Load();
    if (!loaded.ok()) return loaded.status();
    // An event that changes nothing is not committed, and neither is its time.
    loaded->records.now = core.records().now;
    if (loaded->records != core.records()) return absl::InternalError("its store has other records");
    return BrokerCore::Restore(core.limits(), loaded->records).status();
  }

  TemporaryFolder folder_;
  std::unique_ptr<Store> store_;
  uint64_t commits_ = 0;
};

TEST(TheStoresOfASimulation, HaveWhatTheCoresHave) {
  Variety met;
  uint64_t deaths = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    std::array<BrokersStore, 3> stores;
    Simulation simulation{.seed = seed,
                          .events = kEvents,
                          .restart = Restart::kSometimes,
                          .check_every = kCompareEvery,
                          .deaths = kDeaths};
    simulation.keep = [&](size_t broker, const BrokerCore& core, const Changes& changes) {
      met.Note(core.records());
      return stores.at(broker).Keep(core, changes);
    };
    simulation.find = [&](size_t broker) {
      ++deaths;
      return stores.at(broker).Find();
    };
    const absl::Status ran = World(simulation).Run();
    ASSERT_TRUE(ran.ok()) << "seed " << seed << ": " << ran;
  }
  EXPECT_TRUE(met.Check().ok()) << met.Check();
  std::cout << "covered: " << deaths << " deaths\n";
  EXPECT_GT(deaths, 0u);
}

}  // namespace
}  // namespace rdmabroker
