// SPDX-License-Identifier: Apache-2.0

// How long the broker is away where it dies under a thousand connections, and under none. docs/benchmarks.md explains.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/bench/figures.h"
#include "tests/control/patience.h"
#include "tests/control/temporary_folder.h"
#include "tests/integration/own_namespaces.h"
#include "tests/survive/crowd.h"
#include "tests/survive/kept_broker.h"

namespace rdmabroker::bench {
namespace {

constexpr int kDeaths = 5;  // Odd.

// From the daemon's death, but for the time that the keeper lets pass before it starts the next one: none after the
// first death, and more after each.
struct Absence {
  double until_ready_ms = 0;
  double until_answered_ms = 0;  // A request that was made at once.
  double until_all_ms = 0;       // One of each client, all made at once then.
};

// A broker with clients, each of which has so many connections.
class Brokerage {
 public:
  Brokerage(size_t clients, int connections_of_each) : crowd_(broker_.control_socket(), clients, "127.0.0.1") {
    std::printf("  %zu clients with %d connections each:\n", clients, connections_of_each);
    for (int i = 0; i < connections_of_each; ++i) (void)crowd_.Connect();
    for (int death = 0; death < kDeaths; ++death) absences_.push_back(Die());
    EXPECT_EQ(crowd_.Losses(), 0);
  }

  double Median(double Absence::*figure) const {
    std::vector<double> figures;
    for (const Absence& absence : absences_) figures.push_back(absence.*figure);
    return SpreadOf(figures).median;
  }

 private:
  Absence Die() {
    const absl::Duration killed = Crowd::Now();
    broker_.KillDaemon();
    crowd_.BeginAskAlone();
    EXPECT_TRUE(Becomes([this] { return broker_.IsReady(); }));
    const absl::Duration wait = broker_.LastWait();
    const absl::Duration ready = Crowd::Now() - killed - wait;
    const absl::Duration answered = crowd_.EndAskAlone(killed).slowest() - wait;
    const absl::Duration all = crowd_.Ask(killed).slowest() - wait;
    const Absence absence = {absl::ToDoubleMilliseconds(ready), absl::ToDoubleMilliseconds(answered),
                             absl::ToDoubleMilliseconds(all)};
    std::printf("    ready after %.0f ms; a request answered after %.0f ms, all clients' after %.0f ms\n",
                absence.until_ready_ms, absence.until_answered_ms, absence.until_all_ms);
    return absence;
  }

  const TemporaryFolder logs_;
  KeptBroker broker_{"", {KeptBroker::kDaemon}, logs_.path() + "/keeper"};
  Crowd crowd_;
  std::vector<Absence> absences_;
};

Absence Medians(size_t clients, int connections_of_each) {
  const Brokerage brokerage(clients, connections_of_each);
  return {brokerage.Median(&Absence::until_ready_ms), brokerage.Median(&Absence::until_answered_ms),
          brokerage.Median(&Absence::until_all_ms)};
}

TEST(SurvivalBench, TheBrokerIsAwayForAShortTime) {
  ASSERT_EQ(EnterOwnNamespaces(), "");
  PrintCircumstances();
  const Absence none = Medians(4, 0), connections = Medians(4, 250), clients = Medians(1000, 1);
  const double ready = connections.until_ready_ms, answered = connections.until_answered_ms;
  PrintRatio("survival, recovery with 1,000 connections / 1 s", ready / 1000, "goal: at most 1");
  PrintRatio("survival, the gap in which requests wait, with 1,000 connections / 100 ms", answered / 100,
             "goal: at most 1");
  PrintRatio("survival, recovery with 1,000 connections / without", ready / none.until_ready_ms, "reported");
  PrintRatio("survival, the gap with 1,000 connections / without", answered / none.until_answered_ms, "reported");
  PrintRatio("survival, recovery with 1,000 clients / 1 s", clients.until_ready_ms / 1000, "reported");
  PrintRatio("survival, until 1,000 clients have returned and had a request each answered / 1 s",
             clients.until_all_ms / 1000, "reported");
}

}  // namespace
}  // namespace rdmabroker::bench
