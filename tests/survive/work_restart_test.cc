// SPDX-License-Identifier: Apache-2.0

// The activities of workload.h on one adapter, in each of which the broker's process dies once, at one of its commits,
// as a seed decides: in the middle of handshakes, too, which may cost what price.h says, and nothing else.
//
//   work_restart_test fake|iwarp [GTEST_OPTION ...]
//
// RDMA_BROKER_SEED in the environment is the seed to run, RDMA_BROKER_SEEDS how many are run, one after the other.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <string>

#include "tests/conformance/ndkpi/surroundings.h"
#include "tests/conformance/ndkpi/world.h"
#include "tests/random_seed.h"
#include "tests/survive/new_mortal_broker.h"
#include "tests/survive/workload.h"

namespace rdmabroker {
namespace {

using ndkpi::Surroundings;
using ndkpi::World;

// About as many commits as the longest has.
constexpr uint32_t kLatest = 64;

uint64_t deaths = 0, within_handshakes = 0;

class RestartedWork : public testing::Test {
 public:
  // It is the `later`th after the first seed.
  RestartedWork(const Surroundings& on, const Workload::Activity& activity, uint32_t first, uint32_t later)
      : on_(on), activity_(activity), first_(first), seed_(first + later) {}

  void TestBody() override {
    SCOPED_TRACE(CommandOfThisCase("RDMA_BROKER_SEED=" + std::to_string(first_)));
    // The name makes each activity's deaths fall elsewhere.
    std::minstd_rand random(seed_ + static_cast<uint32_t>(std::hash<std::string>()(activity_.name)));
    const std::shared_ptr<KeptBroker> broker = NewMortalBroker(on_.adapter, "");
    broker->LeaveOutStrays();
    for (const char* const when : {"before", "after"}) {
      const auto commit = static_cast<uint32_t>(1 + random() % kLatest);
      LiveThrough(*broker, {.when = when, .commit = commit, .anyhow = true}, [&] {
        World world(on_, broker);
        Workload(world).Run(activity_);
      });
      ++deaths;
    }
    within_handshakes += DeathsWithinHandshakes(*broker);
  }

 private:
  const Surroundings& on_;
  const Workload::Activity& activity_;
  const uint32_t first_;
  const uint32_t seed_;
};

class EndOfAll : public testing::Environment {
 public:
  void TearDown() override {
    std::cout << "covered: " << deaths << " deaths, " << within_handshakes << " of them within handshakes\n";
    if (deaths >= kMany) {
      EXPECT_GT(within_handshakes, 0u) << "all were beside them";
    }
  }

 private:
  static constexpr uint64_t kMany = 40;
};

int Run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: work_restart_test ADAPTER\n");
    return 64;
  }
  const Surroundings on = ndkpi::Prepare(argv[1]);
  const char* const seeds = std::getenv("RDMA_BROKER_SEEDS");
  const uint32_t first = RandomSeed();
  std::cout << "RDMA_BROKER_SEED=" << first << "\n";
  for (uint32_t i = 0; i < (seeds == nullptr ? 1 : std::strtoul(seeds, nullptr, 10)); ++i) {
    for (const Workload::Activity& activity : Workload::Activities()) {
      if (activity.special || (activity.changes_addresses && on.adapter == "fake")) continue;
      const std::string name = activity.name + ("/" + on.adapter) + (i == 0 ? "" : "/" + std::to_string(i));
      testing::RegisterTest("ADeathCostsAHandshakeAtMost", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [&, first, i]() -> testing::Test* { return new RestartedWork(on, activity, first, i); });
    }
  }
  testing::AddGlobalTestEnvironment(new EndOfAll);
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) { return rdmabroker::Run(argc, argv); }
