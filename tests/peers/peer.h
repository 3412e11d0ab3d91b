// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_PEERS_PEER_H_
#define TESTS_PEERS_PEER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/adapter.h"
#include "client/blocking.h"
#include "client/examples/connection.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker::peers {

// For anything that the other program is to do, which runs in an emulated machine.
inline constexpr std::chrono::seconds kPatience{30};

// What the command line asks of a peer.
struct Task {
  std::shared_ptr<client::Adapter> adapter;
  SocketAddress address;  // Where the server listens.
  SocketAddress source;   // The client's own.
  uint32_t connections = 1;
  uint32_t count = 1;  // Of the protocol's rounds or messages on each connection.
  uint32_t size = 64;  // Bytes of one.
};

using Connections = std::vector<std::unique_ptr<examples::Connection>>;

// A listener at the task's address, which it says on standard output.
absl::StatusOr<std::unique_ptr<client::BlockingListener>> Listen(const Task& task);
// With the next connection that somebody makes to it.
absl::Status AcceptNext(client::BlockingListener& listener, examples::Connection& connection);
// As many as the task says. siw's clients wait for 5 s only (MPAREP_TIMEOUT): whoever listens has all of them ready,
// and accepts each as it comes.
absl::StatusOr<Connections> AcceptAll(const Task& task, const examples::ConnectionShape& shape);
absl::StatusOr<Connections> ConnectAll(const Task& task, const examples::ConnectionShape& shape);

// The other end of a program's protocol.
using Role = absl::Status (*)(const Task& task);

// A peer's main: `program` is the one at the other end. 0 when its role has succeeded.
int Main(int argc, char** argv, const char* program, Role server, Role client);

}  // namespace rdmabroker::peers

#endif  // TESTS_PEERS_PEER_H_
