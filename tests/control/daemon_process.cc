// SPDX-License-Identifier: Apache-2.0

// A test daemon in a process of its own, for tests that look at it from another namespace: it says where its folder is,
// and serves until its standard input ends.

#include <unistd.h>

#include <cstdio>

#include "tests/control/network_thread.h"
#include "tests/control/test_daemon.h"

int main() {
  rdmabroker::NetworkThread network;
  rdmabroker::TestDaemon daemon(network);
  std::puts(daemon.folder().c_str());
  std::fflush(stdout);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
