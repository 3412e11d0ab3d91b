// SPDX-License-Identifier: Apache-2.0

// The other end of librdmacm's cmtime, over connections that a broker sets up.
//
// Nothing travels: the client makes all its connections and, when they stand, disconnects each. This one holds them
// until its standard input ends, so that somebody can count what cmtime's server has.

#include <iostream>
#include <string>

#include "absl/status/status.h"
#include "client/examples/connection.h"
#include "tests/peers/peer.h"

namespace rdmabroker::peers {
namespace {

constexpr examples::ConnectionShape kShape = {.limits = {.inbound = 1, .outbound = 1}, .patience = kPatience};

absl::Status Serve(const Task& task) {
  const auto connections = AcceptAll(task, kShape);
  if (!connections.ok()) return connections.status();
  for (const auto& connection : *connections) {
    absl::Status ended = connection->AwaitDisconnect();
    if (ended.ok()) ended = connection->Disconnect();
    if (!ended.ok()) return ended;
  }
  return absl::OkStatus();
}

absl::Status ConnectAndDisconnect(const Task& task) {
  const auto connections = ConnectAll(task, kShape);
  if (!connections.ok()) return connections.status();
  std::cout << connections->size() << " connections stand" << std::endl;
  for (std::string line; std::getline(std::cin, line);) continue;
  for (const auto& connection : *connections) {
    if (absl::Status ended = connection->Disconnect(); !ended.ok()) return ended;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace rdmabroker::peers

int main(int argc, char** argv) {
  using namespace rdmabroker::peers;
  return Main(argc, argv, "cmtime", Serve, ConnectAndDisconnect);
}
