// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_EXAMPLES_ROLES_H_
#define CLIENT_EXAMPLES_ROLES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/adapter.h"
#include "client/blocking.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker::examples {

// What the command line asks of a role.
struct Task {
  std::shared_ptr<client::Adapter> adapter;
  SocketAddress address;               // This side's own; port 0 takes a free one.
  std::vector<SocketAddress> servers;  // Where servers listen; of a client only, which has one at least.
  // What a server does with the address at which it listens: tells those who ask for its name, where it has one.
  std::function<absl::Status(const SocketAddress&)> announce;
  uint32_t count = 1;  // As the role's help says.
};

struct Role {
  absl::Status (*run)(const Task& task);
  const char* count = nullptr;  // Of what; null: the role has no use for it.
  uint32_t usual_count = 1;
};

// The main function of a program that is started twice, as a server and as a client. 0 when its role has succeeded.
int Main(int argc, char** argv, const char* description, const Role& server, const Role& client);

// A listener at the task's address, which it says on standard output.
absl::StatusOr<std::unique_ptr<client::BlockingListener>> Listen(const Task& task);

}  // namespace rdmabroker::examples

#endif  // CLIENT_EXAMPLES_ROLES_H_
