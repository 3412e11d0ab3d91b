// SPDX-License-Identifier: Apache-2.0

// Runs many seeds. The environment may say otherwise than the test's default:
//   RDMA_BROKER_BLOCKS   how many blocks of 200 seeds, or
//   RDMA_BROKER_SEED     this seed alone, with its trace
//   RDMA_BROKER_EVENTS   events of each
//   RDMA_BROKER_CHECK_EVERY, RDMA_BROKER_RESTART (never, sometimes, always), RDMA_BROKER_DEATHS (in 1000 events)

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/simulation/world.h"

namespace rdmabroker {
namespace {

// The end of a trace is what explains a failure; the whole can be had by running its seed alone.
constexpr size_t kTraceLines = 200;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

bool IsAlone() { return std::getenv("RDMA_BROKER_SEED") != nullptr; }

Restart RestartFromEnvironment() {
  const char* text = std::getenv("RDMA_BROKER_RESTART");
  const std::string restart = text == nullptr ? "never" : text;
  return restart == "always" ? Restart::kAlways : restart == "sometimes" ? Restart::kSometimes : Restart::kNever;
}

const char* NameOf(Restart restart) {
  return restart == Restart::kAlways ? "always" : restart == Restart::kSometimes ? "sometimes" : "never";
}

// Runs it once more to see how it came to that.
std::string Explain(Simulation simulation, const absl::Status& status) {
  simulation.trace = true;
  World world(simulation);
  const absl::Status again = world.Run();
  std::string text = "seed " + std::to_string(simulation.seed) + ": " + std::string(status.message()) + "\n";
  if (again != status) text += "NOT REPRODUCED: " + again.ToString() + "\n";
  const auto& trace = world.trace();
  const size_t lines = IsAlone() ? trace.size() : kTraceLines;
  for (size_t i = trace.size() - std::min(trace.size(), lines); i < trace.size(); ++i) text += trace[i] + "\n";
  return text + "to reproduce: RDMA_BROKER_SEED=" + std::to_string(simulation.seed) +
         " RDMA_BROKER_EVENTS=" + std::to_string(simulation.events) +
         " RDMA_BROKER_RESTART=" + NameOf(simulation.restart) +
         " RDMA_BROKER_DEATHS=" + std::to_string(simulation.deaths) +
         " RDMA_BROKER_CHECK_EVERY=" + std::to_string(simulation.check_every) +
         " bazel-bin/tests/simulation/simulation_test\n";
}

// Per block of seeds: enough that everything happens in it.
constexpr uint64_t kBlock = 200;

class SimulationTest : public testing::TestWithParam<uint64_t> {};

TEST_P(SimulationTest, EverySeedKeepsEveryPromiseAndEverythingHappens) {
  const bool alone = IsAlone();
  const uint64_t first = alone ? FromEnvironment("RDMA_BROKER_SEED", 1) : GetParam() * kBlock + 1;
  const uint64_t seeds = alone ? 1 : kBlock;
  Simulation simulation;
  simulation.events = FromEnvironment("RDMA_BROKER_EVENTS", 5000);
  simulation.check_every = FromEnvironment("RDMA_BROKER_CHECK_EVERY", 16);
  simulation.restart = RestartFromEnvironment();
  simulation.deaths = FromEnvironment("RDMA_BROKER_DEATHS", 3);
  Coverage coverage;
  uint64_t events = 0;
  uint64_t pairs = 0;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    simulation.seed = seed;
    World world(simulation);
    const absl::Status status = world.Run();
    if (!status.ok()) FAIL() << Explain(simulation, status);
    coverage.Add(world.coverage());
    events += world.events();
    pairs += world.pairs();
  }
  std::cout << coverage.ToString() << "covered: seeds " << first << " to " << first + seeds - 1 << ", restored "
            << NameOf(simulation.restart) << ": " << events << " events, " << pairs
            << " connections with both ends' read limits compared\n";
  if (alone) return;
  EXPECT_GT(pairs, 0u);
  for (const std::string& missing : coverage.Missing()) ADD_FAILURE() << missing << " never occurred";
  for (const std::string& unexpected : coverage.Unexpected()) ADD_FAILURE() << unexpected;
}

INSTANTIATE_TEST_SUITE_P(Blocks, SimulationTest,
                         testing::Range<uint64_t>(0, IsAlone() ? 1 : FromEnvironment("RDMA_BROKER_BLOCKS", 1)));

}  // namespace
}  // namespace rdmabroker
