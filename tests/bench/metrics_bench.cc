// SPDX-License-Identifier: Apache-2.0

// What metrics cost the loop thread: with each event, and with a scrape. docs/benchmarks.md explains.

#include <chrono>
#include <cstddef>
#include <cstdio>

#include "broker/core/broker_core.h"
#include "broker/monitoring/metrics.h"
#include "broker/monitoring/snapshot.h"
#include "tests/bench/core_population.h"
#include "tests/bench/figures.h"
#include "tests/bench/processes.h"

namespace rdmabroker::bench {
namespace {

constexpr size_t kFew = 100;
constexpr size_t kMany = 100'000;
constexpr size_t kEvents = 200'000;
constexpr int kSnapshots = 100;

using Clock = std::chrono::steady_clock;

double Nanoseconds(Clock::duration spent, size_t times) {
  return std::chrono::duration<double, std::nano>(spent).count() / static_cast<double>(times);
}

double ObserveNanoseconds(CorePopulation& population) {
  Metrics metrics;
  Clock::duration spent{};
  size_t events = 0;
  population.WithEachEvent([&](Instant now, const Event& event, const Effects& effects) {
    const auto start = Clock::now();
    metrics.Observe(now, event, effects);
    spent += Clock::now() - start;
    ++events;
  });
  population.Churn(kEvents);
  population.WithEachEvent(nullptr);
  return Nanoseconds(spent, events);
}

double SnapshotMicroseconds(const CorePopulation& population) {
  const auto start = Clock::now();
  for (int i = 0; i < kSnapshots; ++i) (void)TakeSnapshot(population.core());
  return Nanoseconds(Clock::now() - start, kSnapshots) / 1000;
}

void Measure() {
  CorePopulation few(kFew), many(kMany);
  auto events = MediansOfAlternatingRuns("ns", {{"event", [&] { return many.Churn(kEvents); }},
                                                {"observing an event", [&] { return ObserveNanoseconds(many); }},
                                                {"event, again", [&] { return many.Churn(kEvents); }}});
  auto snapshots = MediansOfAlternatingRuns(
      "us", {{"snapshot of 1,000 sessions with 100,000 connectors", [&] { return SnapshotMicroseconds(many); }},
             {"snapshot of 1 session with 100 connectors", [&] { return SnapshotMicroseconds(few); }}});
  PrintRatio("metrics, observing an event / the event, at 100,000 connectors",
             events["observing an event"] / events["event"], "goal: at most 0.2");
  PrintRatio("metrics, a snapshot of 1,000 sessions with 100,000 connectors / 10 ms",
             snapshots["snapshot of 1,000 sessions with 100,000 connectors"] / 10'000, "goal: at most 1");
}

}  // namespace
}  // namespace rdmabroker::bench

int main() { rdmabroker::bench::RunAsBenchmark(rdmabroker::bench::Measure); }
