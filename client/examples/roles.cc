// SPDX-License-Identifier: Apache-2.0

#include "client/examples/roles.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/control_socket.h"
#include "client/examples/opened_device.h"
#include "client/names/names.h"

namespace rdmabroker::examples {
namespace {

struct Options {
  std::string socket = client::ControlSocketPath();
  std::string device = "iwarp0";
  std::string address = "127.0.0.1:0";
  std::vector<std::string> servers;
  std::string name;
  uint32_t count = 0;
};

// An IP:PORT or a name: the first of its addresses, though others may be as good.
absl::StatusOr<SocketAddress> FindServer(const std::string& text) {
  if (!client::IsName(text)) return ParseAddress("--server", text);
  const client::Resolution resolution = client::ResolveName(text);
  if (!resolution.outcome.ok()) return Report(text.c_str(), resolution.outcome);
  return resolution.addresses.front();
}

absl::Status Run(const Options& options, const Role& role) {
  std::unique_ptr<client::NameRegistration> registration;
  Task task;
  task.announce = [&](const SocketAddress& address) {
    if (options.name.empty()) return absl::OkStatus();
    auto made = client::NameRegistration::Register(options.name, address);
    registration = std::move(made.registration);
    return Report(options.name.c_str(), made.outcome);
  };
  task.count = options.count;
  const auto address = ParseAddress("--address", options.address);
  if (!address.ok()) return address.status();
  task.address = *address;
  for (const std::string& text : options.servers) {
    const auto server = FindServer(text);
    if (!server.ok()) return server.status();
    task.servers.push_back(*server);
  }
  const auto device = OpenDevice(options.socket, options.device);
  if (!device.ok()) return device.status();
  task.adapter = device->adapter;
  absl::Status result = role.run(task);
  client::BlockingClose(task.adapter);
  return result;
}

CLI::App* AddRole(CLI::App& app, const char* name, const Role& role, Options* options) {
  CLI::App* const command = app.add_subcommand(name, absl::StrCat("The ", name));
  command->add_option("--socket", options->socket, "The broker's control socket")->capture_default_str();
  command->add_option("--device", options->device, "The device")->capture_default_str();
  command->add_option("--address", options->address, "Its own IP:PORT; port 0 takes a free one")->capture_default_str();
  if (role.count == nullptr) return command;
  command->add_option("--count", options->count, role.count)->check(CLI::PositiveNumber)->default_val(role.usual_count);
  return command;
}

}  // namespace

int Main(int argc, char** argv, const char* description, const Role& server, const Role& client) {
  Options of_server;
  Options of_client;
  CLI::App app{description};
  app.require_subcommand(1);
  CLI::App* const serve = AddRole(app, "server", server, &of_server);
  serve->add_option("--name", of_server.name, "A name to have in etcd meanwhile: rdma-broker://NAME");
  AddRole(app, "client", client, &of_client)
      ->add_option("--server", of_client.servers, "Where a server listens: IP:PORT, or rdma-broker://NAME")
      ->required();
  CLI11_PARSE(app, argc, argv);
  const absl::Status result = serve->parsed() ? Run(of_server, server) : Run(of_client, client);
  if (!result.ok()) std::cerr << argv[0] << ": " << result.message() << "\n";
  return result.ok() ? 0 : 1;
}

absl::StatusOr<std::unique_ptr<client::BlockingListener>> Listen(const Task& task) {
  auto [listening, listener] = client::BlockingListener::Listen(task.adapter, task.address);
  if (!listening.ok()) return Report("listen", listening);
  if (absl::Status status = task.announce(listener->address()); !status.ok()) return status;
  std::cout << "server: listening on " << listener->address().ToString() << std::endl;
  return std::move(listener);
}

}  // namespace rdmabroker::examples
