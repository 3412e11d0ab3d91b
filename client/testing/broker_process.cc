// SPDX-License-Identifier: Apache-2.0

// Brokers over the fake fabric in a process of their own, for tests of a client: the broker and the data plane have
// types of the same names, and never share a process.
//
//   broker_process stream|handoff COUNT GRACE_MS HANDOFF_MS
//
// Prints the control socket of each of COUNT brokers, one a line, whose devices are fake1, fake2 ... with the addresses
// 192.0.2.1, 192.0.2.2 ... Stops them where its input says "s", and starts them again where it says "r", which it
// answers with "again". Removes their devices where it says "d". At the end of its input it exits: with 0 if the
// brokers hold nothing any more.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/control/network_thread.h"
#include "tests/control/test_daemon.h"

int main(int argc, char** argv) {
  using namespace rdmabroker;
  if (argc != 5) return 2;
  // Standard output itself is the brokers' log.
  std::FILE* const answers = ::fdopen(::dup(STDOUT_FILENO), "w");
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  NetworkThread network;
  Configuration configuration = TestConfiguration();
  configuration.limits.session_grace = absl::Milliseconds(std::atoi(argv[3]));
  configuration.limits.handoff_timeout = absl::Milliseconds(std::atoi(argv[4]));
  std::vector<std::unique_ptr<TestDaemon>> daemons;
  for (uint64_t id = 1; id <= static_cast<uint64_t>(std::atoi(argv[2])); ++id) {
    const FakeDevice device = std::string(argv[1]) == "handoff" ? TestHandoffDevice(id) : TestDevice(id);
    daemons.push_back(std::make_unique<TestDaemon>(network, std::vector<FakeDevice>{device}, configuration));
    std::fprintf(answers, "%s\n", daemons.back()->control_path().c_str());
  }
  std::fflush(answers);
  bool running = true;
  for (int command = std::getchar(); command != EOF; command = std::getchar()) {
    if (command == 'd') {
      for (uint64_t id = 1; id <= daemons.size(); ++id) {
        daemons[id - 1]->OnFabric([id](FakeFabric& fabric) { fabric.RemoveDevice(DeviceId(id)); });
      }
      continue;
    }
    running = command == 'r';
    for (const auto& daemon : daemons) running ? daemon->Start() : daemon->Stop();
    if (running) std::fprintf(answers, "again\n");
    std::fflush(answers);
  }
  if (!running) return 0;
  bool empty = true;
  for (const auto& daemon : daemons) {
    empty = empty && daemon->Eventually([](const Records& records) {
      return records.sessions.empty() && records.endpoints.empty() && records.connections.empty();
    });
  }
  return empty ? 0 : 1;
}
