// SPDX-License-Identifier: Apache-2.0

#include "tests/peers/peer.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/examples/opened_device.h"

namespace rdmabroker::peers {
namespace {

struct Options {
  std::string role;
  std::string socket;
  std::string device = "iwarp0";
  std::string address;
  std::string source = "0.0.0.0:0";
};

absl::Status Run(const Options& options, Task task, Role role) {
  const auto address = SocketAddress::Parse(options.address);
  if (!address) return absl::InvalidArgumentError(absl::StrCat("--address ", options.address, ": not an IP:PORT"));
  const auto source = SocketAddress::Parse(options.source);
  if (!source) return absl::InvalidArgumentError(absl::StrCat("--source ", options.source, ": not an IP:PORT"));
  const auto device = examples::OpenDevice(options.socket, options.device);
  if (!device.ok()) return device.status();
  task.adapter = device->adapter;
  task.address = *address;
  task.source = *source;
  absl::Status result = role(task);
  client::BlockingClose(task.adapter);
  if (result.ok()) {
    std::cout << task.connections << " connections done, " << task.count << " of " << task.size << " bytes on each"
              << std::endl;
  }
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<client::BlockingListener>> Listen(const Task& task) {
  auto [listening, listener] = client::BlockingListener::Listen(task.adapter, task.address);
  if (!listening.ok()) return examples::Report("listen", listening);
  std::cout << "listening on " << listener->address().ToString() << std::endl;
  return std::move(listener);
}

absl::Status AcceptNext(client::BlockingListener& listener, examples::Connection& connection) {
  auto [arrived, connector] = listener.Next(kPatience);
  return arrived.ok() ? connection.Accept(std::move(connector)) : examples::Report("listener", arrived);
}

absl::StatusOr<Connections> AcceptAll(const Task& task, const examples::ConnectionShape& shape) {
  Connections connections;
  while (connections.size() < task.connections) {
    auto connection = examples::Connection::Make(task.adapter, shape);
    if (!connection.ok()) return connection.status();
    connections.push_back(*std::move(connection));
  }
  const auto listener = Listen(task);
  if (!listener.ok()) return listener.status();
  for (const auto& connection : connections) {
    auto [arrived, connector] = (*listener)->Next(kPatience);
    if (!arrived.ok()) return examples::Report("listener", arrived);
    if (absl::Status started = connection->StartAccept(std::move(connector)); !started.ok()) return started;
  }
  for (const auto& connection : connections) {
    if (absl::Status accepted = connection->AwaitAccept(); !accepted.ok()) return accepted;
  }
  return connections;
}

absl::StatusOr<Connections> ConnectAll(const Task& task, const examples::ConnectionShape& shape) {
  Connections connections;
  while (connections.size() < task.connections) {
    auto connection = examples::Connection::Make(task.adapter, shape);
    if (!connection.ok()) return connection.status();
    if (absl::Status connected = (*connection)->Connect(task.source, task.address); !connected.ok()) return connected;
    connections.push_back(*std::move(connection));
  }
  return connections;
}

int Main(int argc, char** argv, const char* program, Role server, Role client) {
  Options options;
  Task task;
  CLI::App app{absl::StrCat("The other end of ", program, ".")};
  app.add_option("role", options.role)->required()->check(CLI::IsMember({"server", "client"}));
  app.add_option("--socket", options.socket, "The broker's control socket")->required();
  app.add_option("--device", options.device, "The device")->capture_default_str();
  app.add_option("--address", options.address, "Where to listen, or to connect to: IP:PORT")->required();
  app.add_option("--source", options.source, "The client's own address: IP:PORT, port 0 takes a free one");
  app.add_option("--connections", task.connections, "How many")->capture_default_str();
  app.add_option("--count", task.count, "Rounds or messages on each")->capture_default_str();
  app.add_option("--size", task.size, "Bytes of one")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const absl::Status result = Run(options, std::move(task), options.role == "server" ? server : client);
  if (!result.ok()) std::cerr << "the peer of " << program << ": " << result.message() << "\n";
  return result.ok() ? 0 : 1;
}

}  // namespace rdmabroker::peers
