// SPDX-License-Identifier: Apache-2.0

// A client in a process of its own, for tests that kill, stop or freeze it: it listens on the port of 192.0.2.1 and
// accepts whoever connects, until its standard input ends. With "fork" a child that does nothing has its descriptors,
// too, until then.
//
//   client_process CONTROL_SOCKET PORT [fork]

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

void AwaitEndOfInput() {
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  ::_exit(0);
}

int Serve(const char* control_socket, uint16_t port, bool forks) {
  TestClient client(NewChannel(std::string("unix:") + control_socket));
  if (client.Open() != NdkStatus::kSuccess) return 1;
  client.Listen(client.OpenAdapter("fake1"), TestAddress(1, port));
  if (forks && ::fork() == 0) AwaitEndOfInput();
  std::puts("ready");
  std::fflush(stdout);
  std::thread(AwaitEndOfInput).detach();
  for (uint32_t qp = 0x100000u + port;; ++qp) {
    const v1::SessionEvent event = client.WaitForever();
    if (event.number() == 0) return 2;
    if (event.has_connect()) client.Accept(event.connect().connector_id(), qp);
  }
}

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) {
  const bool forks = argc == 4 && std::string(argv[3]) == "fork";
  if (argc != 3 && !forks) return 64;
  return rdmabroker::Serve(argv[1], static_cast<uint16_t>(std::atoi(argv[2])), forks);
}
