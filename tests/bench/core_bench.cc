// SPDX-License-Identifier: Apache-2.0

// What an event costs the core, with few and with many connectors. docs/benchmarks.md explains.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>

#include "absl/container/flat_hash_map.h"
#include "tests/bench/core_population.h"
#include "tests/bench/figures.h"
#include "tests/bench/processes.h"

namespace rdmabroker::bench {
namespace {

constexpr size_t kFew = 100;
constexpr size_t kMany = 100'000;
constexpr size_t kEvents = 200'000;
constexpr size_t kUpdates = 2'000'000;

// What a program can do that keeps one number for each connector.
class HashMap {
 public:
  explicit HashMap(size_t size) : size_(size) {
    for (uint64_t key = 0; key < size; ++key) map_[key] = 0;
  }
  double NanosecondsOfAnUpdate() {
    const auto start = std::chrono::steady_clock::now();
    for (size_t i = 0; i < kUpdates; ++i) ++map_[random_() % size_];
    const auto spent = std::chrono::steady_clock::now() - start;
    return std::chrono::duration<double, std::nano>(spent).count() / kUpdates;
  }

 private:
  const size_t size_;
  absl::flat_hash_map<uint64_t, uint64_t> map_;
  std::mt19937_64 random_;
};

void Measure() {
  CorePopulation few(kFew), many(kMany);
  HashMap small(kFew), large(kMany);
  auto medians = MediansOfAlternatingRuns(
      "ns", {{"event at 100 connectors", [&] { return few.Churn(kEvents); }},
             {"event at 100,000 connectors", [&] { return many.Churn(kEvents); }},
             {"update of a hash map of 100", [&] { return small.NanosecondsOfAnUpdate(); }},
             {"update of a hash map of 100,000", [&] { return large.NanosecondsOfAnUpdate(); }}});
  const double at_few = medians["event at 100 connectors"], at_many = medians["event at 100,000 connectors"];
  std::printf("  events a second: %.0f at 100 connectors, %.0f at 100,000\n", 1e9 / at_few, 1e9 / at_many);
  PrintRatio("core, an event at 100,000 connectors / at 100", at_many / at_few, "goal: at most 1.5");
  PrintRatio("core, events a second at 100,000 connectors / updates of a hash map of 100,000",
             medians["update of a hash map of 100,000"] / at_many, "reported");
  PrintRatio("core, events a second at 100 connectors / updates of a hash map of 100",
             medians["update of a hash map of 100"] / at_few, "reported");
}

}  // namespace
}  // namespace rdmabroker::bench

int main() { rdmabroker::bench::RunAsBenchmark(rdmabroker::bench::Measure); }
