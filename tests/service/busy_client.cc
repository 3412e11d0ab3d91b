// SPDX-License-Identifier: Apache-2.0

// Many connections of a device with itself, made by a broker, some of which carry messages all the time:
//
//   busy_client --socket SOCKET --device DEVICE --address IP --connections N --busy K
//
// Prints "established" and goes on until SIGTERM. Then every connection carries a message once more, all is closed, and
// it prints what it has seen. Exit status: 0 where nothing was lost. At SIGUSR1 it prints "carried on" as soon as each
// busy connection has carried further messages there and back, and ends where they do not.

#include <signal.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "tests/descriptor_limit.h"
#include "tests/service/busy_crowd.h"

namespace rdmabroker::service {
namespace {

sigset_t Signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGUSR1);
  return signals;
}

int Run(const BusyCrowd::Shape& shape) {
  // Before there are other threads, so that none of them takes it.
  const sigset_t signals = Signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  BusyCrowd crowd(shape);
  std::cout << "established" << std::endl;
  int signal = 0;
  while (::sigwait(&signals, &signal) == 0 && signal == SIGUSR1) {
    if (!crowd.chatter().CarryOn()) Fail("busy connections stand still");
    std::cout << "carried on" << std::endl;
  }
  const int status = crowd.Finish();
  std::cout << "closed" << std::endl;
  return status;
}

}  // namespace
}  // namespace rdmabroker::service

int main(int argc, char** argv) {
  rdmabroker::service::BusyCrowd::Shape shape{.connections = 1000, .busy = 16};
  CLI::App app{"Many connections, some of which carry messages all the time."};
  app.add_option("--socket", shape.socket, "The broker's control socket")->required();
  app.add_option("--device", shape.device, "The device")->required();
  app.add_option("--address", shape.address, "One of its addresses")->required();
  app.add_option("--connections", shape.connections, "How many")->capture_default_str();
  app.add_option("--busy", shape.busy, "Of them")->capture_default_str();
  app.add_option("--at-once", shape.at_once, "How many are made at a time")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  rdmabroker::RaiseDescriptorLimit();
  return rdmabroker::service::Run(shape);
}
