// SPDX-License-Identifier: Apache-2.0

// Connections made through a broker beside the same ones made on the kernel's connection manager directly, and beside
// the same messages with nothing behind. docs/benchmarks.md explains.

#include <sys/types.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dataplane/ndk/socket_address.h"
#include "tests/bench/bare_verbs.h"
#include "tests/bench/empty_handshakes.h"
#include "tests/bench/figures.h"
#include "tests/bench/handshake_board.h"
#include "tests/bench/handshake_ways.h"
#include "tests/bench/kernel_handshakes.h"
#include "tests/bench/library_handshakes.h"
#include "tests/bench/require.h"
#include "tests/bench/worker.h"
#include "tests/control/temporary_folder.h"

namespace rdmabroker::bench {
namespace {

constexpr uint32_t kOneByOne = 50;
constexpr uint32_t kAtOnce = 64;

struct Options {
  std::string socket;
  std::string device;
  std::string address;
  pid_t broker = 0;
  int groups_one_by_one = 20;
  int groups_at_once = 16;
};

// Both sides in one process that calls the kernel. Each has the device open for itself: siw has no more than 71 queue
// pairs for one opening of it.
class DirectSides {
 public:
  DirectSides(const std::string& device, const IpAddress& ip, HandshakeBoard& board)
      : board_(board), active_(device), passive_(device), handshakes_(ip, !active_.device.iwarp()) {}

  void Handle(const Command& command) {
    if (command.order == Order::kPrepare) return Prepare(command.connections);
    if (command.order == Order::kEnd) return End();
    if (command.at_once) {
      const auto times = handshakes_.Run(pairs_);
      std::copy(times.begin(), times.end(), board_.times.begin());
      return;
    }
    for (size_t index = 0; index < pairs_.size(); ++index) {
      board_.times[index] = handshakes_.Run({&pairs_[index], 1}).front();
    }
  }

 private:
  struct Side {
    explicit Side(const std::string& name)
        : device(name), queue(ibv_create_cq(device.context(), 2 * kAtOnce, nullptr, nullptr, 0)) {
      Require(queue != nullptr, "ibv_create_cq");
    }

    const BareDevice device;
    ibv_cq* const queue;
    std::vector<std::unique_ptr<BareQueuePair>> queue_pairs;
  };

  void Prepare(uint32_t connections) {
    for (uint32_t index = 0; index < connections; ++index) pairs_.push_back({NewEnd(active_), NewEnd(passive_)});
  }
  static HandshakeSide NewEnd(Side& side) {
    side.queue_pairs.push_back(std::make_unique<BareQueuePair>(side.device, side.queue, 2));
    BareQueuePair* const made = side.queue_pairs.back().get();
    return {made->number(), [made](const QpAttributes& step) { made->Move(step); }};
  }
  void End() {
    handshakes_.End();
    pairs_.clear();
    active_.queue_pairs.clear();
    passive_.queue_pairs.clear();
  }

  HandshakeBoard& board_;
  Side active_;
  Side passive_;
  KernelHandshakes handshakes_;
  std::vector<HandshakePair> pairs_;
};

class Comparison {
 public:
  Comparison(std::string device, HandshakeWay& direct, HandshakeWay& broker, HandshakeWay& empty)
      : device_(std::move(device)), direct_(direct), broker_(broker), empty_(empty) {}

