// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_BENCH_PROCESSES_H_
#define TESTS_BENCH_PROCESSES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dataplane/unique_fd.h"

namespace rdmabroker::bench {

// Whatever is measured between two processes is measured so: one on the first core that this process may use and one on
// the second, both above everything else on the machine where that is permitted (SCHED_RR), connected over loopback.
// A process that fails or takes more than a minute ends the benchmark.

// The main function of a benchmark: prints the circumstances and runs `measure`, with this process and what it starts
// above everything else on the machine.
void RunAsBenchmark(const std::function<void()>& measure);

// Runs `target` and `source`, each in a process of its own with one end of a TCP connection. Returns what `source`
// does.
double RunPair(const std::function<void(UniqueFd)>& target, const std::function<double(UniqueFd)>& source);

// Runs somebody else's program: a server, and once it listens on the port a client. `command` makes the arguments from
// the port. Returns what the client printed, and keeps it in Bazel's undeclared outputs as `name`.
using PeerCommand = std::function<std::vector<std::string>(const std::string& port)>;
std::string RunPeer(const std::string& name, const PeerCommand& server, const PeerCommand& client);

// Runs a program to its end. Returns what it printed, and keeps it in Bazel's undeclared outputs as `name`.
std::string RunProgram(const std::string& name, const std::vector<std::string>& command);

}  // namespace rdmabroker::bench

#endif  // TESTS_BENCH_PROCESSES_H_
