// SPDX-License-Identifier: Apache-2.0

// The cases of NDKPI's assertions on one adapter, in each of which the broker's process dies once, between two of its
// commits, as a seed decides; a handshake that its death would end ends first.
//
//   ndkpi_restart_test fake|iwarp|rxe|siw [GTEST_OPTION ...]
//
// RDMA_BROKER_SEED in the environment is the seed to run, RDMA_BROKER_SEEDS how many are run, one after the other.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/conformance/ndkpi/case.h"
#include "tests/conformance/ndkpi/surroundings.h"
#include "tests/conformance/ndkpi/world.h"
#include "tests/control/patience.h"
#include "tests/random_seed.h"
#include "tests/survive/kept_broker.h"
#include "tests/survive/new_mortal_broker.h"

namespace rdmabroker::ndkpi {
namespace {

// About as many commits as a long case has, the opening of its sessions included. A shorter one is run again, for less.
constexpr uint32_t kLatest = 64;

std::shared_ptr<KeptBroker> NewBroker(const Surroundings& on, const std::string& settings) {
  std::shared_ptr<KeptBroker> broker = NewMortalBroker(on.adapter, settings);
  broker->LeaveOutStrays();
  return broker;
}

// One in each case that was run.
uint64_t deaths = 0;
// Those that are or were shared, with what strays they have until their grace period ends.
std::deque<std::shared_ptr<KeptBroker>> retired;
// The strays of the first of so many have ended by themselves. Each has a hundred threads, of which a user has some
// thousands.
constexpr size_t kMostRetired = 8;

void EndRetired(size_t all_but) {
  for (; retired.size() > all_but; retired.pop_front()) {
    std::vector<std::string> left;
    EXPECT_TRUE(Becomes([&] { return (left = retired.front()->RunningBroker::Objects()).empty(); }))
        << "the broker still holds " << testing::PrintToString(left);
  }
}

// The cases without settings share one for some time.
std::shared_ptr<KeptBroker> BrokerFor(const Surroundings& on, const std::string& settings) {
  static auto* const shared = new std::shared_ptr<KeptBroker>;
  static uint64_t deaths_before = 0;
  if (!settings.empty()) return NewBroker(on, settings);
  if (*shared == nullptr || deaths - deaths_before >= KeptBroker::kPromptRestarts) {
    *shared = NewBroker(on, "");
    retired.push_back(*shared);
    EndRetired(kMostRetired);
    deaths_before = deaths;
  }
  return *shared;
}

class RestartedCase : public testing::Test {
 public:
  RestartedCase(const Surroundings& surroundings, const Case& which, uint32_t seed)
      : surroundings_(surroundings), case_(which), seed_(seed) {}

  void TestBody() override {
    // The name makes each case die elsewhere.
    std::minstd_rand random(seed_ + static_cast<uint32_t>(std::hash<std::string>()(NameOf(case_))));
    const Death death = {.when = random() % 2 == 0 ? "before" : "after",
                         .commit = static_cast<uint32_t>(1 + random() % kLatest)};
    SCOPED_TRACE("RDMA_BROKER_SEED=" + std::to_string(seed_));
    const std::shared_ptr<KeptBroker> broker = BrokerFor(surroundings_, case_.settings);
    LiveThrough(*broker, death, [&] {
      World world(surroundings_, case_, broker);
      if (!HasFatalFailure()) case_.run(world);
    });
    ++deaths;
  }

 private:
  const Surroundings& surroundings_;
  const Case& case_;
  const uint32_t seed_;
};

class EndOfAll : public testing::Environment {
 public:
  void TearDown() override {
    EndRetired(0);
    std::cout << "covered: " << deaths << " deaths in as many cases\n";
  }
};

int Run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: ndkpi_restart_test ADAPTER\n");
    return 64;
  }
  static const Surroundings surroundings = Prepare(argv[1]);
  static const Cases cases = AllCases();
  const char* const seeds = std::getenv("RDMA_BROKER_SEEDS");
  const uint32_t first = RandomSeed();
  std::cout << "RDMA_BROKER_SEED=" << first << "\n";
  for (uint32_t i = 0; i < (seeds == nullptr ? 1 : std::strtoul(seeds, nullptr, 10)); ++i) {
    for (const Case& which : cases) {
      if (which.core_only) continue;
      const std::string name = NameOf(which) + "/" + surroundings.adapter + (i == 0 ? "" : "/" + std::to_string(i));
      testing::RegisterTest(
          "Restarted", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
          [&which, seed = first + i]() -> testing::Test* { return new RestartedCase(surroundings, which, seed); });
    }
  }
  testing::AddGlobalTestEnvironment(new EndOfAll);
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace rdmabroker::ndkpi

int main(int argc, char** argv) { return rdmabroker::ndkpi::Run(argc, argv); }
