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
#include <string>

#include "dataplane/ndk/socket_address.h"
#include "tests/descriptor_limit.h"
#include "tests/service/chatter.h"
#include "tests/service/crowd.h"

namespace rdmabroker::service {
namespace {

struct Options {
  std::string socket;
  std::string device;
  std::string address;
  size_t connections = 1000;
  size_t busy = 16;
  size_t at_once = 32;
};

sigset_t Signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGUSR1);
  return signals;
}

int Run(const Options& options) {
  // Before there are other threads, so that none of them takes it.
  const sigset_t signals = Signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const auto ip = IpAddress::Parse(options.address);
  Require(ip.has_value(), "--address is no IP address");
  Chatter chatter(options.connections, options.busy);
  const auto wake = [&chatter](NdkStatus) { chatter.Wake(); };
  Side active(options.socket, options.device, options.connections, wake,
              [&](size_t number) { return chatter.ActiveEnd(number); });
  Side passive(options.socket, options.device, options.connections, wake,
               [&](size_t number) { return chatter.PassiveEnd(number); });
  chatter.Prepare(active.domain(), active.queue(), active.queue_pairs(), true);
  chatter.Prepare(passive.domain(), passive.queue(), passive.queue_pairs(), false);
  Crowd crowd(active, passive, *ip);
  crowd.Establish(options.at_once);
  chatter.Start();
  std::cout << "established" << std::endl;
  int signal = 0;
  while (::sigwait(&signals, &signal) == 0 && signal == SIGUSR1) {
    if (!chatter.CarryOn()) Fail("busy connections stand still");
    std::cout << "carried on" << std::endl;
  }
  if (!chatter.Stop()) Fail("messages stay without an answer");
  const size_t disconnects = active.disconnects() + passive.disconnects();
  const Chatter::Counts& counts = chatter.counts();
  std::cout << counts.messages << " messages, " << counts.bad << " bad sums, " << counts.failures
            << " failed requests, " << disconnects << " disconnects; the longest wait for an answer was "
            << counts.longest_silence.count() << " ms" << std::endl;
  crowd.Close();
  chatter.CloseRegions();
  active.Close();
  passive.Close();
  std::cout << "closed" << std::endl;
  return counts.messages > 0 && counts.bad == 0 && counts.failures == 0 && disconnects == 0 ? 0 : 1;
}

}  // namespace
}  // namespace rdmabroker::service

int main(int argc, char** argv) {
  rdmabroker::service::Options options;
  CLI::App app{"Many connections, some of which carry messages all the time."};
  app.add_option("--socket", options.socket, "The broker's control socket")->required();
  app.add_option("--device", options.device, "The device")->required();
  app.add_option("--address", options.address, "One of its addresses")->required();
  app.add_option("--connections", options.connections, "How many")->capture_default_str();
  app.add_option("--busy", options.busy, "Of them")->capture_default_str();
  app.add_option("--at-once", options.at_once, "How many are made at a time")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  rdmabroker::RaiseDescriptorLimit();
  return rdmabroker::service::Run(options);
}
