// SPDX-License-Identifier: Apache-2.0

// A client with connections over one device, for a test to kill.
//
//   connected_client CONTROL_SOCKET DEVICE COUNT [PEER]
//
// Prints the number of a queue pair that no connection has. With PEER it connects to that COUNT times; without, it
// listens, prints where, and accepts so often. Then it prints "there" and waits for the end of its standard input.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "dataplane/ndk/socket_address.h"
#include "tests/integration/held_connections.h"

namespace {

void Print(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return 64;
  rdmabroker::HeldConnections held(argv[1], argv[2]);
  const auto count = static_cast<size_t>(std::atoi(argv[3]));
  Print(std::to_string(held.spare_queue_pair()));
  if (argc == 5) {
    held.Connect(*rdmabroker::SocketAddress::Parse(argv[4]), count);
  } else {
    Print(held.Listen().ToString());
    held.Accept(count);
  }
  if (testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed()) return 1;
  Print("there");
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) continue;
  return 0;
}
