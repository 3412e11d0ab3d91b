// SPDX-License-Identifier: Apache-2.0

// The cases of NDKPI's assertions on one adapter, in each of which the broker's process dies once, between two of its
// commits: at one that a seed picks; or, the case being run as often, at every one; a handshake that its death would
// end ends first.
//
//   ndkpi_restart_test fake|iwarp|rxe|siw [GTEST_OPTION ...]
//
// RDMA_BROKER_SEED in the environment is the seed to run. With RDMA_BROKER_EVERY_COMMIT the deaths are everywhere. With
// RDMA_BROKER_DEATH, such as before-17, there is but that one.

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
#include <utility>
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
// Ten times as many: a case that has more makes work for itself.
constexpr uint32_t kMostCommits = 10 * kLatest;

std::shared_ptr<KeptBroker> NewBroker(const Surroundings& on, const std::string& settings) {
  std::shared_ptr<KeptBroker> broker = NewMortalBroker(on.adapter, settings);
  broker->LeaveOutStrays();
  return broker;
}

// One in each case that was run, or at each of its commits.
uint64_t deaths = 0;
uint64_t tests_run = 0;
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
  static auto* const kShared = new std::shared_ptr<KeptBroker>;
  static uint64_t deaths_before = 0;
  if (!settings.empty()) return NewBroker(on, settings);
  if (*kShared == nullptr || deaths - deaths_before >= KeptBroker::kPromptRestarts) {
    *kShared = NewBroker(on, "");
    retired.push_back(*kShared);
    EndRetired(kMostRetired);
    deaths_before = deaths;
  }
  return *kShared;
}

class RestartedCase : public testing::Test {
 public:
  // `when`: of the deaths at every commit; empty for the seed's.
  RestartedCase(const Surroundings& surroundings, const Case& which, uint32_t seed, std::string when)
      : surroundings_(surroundings), case_(which), seed_(seed), when_(std::move(when)) {}

  void TestBody() override {
    ++tests_run;
    if (const char* const given = std::getenv("RDMA_BROKER_DEATH")) {
      const std::string death = given;
      const size_t dash = death.find('-');
      ASSERT_NE(dash, std::string::npos) << "RDMA_BROKER_DEATH is before-COMMIT or after-COMMIT";
      const auto commit = static_cast<uint32_t>(std::stoul(death.substr(dash + 1)));
      EXPECT_TRUE(Dies({.when = death.substr(0, dash), .commit = commit})) << "the case has fewer commits";
    } else if (when_.empty()) {
      DieAsTheSeedSays();
    } else {
      DieEverywhere();
    }
  }

 private:
  // Said beforehand, too, as it may be the test's process that ends.
  static std::string Say(const std::string& command) {
    std::cout << command << std::endl;
    return command;
  }

  void DieAsTheSeedSays() {
    SCOPED_TRACE(Say(CommandOfThisCase("RDMA_BROKER_SEED=" + std::to_string(seed_))));
    // The name makes each case die elsewhere.
    std::minstd_rand random(seed_ + static_cast<uint32_t>(std::hash<std::string>()(NameOf(case_))));
    const Death death = {.when = random() % 2 == 0 ? "before" : "after",
                         .commit = static_cast<uint32_t>(1 + random() % kLatest)};
    const std::shared_ptr<KeptBroker> broker = BrokerFor(surroundings_, case_.settings);
    LiveThrough(*broker, death, [&] { Live(broker); });
    ++deaths;
  }

  // Until the case ends before that commit.
  void DieEverywhere() {
    uint32_t commit = 1;
    while (Dies({.when = when_, .commit = commit}) && !HasFailure()) {
      ASSERT_LT(commit, kMostCommits) << "the case does not end";
      ++commit;
    }
    EXPECT_TRUE(HasFailure() || commit > 1) << "nothing of it is stored";
  }

  bool Dies(const Death& death) {
    SCOPED_TRACE(Say(CommandOfThisCase("RDMA_BROKER_DEATH=" + death.when + "-" + std::to_string(death.commit))));
    const std::shared_ptr<KeptBroker> broker = BrokerFor(surroundings_, case_.settings);
    const bool died = DiesWithin(*broker, death, [&] { Live(broker); });
    if (died) ++deaths;
    return died;
  }

  void Live(const std::shared_ptr<KeptBroker>& broker) {
    World world(surroundings_, case_, broker);
    if (!HasFatalFailure()) case_.run(world);
  }

  const Surroundings& surroundings_;
  const Case& case_;
  const uint32_t seed_;
  const std::string when_;
};

class EndOfAll : public testing::Environment {
 public:
  void TearDown() override {
    EndRetired(0);
    std::cout << "covered: " << deaths << " deaths in " << tests_run << " tests\n";
  }
};

int Run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: ndkpi_restart_test ADAPTER\n");
    return 64;
  }
  const Surroundings surroundings = Prepare(argv[1]);
  const Cases cases = AllCases();
  const uint32_t seed = RandomSeed();
  std::cout << "RDMA_BROKER_SEED=" << seed << "\n";
  // A side's deaths are a test, so that shards are of a size.
  const bool everywhere = std::getenv("RDMA_BROKER_EVERY_COMMIT") != nullptr;
  for (const std::string& when :
       everywhere ? std::vector<std::string>{"before", "after"} : std::vector{std::string()}) {
    for (const Case& which : cases) {
      if (which.core_only) continue;
      const std::string name = NameOf(which) + "/" + surroundings.adapter + (when.empty() ? "" : "/" + when);
      testing::RegisterTest(
          "Restarted", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
          [&, seed, when]() -> testing::Test* { return new RestartedCase(surroundings, which, seed, when); });
    }
  }
  testing::AddGlobalTestEnvironment(new EndOfAll);
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace rdmabroker::ndkpi

int main(int argc, char** argv) { return rdmabroker::ndkpi::Run(argc, argv); }
