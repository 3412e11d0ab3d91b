// SPDX-License-Identifier: Apache-2.0

// A client that listens over user-space iWARP and decides about no connect request, so that a test can stop it
// meanwhile.
//
//   counting_listener CONTROL_SOCKET
//
// Prints its address, then to each line of its standard input how many requests have been delivered, and by how many
// texts they differ with which their private data begin. Ends at the end of its input.

#include <cstdint>
#include <cstdlib>
#include <future>
#include <iostream>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "client/adapter.h"
#include "client/blocking.h"
#include "client/connector.h"
#include "client/listener.h"
#include "client/session.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/ndk/status.h"

namespace rdmabroker {
namespace {

class Count {
 public:
  void Add(std::shared_ptr<client::Connector> connector) {
    char text[512] = {};
    uint32_t length = sizeof text - 1;
    const bool readable = connector->GetConnectionData(nullptr, nullptr, text, &length) == NdkStatus::kSuccess;
    const std::lock_guard lock(mutex_);
    if (readable) texts_.insert(text);
    delivered_.push_back(std::move(connector));
  }
  std::string Text() {
    const std::lock_guard lock(mutex_);
    return std::to_string(delivered_.size()) + " " + std::to_string(texts_.size());
  }

 private:
  std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<std::shared_ptr<client::Connector>> delivered_;
  std::set<std::string> texts_;
};

[[noreturn]] void Stray(const client::Outcome& outcome) {
  std::cerr << "counting_listener: " << outcome.hint << "\n";
  std::_Exit(1);
}

void Serve(const std::string& socket) {
  client::SessionOptions options;
  options.control_socket = socket;
  const auto opening = client::Session::Open(std::move(options));
  if (!opening.outcome.ok()) Stray(opening.outcome);
  const auto [outcome, adapter] = client::BlockingOpenAdapter(*opening.session, "iwarp0");
  if (!outcome.ok()) Stray(outcome);
  Count count;
  std::shared_ptr<client::Listener> listener;
  std::promise<client::Outcome> listening;
  adapter->CreateListener([&count](std::shared_ptr<client::Connector> connector) { count.Add(std::move(connector)); },
                          [&](const client::Outcome& created, std::shared_ptr<client::Listener> made) {
                            if (!created.ok()) return listening.set_value(created);
                            listener = std::move(made);
                            listener->Listen(SocketAddress{*IpAddress::Parse("127.0.0.1"), 0},
                                             [&](const client::Outcome& done) { listening.set_value(done); });
                          });
  if (const client::Outcome done = listening.get_future().get(); !done.ok()) Stray(done);
  std::cout << listener->address()->ToString() << std::endl;
  for (std::string line; std::getline(std::cin, line);) std::cout << count.Text() << std::endl;
  std::_Exit(0);
}

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  // Debian's Abseil ends the process where it thinks that gRPC's locks might lead to a deadlock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  rdmabroker::Serve(argv[1]);
}
