// SPDX-License-Identifier: Apache-2.0

// Instructions of a round trip on dataplane/verbs beside the same loop on libibverbs, over a stand-in for the device.
// docs/benchmarks.md explains.
//
//   instructions_bench                         counts both, by callgrind
//   instructions_bench CONTENDER ROUND_TRIPS   what callgrind runs

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "dataplane/adapter.h"
#include "dataplane/ndk/qp_attributes.h"
#include "dataplane/verbs/adapter.h"
#include "dataplane/verbs/testing/attach.h"
#include "dataplane/verbs/testing/stand_in.h"
#include "tests/bench/bare_verbs.h"
#include "tests/bench/data_plane_end.h"
#include "tests/bench/figures.h"
#include "tests/bench/processes.h"
#include "tests/bench/require.h"

namespace rdmabroker::bench {
namespace {

constexpr char kBare[] = "libibverbs";
constexpr char kDataPlane[] = "dataplane/verbs";
constexpr uint32_t kDepth = 32;
constexpr uint32_t kBuffer = 4096;  // Bytes.
constexpr uint32_t kPing = 64;      // Bytes.
// More than a queue is deep, so that its ring has come round.
constexpr int kWarmUp = 100;
constexpr int kFewTrips = 1000;
constexpr int kManyTrips = 3000;

// Where callgrind begins or ends to count: it counts within the first, but not within the others there, where the
// stand-in does a device's work.
constexpr std::array<const char*, 4> kToggles = {
    "rdmabroker::bench::(anonymous namespace)::Counted(*",
    "rdmabroker::verbs::(anonymous namespace)::PostSend(*",
    "rdmabroker::verbs::(anonymous namespace)::PostReceive(*",
    "rdmabroker::verbs::PollQueue(*",
};
// A loop on libibverbs has less than this. With one of the stand-in's functions it would have more.
constexpr double kMostOfBare = 1000;

[[gnu::noinline]] void Counted(const std::function<void()>& round_trip, int round_trips) {
  for (int i = 0; i < round_trips; ++i) round_trip();
}

template <typename End>
void Run(End& one, End& other, int round_trips) {
  for (const QpAttributes& step : verbs::TransitionsTo(other.number())) one.Move(step);
  for (const QpAttributes& step : verbs::TransitionsTo(one.number())) other.Move(step);
  one.Establish();
  other.Establish();
  other.PostReceive(kPing);
  const std::function<void()> round_trip = [&] { RoundTrip(kPing, one, other); };
  for (int i = 0; i < kWarmUp; ++i) round_trip();
  Counted(round_trip, round_trips);
}

void Run(const std::string& contender, int round_trips) {
  if (contender == kBare) {
    const BareDevice device(verbs::StandIn::kName);
    BareEnd one(device, kDepth, kBuffer), other(device, kDepth, kBuffer);
    return Run(one, other, round_trips);
  }
  const Created<Adapter> adapter = verbs::OpenAdapter(verbs::StandIn::kName);
  RequireSuccess(adapter.status, "OpenAdapter");
  DataPlaneEnd one(*adapter.object, kDepth, kBuffer), other(*adapter.object, kDepth, kBuffer);
  Run(one, other, round_trips);
}

double InstructionsOf(const std::string& contender, int round_trips) {
  std::vector<std::string> command = {"valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"};
  for (const char* const toggle : kToggles) command.push_back(std::string("--toggle-collect=") + toggle);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  command.insert(command.end(), {self, contender, std::to_string(round_trips)});
  const std::string text = RunProgram("callgrind", command);
  const std::string before = "Collected : ";
  const size_t at = text.find(before);
  Require(at != std::string::npos, "callgrind does not say what it has collected: " + text);
  return std::strtod(text.c_str() + at + before.size(), nullptr);
}

// Without what the stand-in does before Counted, which is the same in each run.
double InstructionsOfRoundTrip(const std::string& contender) {
  const double more = InstructionsOf(contender, kManyTrips) - InstructionsOf(contender, kFewTrips);
  const double each = more / (kManyTrips - kFewTrips);
  std::printf("  64-byte SEND round trip, %s, instructions: %.1f\n", contender.c_str(), each);
  return each;
}

void Measure() {
  const double bare = InstructionsOfRoundTrip(kBare);
  Require(bare > 0 && bare < kMostOfBare, "callgrind does not count what it should: the names of kToggles are others");
  PrintRatio("instructions of a 64-byte SEND round trip, dataplane/verbs / libibverbs",
             InstructionsOfRoundTrip(kDataPlane) / bare, "reported");
}

}  // namespace
}  // namespace rdmabroker::bench

int main(int argc, char** argv) {
  if (argc == 3) {
    rdmabroker::bench::Run(argv[1], std::atoi(argv[2]));
    std::_Exit(0);
  }
  rdmabroker::bench::RunAsBenchmark(rdmabroker::bench::Measure);
}