  void Run(const std::string& how, int groups, uint32_t connections, bool at_once) {
    std::vector<double> added, added_cpu, whole;
    RunInTurn({&direct_, &broker_, &empty_}, how, groups, connections, at_once,
              [&](const std::vector<GroupFigures>& figures) {
                const auto& [direct, broker, empty] = std::tie(figures[0], figures[1], figures[2]);
                added.push_back((broker.microseconds - direct.microseconds) / empty.microseconds);
                added_cpu.push_back((broker.cpu_microseconds - direct.cpu_microseconds) / empty.cpu_microseconds);
                whole.push_back(broker.microseconds / direct.microseconds);
                std::printf(
                    "  %s, us each, and of processor time: direct %.0f, %.0f; broker %.0f, %.0f; empty %.0f, %.0f\n",
                    how.c_str(), direct.microseconds, direct.cpu_microseconds, broker.microseconds,
                    broker.cpu_microseconds, empty.microseconds, empty.cpu_microseconds);
                std::fflush(stdout);
              });
    const std::string name = device_ + ", connections " + how + ", ";
    PrintRatio(name + "time that the broker adds / the same messages sent empty", SpreadOf(added),
               "goal: at most 1.25");
    PrintRatio(name + "processor time that the broker adds / the same messages sent empty", SpreadOf(added_cpu),
               at_once ? "goal: at most 1.25" : "reported");
    PrintRatio(name + "through the broker / direct", SpreadOf(whole), "goal on hardware: at most 1.1");
  }

 private:
  const std::string device_;
  HandshakeWay& direct_;
  HandshakeWay& broker_;
  HandshakeWay& empty_;
};

void Measure(const Options& options) {
  const auto parsed = IpAddress::Parse(options.address);
  if (!parsed.has_value()) Fail("--address is no IP address");
  const IpAddress ip = *parsed;
  const TemporaryFolder folder;
  const std::string empty_path = folder.path() + "/control.sock";
  // Each process that uses gRPC is a child: neither it nor what it serves with survives a fork.
  const std::string recorded_path = folder.path() + "/recorded";
  const Worker empty_broker([&]() -> Worker::Handler {
    const RecordedHandshake recorded = Record(options.socket, options.device, ip);
    Save(recorded, recorded_path);
    const auto broker = std::make_shared<EmptyBroker>(empty_path, recorded);
    return [broker](const Command&) {};
  });
  HandshakeWay direct(
      "direct", {},
      [&](HandshakeBoard& board) {
        const auto sides = std::make_shared<DirectSides>(options.device, ip, board);
        return [sides](const Command& command) { sides->Handle(command); };
      },
      0);
  HandshakeWay broker(
      "through the broker",
      [&](HandshakeBoard& board) {
        const auto side = std::make_shared<LibraryPassiveSide>(options.socket, options.device, ip, board);
        return [side](const Command& command) { side->Handle(command); };
      },
      [&](HandshakeBoard& board) {
        const auto side = std::make_shared<LibraryActiveSide>(options.socket, options.device, ip, board);
        return [side](const Command& command) { side->Handle(command); };
      },
      options.broker);
  HandshakeWay empty(
      "the same messages sent empty",
      [&](HandshakeBoard& board) {
        const auto side = std::make_shared<EmptyPassiveSide>(empty_path, Load(recorded_path), board);
        return [side](const Command& command) { side->Handle(command); };
      },
      [&](HandshakeBoard& board) {
        const auto side = std::make_shared<EmptyActiveSide>(empty_path, Load(recorded_path), board);
        return [side](const Command& command) { side->Handle(command); };
      },
      empty_broker.process());
  Comparison comparison(options.device, direct, broker, empty);
  if (options.groups_one_by_one > 0) comparison.Run("one by one", options.groups_one_by_one, kOneByOne, false);
  if (options.groups_at_once > 0) comparison.Run("64 at a time", options.groups_at_once, kAtOnce, true);
}

}  // namespace
}  // namespace rdmabroker::bench

int main(int argc, char** argv) {
  rdmabroker::bench::Options options;
  CLI::App app{"Handshakes through a broker, directly on the kernel's connection manager, and their messages alone."};
  app.add_option("--socket", options.socket, "The broker's control socket")->required();
  app.add_option("--broker", options.broker, "The broker's process id")->required();
  app.add_option("--device", options.device, "One of the kernel's devices")->required();
  app.add_option("--address", options.address, "The device's IP address")->required();
  app.add_option("--groups-one-by-one", options.groups_one_by_one, "How often 50 connections are made in a row")
      ->capture_default_str();
  app.add_option("--groups-at-once", options.groups_at_once, "How often 64 are made at once")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  rdmabroker::bench::PrintCircumstances();
  rdmabroker::bench::Measure(options);
}
