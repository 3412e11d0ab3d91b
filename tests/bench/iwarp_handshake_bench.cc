// SPDX-License-Identifier: Apache-2.0

// Connections over user-space iWARP, through a broker beside the same ones on TCP and MPA directly. docs/benchmarks.md
// explains.

#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "client/control_socket.h"
#include "dataplane/ndk/socket_address.h"
#include "tests/bench/figures.h"
#include "tests/bench/handshake_board.h"
#include "tests/bench/handshake_ways.h"
#include "tests/bench/iwarp_handshakes.h"
#include "tests/bench/library_handshakes.h"
#include "tests/bench/memory_folder.h"
#include "tests/bench/processes.h"
#include "tests/bench/require.h"
#include "tests/bench/worker.h"
#include "tests/control/child_process.h"
#include "tests/control/patience.h"

namespace rdmabroker::bench {
namespace {

// rdma-brokerd as it is shipped, with its records on a tmpfs.
class BenchedBroker {
 public:
  BenchedBroker() {
    std::ofstream(folder_.path() + "/broker.toml") << "log.level = \"warning\"\n"
                                                   << "control.socket_directory = \"" << folder_.path() << "\"\n"
                                                   << "control.socket_group = \"\"\n";
    process_ = std::make_unique<ChildProcess>(
        std::vector<std::string>{"broker/rdma-brokerd", "--config", folder_.path() + "/broker.toml"});
    Require(Becomes([this] { return client::SomebodyListens(socket()); }), "the broker does not serve");
  }

  std::string socket() const { return folder_.path() + "/control.sock"; }
  pid_t pid() const { return process_->pid(); }

 private:
  const MemoryFolder folder_;
  std::unique_ptr<ChildProcess> process_;
};

// Makes what runs one side in its own process.
template <typename Side, typename... Arguments>
HandshakeWay::MakeHandler Runs(const Arguments&... arguments) {
  return [arguments...](HandshakeBoard& board) {
    const auto side = std::make_shared<Side>(arguments..., board);
    return [side](const Command& command) { side->Handle(command); };
  };
}

struct Row {
  const char* how;
  int groups;
  uint32_t connections;
  bool at_once;
  const char* goal;  // For the ratio of through the broker / direct.
};

const Row kRows[] = {
    {"one by one", 15, 50, false, "goal: at most 6.5"},
    {"64 at a time", 15, 64, true, "reported"},
    {"1,000 at once", 5, 1000, true, "reported"},
};

// 1,000 connections need more descriptors than the soft limit allows.
void RaiseDescriptorLimit() {
  rlimit limit = {};
  Require(::getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
  limit.rlim_cur = limit.rlim_max;
  Require(::setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
}

void Measure() {
  RaiseDescriptorLimit();
  const IpAddress ip = *IpAddress::Parse("127.0.0.1");
  const BenchedBroker serving;
  HandshakeWay direct("direct", Runs<IwarpPassiveSide>(ip), Runs<IwarpActiveSide>(ip), 0);
  const std::string device = "iwarp0";
  HandshakeWay broker("through the broker", Runs<LibraryPassiveSide>(serving.socket(), device, ip),
                      Runs<LibraryActiveSide>(serving.socket(), device, ip), serving.pid());
  for (const Row& row : kRows) {
    std::vector<double> whole, cpu;
    RunInTurn({&direct, &broker}, row.how, row.groups, row.connections, row.at_once,
              [&](const std::vector<GroupFigures>& figures) {
                whole.push_back(figures[1].microseconds / figures[0].microseconds);
                cpu.push_back(figures[1].server_cpu_microseconds / figures[0].cpu_microseconds);
                std::printf("  %s, us each: direct %.0f; broker %.0f, and of its processor time %.0f\n", row.how,
                            figures[0].microseconds, figures[1].microseconds, figures[1].server_cpu_microseconds);
                std::fflush(stdout);
              });
    const std::string name = std::string("user-space iWARP, connections ") + row.how + ", ";
    PrintRatio(name + "through the broker / direct", SpreadOf(whole), row.goal);
    PrintRatio(name + "processor time of the broker / of both sides directly", SpreadOf(cpu), "reported");
  }
}

}  // namespace
}  // namespace rdmabroker::bench

int main() { rdmabroker::bench::RunAsBenchmark(rdmabroker::bench::Measure); }
