// SPDX-License-Identifier: Apache-2.0

// What an idle connector takes of memory. docs/benchmarks.md explains.

#include <sys/stat.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "broker/core/broker_core.h"
#include "broker/store/store.h"
#include "tests/bench/core_population.h"
#include "tests/bench/figures.h"
#include "tests/bench/memory_folder.h"
#include "tests/bench/require.h"

namespace rdmabroker::bench {
namespace {

constexpr size_t kConnectors = 100'000;
constexpr double kGoal = 4096;

// What this process alone has of the memory, in bytes; files that it has mapped are left out.
size_t Resident() {
  constexpr std::string_view kKey = "RssAnon:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(kKey, 0) == 0) return std::strtoul(line.c_str() + kKey.size(), nullptr, 10) * 1024;
  }
  Fail("/proc/self/status");
}

// What the file takes of its file system.
size_t SizeOf(const std::string& file) {
  struct stat found = {};
  Require(::stat(file.c_str(), &found) == 0, file);
  return static_cast<size_t>(found.st_blocks) * 512;
}

void Measure() {
  const size_t before = Resident();
  CorePopulation population(kConnectors);
  const MemoryFolder folder;
  const std::unique_ptr<Store> store = *Store::Open(folder.path(), "");
  // So that the store has been written as it is in service: change by change.
  population.AfterEachEvent([&](BrokerCore& core) {
    const Changes changes = core.TakeChanges();
    Require(store->Commit(core.records(), changes, {}, {}).ok(), "a commit");
  });
  (void)population.Churn(2 * kConnectors);
  const double process = static_cast<double>(Resident() - before) / kConnectors;
  const double file = static_cast<double>(SizeOf(folder.path() + "/records.mdb")) / kConnectors;
  std::printf("  bytes of each of %zu connectors: %.0f in the process, %.0f in the store's file\n", kConnectors,
              process, file);
  PrintRatio("memory, an idle connector with its share of the store / 4 KiB", (process + file) / kGoal,
             "goal: at most 1");
}

}  // namespace
}  // namespace rdmabroker::bench

int main() {
  rdmabroker::bench::PrintCircumstances();
  rdmabroker::bench::Measure();
}
