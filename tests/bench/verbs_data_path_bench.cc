// SPDX-License-Identifier: Apache-2.0

// dataplane/verbs beside the same loops on bare libibverbs. docs/benchmarks.md explains.

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

#include "dataplane/adapter.h"
#include "dataplane/ndk/qp_attributes.h"
#include "dataplane/verbs/adapter.h"
#include "tests/bench/bare_verbs.h"
#include "tests/bench/data_plane_end.h"
#include "tests/bench/figures.h"
#include "tests/bench/handshake_times.h"
#include "tests/bench/kernel_handshakes.h"
#include "tests/bench/require.h"

namespace rdmabroker::bench {
namespace {

constexpr uint32_t kDepth = 32;
constexpr uint32_t kPing = 64;  // Bytes.
constexpr int kPings = 400;
constexpr uint32_t kMessage = 64 * 1024;  // Bytes.
constexpr int kMessages = 64;
constexpr int kWindow = 16;

template <typename End>
void Connect(KernelHandshakes& handshakes, End& one, End& other) {
  const auto side = [](End& end) {
    return HandshakeSide{end.number(), [&end](const QpAttributes& step) { end.Move(step); }};
  };
  const HandshakePair pair = {side(one), side(other)};
  handshakes.Run({&pair, 1});
  one.Establish();
  other.Establish();
  other.PostReceive(kPing);
}

// Microseconds for a round trip.
template <typename End>
double RoundTrips(End& one, End& other) {
  const int64_t start = NanosecondsNow();
  for (int i = 0; i < kPings; ++i) RoundTrip(kPing, one, other);
  return static_cast<double>(NanosecondsNow() - start) / kPings * 1e-3;
}

// MiB a second, by writes of which a window is under way.
template <typename End>
double WriteBandwidth(End& one, End& other) {
  const int64_t start = NanosecondsNow();
  for (int i = 0; i < kMessages; ++i) {
    if (i >= kWindow) one.Await(1);
    one.PostWrite(kMessage, other);
  }
  one.Await(std::min(kWindow, kMessages));
  return kMessages * (kMessage / 1048576.0) / static_cast<double>(NanosecondsNow() - start) * 1e9;
}

void Measure(const std::string& name, const IpAddress& address, int pairs) {
  const BareDevice device(name);
  BareEnd bare_one(device, kDepth, kMessage), bare_other(device, kDepth, kMessage);
  const Created<Adapter> adapter = verbs::OpenAdapter(name);
  RequireSuccess(adapter.status, "OpenAdapter");
  DataPlaneEnd one(*adapter.object, kDepth, kMessage), other(*adapter.object, kDepth, kMessage);
  KernelHandshakes bare_handshakes(address, !device.iwarp()), handshakes(address, !device.iwarp());
  Connect(bare_handshakes, bare_one, bare_other);
  Connect(handshakes, one, other);

  const Contender bare_trip = {"64-byte SEND round trip, libibverbs", [&] { return RoundTrips(bare_one, bare_other); }};
  const Contender trip = {"64-byte SEND round trip, dataplane/verbs", [&] { return RoundTrips(one, other); }};
  const Contender bare_stream = {"64 KiB WRITE, libibverbs", [&] { return WriteBandwidth(bare_one, bare_other); }};
  const Contender stream = {"64 KiB WRITE, dataplane/verbs", [&] { return WriteBandwidth(one, other); }};
  for (const Contender& warm_up : {bare_trip, trip, bare_stream, stream}) warm_up.run();
  PrintRatio(name + ", 64-byte SEND round trip, dataplane/verbs / libibverbs",
             RatioOfPairs("us", pairs, trip, bare_trip), "goal: at most 1.02");
  PrintRatio(name + ", 64 KiB WRITE bandwidth, dataplane/verbs / libibverbs",
             RatioOfPairs("MiB/s", pairs, stream, bare_stream), "goal: at least 0.98");
}

}  // namespace
}  // namespace rdmabroker::bench

int main(int argc, char** argv) {
  std::string device, address;
  int pairs = 20;
  CLI::App app{"dataplane/verbs beside the same loops on bare libibverbs."};
  app.add_option("--device", device, "One of the kernel's devices")->required();
  app.add_option("--address", address, "The device's IP address")->required();
  app.add_option("--pairs", pairs, "How often each loop runs")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const auto ip = rdmabroker::IpAddress::Parse(address);
  if (!ip.has_value()) rdmabroker::bench::Fail("--address is no IP address");
  rdmabroker::bench::PrintCircumstances();
  rdmabroker::bench::Measure(device, *ip, pairs);
}
