// SPDX-License-Identifier: Apache-2.0

// A shared endpoint: one local address from which a process connects to many peers. The address stays reserved by its
// references, the endpoint's own and each connector's, and so until the last of them is closed.

#include <future>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/examples/connection.h"
#include "client/examples/opened_device.h"
#include "client/examples/roles.h"

namespace rdmabroker::examples {
namespace {

constexpr ConnectionShape kShape = {.message_size = 64};
using Connections = std::vector<std::unique_ptr<Connection>>;

absl::StatusOr<Connections> ConnectAll(const Task& task, const std::shared_ptr<client::SharedEndpoint>& endpoint) {
  Connections connections;
  for (const SocketAddress& server : task.servers) {
    auto connection = Connection::Make(task.adapter, kShape);
    if (!connection.ok()) return connection.status();
    if (absl::Status status = (*connection)->Connect(endpoint, server); !status.ok()) return status;
    const auto data = (*connection)->connector().connection_data();
    std::cout << "client: " << data->local.ToString() << " to " << data->peer.ToString() << std::endl;
    if (data->local != endpoint->address()) return absl::InternalError("connected from another address");
    connections.push_back(*std::move(connection));
  }
  return connections;
}

// Whether somebody holds the address, as the next who wants it learns.
absl::Status ExpectHeld(const Task& task, const SocketAddress& address, bool held) {
  const auto [outcome, reservation] = client::BlockingReservePort(task.adapter, address);
  if (reservation != nullptr) client::BlockingClose(reservation);
  std::cout << "client: " << address.ToString() << (outcome.ok() ? " is free" : " is held") << std::endl;
  if (outcome.ok() || outcome.status == NdkStatus::kSharingViolation) {
    return outcome.ok() != held ? absl::OkStatus() : absl::InternalError("the opposite should be so");
  }
  return Report("reserve", outcome);
}

absl::Status ConnectToMany(const Task& task) {
  auto [made, endpoint] = client::BlockingCreateSharedEndpoint(task.adapter, task.address);
  if (!made.ok()) return Report("shared endpoint", made);
  const SocketAddress address = endpoint->address();
  auto connections = ConnectAll(task, endpoint);
  // From now on nobody can connect through it; those who have are not concerned.
  std::promise<void> closed;
  if (endpoint->Close([&closed] { closed.set_value(); }) != NdkStatus::kPending) closed.set_value();
  std::future<void> close = closed.get_future();
  if (!connections.ok()) return close.wait(), connections.status();
  absl::Status status;
  while (!connections->empty() && status.ok()) {
    status = ExpectHeld(task, address, true);
    Connection& last = *connections->back();
    const std::string question = absl::StrCat("hello, ", last.connector().connection_data()->peer.ToString());
    if (status.ok()) status = last.ExpectEcho(question);
    if (status.ok()) status = last.Disconnect();
    connections->pop_back();
  }
  connections->clear();
  close.wait();
  return status.ok() ? ExpectHeld(task, address, false) : status;
}

absl::Status Serve(const Task& task) {
  const auto listener = Listen(task);
  if (!listener.ok()) return listener.status();
  for (uint32_t i = 0; i < task.count; ++i) {
    auto connection = Connection::Make(task.adapter, kShape);
    if (!connection.ok()) return connection.status();
    auto [arrived, connector] = (*listener)->Next();
    if (!arrived.ok()) return Report("listener", arrived);
    absl::Status status = (*connection)->Accept(std::move(connector));
    if (!status.ok()) return status;
    const auto question = (*connection)->Echo();
    if (!question.ok()) return question.status();
    std::cout << "server: somebody said \"" << *question << "\"" << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace rdmabroker::examples

int main(int argc, char** argv) {
  using namespace rdmabroker::examples;
  return Main(argc, argv, "Connects to many servers from one local address. A server for each --server.",
              {Serve, "End after so many clients"}, {ConnectToMany});
}
