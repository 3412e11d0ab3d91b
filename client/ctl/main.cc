// SPDX-License-Identifier: Apache-2.0

// rdma-brokerctl: shows what a broker holds and what becomes of it, says why a connector is as it is, administers it,
// here or over TCP, and looks for what is missing.

#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/control_socket.h"
#include "client/ctl/broker_queries.h"
#include "client/ctl/doctor/doctor.h"
#include "client/ctl/drain.h"
#include "client/ctl/output.h"
#include "client/ctl/remote_channel.h"
#include "client/ctl/watch.h"
#include "deploy/debian/version.h"

namespace {

using rdmabroker::ctl::BrokerQueries;
using rdmabroker::ctl::ExitCode;
using rdmabroker::ctl::OutputForm;
using rdmabroker::ctl::RemoteBroker;

constexpr char kFooter[] =
    "Exit status: 0 done; 1 the broker refuses or fails, a device is not drained in time, or the doctor finds a "
    "problem; 2 wrong usage; 3 no broker answers on the socket, which for the doctor is a problem.";

// What the subcommands take.
struct Arguments {
  std::string socket = rdmabroker::client::ControlSocketPath();
  RemoteBroker broker;  // In place of the socket, where it has an address.
  OutputForm form = OutputForm::kTable;
  uint64_t session = 0;
  uint64_t connector = 0;
  std::vector<std::string> kinds;
  std::string device;
  bool all_devices = false;
  std::string level;
  uint32_t wait_seconds = 0;
  uint32_t drain_seconds = 300;  // A client that is told has a few minutes for what it is at.
};

// What the two need: a device, or the wish for all of them.
std::vector<std::string> DevicesOf(const Arguments& arguments) {
  return arguments.all_devices ? std::vector<std::string>() : std::vector<std::string>{arguments.device};
}

void TakeDevice(CLI::App& app, Arguments& arguments) {
  app.add_option("NAME", arguments.device, "The device")->required();
}

void TakeDevices(CLI::App& app, Arguments& arguments) {
  CLI::Option* const all = app.add_flag("--all", arguments.all_devices, "Every device of the node");
  CLI::Option* const name = app.add_option("NAME", arguments.device, "The device");
  name->excludes(all);
  app.callback([name, all] {
    if (name->count() + all->count() == 0) throw CLI::RequiredError("NAME or --all");
  });
}

// By the socket alone.
ExitCode Diagnose(BrokerQueries&, const Arguments& arguments) {
  const rdmabroker::ctl::Findings findings = rdmabroker::ctl::Examine(arguments.socket);
  std::cout << rdmabroker::ctl::ShowFindings(findings, arguments.form) << std::flush;
  return rdmabroker::ctl::HasProblem(findings) ? ExitCode::kRefused : ExitCode::kDone;
}

ExitCode Watch(BrokerQueries& queries, const Arguments& arguments) {
  // Lines are written whole, and nothing else is to be tidied up.
  ::signal(SIGINT, [](int) { ::_exit(0); });
  // Who reads the lines may have had enough.
  ::signal(SIGPIPE, SIG_IGN);
  return rdmabroker::ctl::WatchRows(queries, arguments.kinds, arguments.form, std::cout, std::cerr);
}

// One thing that the program does. What prints at its end leaves that to `queries`.
struct Subcommand {
  const char* name;
  const char* what;
  void (*take)(CLI::App& app, Arguments& arguments);
  ExitCode (*run)(BrokerQueries& queries, const Arguments& arguments);  // Null: the list of that name.
};

constexpr Subcommand kSubcommands[] = {
    {"adapters", "RDMA devices and what they can do", nullptr, nullptr},
    {"sessions", "Client processes", nullptr, nullptr},
    {"endpoints", "Local addresses in use, with their reference counts", nullptr, nullptr},
    {"listeners", "Listeners", nullptr, nullptr},
    {"shared-endpoints", "Shared endpoints", nullptr, nullptr},
    {"reservations", "Addresses held without listening", nullptr, nullptr},
    {"connectors", "Connections and what becomes one", nullptr, nullptr},
    {"watch", "Prints what there is and each change of it, until it is interrupted",
     [](CLI::App& app, Arguments& arguments) {
       app.add_option("KIND", arguments.kinds, "What to watch, as the commands that list it; without one, all")
           ->check(CLI::IsMember(rdmabroker::ctl::WatchedKinds()));
     },
     Watch},
    {"explain", "Why a connector is as it is, what it waits for, and what to do",
     [](CLI::App& app, Arguments& arguments) {
       app.add_option("CONNECTOR", arguments.connector, "The connector")->required();
     },
     [](BrokerQueries& queries, const Arguments& arguments) { return queries.Explain(arguments.connector); }},
    {"doctor", "What is missing here for RDMA, and the command that mends it; works without a broker", nullptr,
     Diagnose},
    {"health", "Whether the broker serves, for probes: exit status 0 where it does", nullptr,
     [](BrokerQueries& queries, const Arguments&) { return queries.Health(); }},
    {"end-session", "Ends a session with everything in it; for administrators",
     [](CLI::App& app, Arguments& arguments) { app.add_option("ID", arguments.session, "The session")->required(); },
     [](BrokerQueries& queries, const Arguments& arguments) { return queries.EndSession(arguments.session); }},
    {"disable-adapter", "Lets nobody open a device any more, and has its clients close it; for administrators",
     [](CLI::App& app, Arguments& arguments) {
       TakeDevice(app, arguments);
       app.add_option("--wait", arguments.wait_seconds, "Seconds to wait until its last adapter is closed");
     },
     [](BrokerQueries& queries, const Arguments& arguments) {
       return queries.DisableAdapter(arguments.device, std::chrono::seconds(arguments.wait_seconds));
     }},
    {"enable-adapter", "Ends what disable-adapter has begun; for administrators", TakeDevice,
     [](BrokerQueries& queries, const Arguments& arguments) { return queries.EnableAdapter(arguments.device); }},
    {"drain", "Takes a device out of service and waits until nobody has anything of it; for administrators",
     [](CLI::App& app, Arguments& arguments) {
       TakeDevices(app, arguments);
       app.add_option("--wait", arguments.drain_seconds, "Seconds to wait")->capture_default_str();
     },
     [](BrokerQueries& queries, const Arguments& arguments) {
       return rdmabroker::ctl::Drain(queries, DevicesOf(arguments), std::chrono::seconds(arguments.drain_seconds),
                                     arguments.form, std::cout, std::cerr);
     }},
    {"undrain", "Puts a device into service again; for administrators", TakeDevices,
     [](BrokerQueries& queries, const Arguments& arguments) {
       return rdmabroker::ctl::Undrain(queries, DevicesOf(arguments));
     }},
    {"restart", "Lets another process of the broker go on with everything, as after an upgrade; for administrators",
     nullptr, [](BrokerQueries& queries, const Arguments&) { return queries.Restart(); }},
    {"reload", "Has the broker read its configuration again, and says what changes; for administrators", nullptr,
     [](BrokerQueries& queries, const Arguments&) { return queries.Reload(); }},
    {"loglevel", "Shows what the broker logs, or sets it until the next reload; for administrators",
     [](CLI::App& app, Arguments& arguments) {
       app.add_option("LEVEL", arguments.level, "This and worse")
           ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error"}));
     },
     [](BrokerQueries& queries, const Arguments& arguments) { return queries.LogLevel(arguments.level); }},
};

ExitCode Complain(const std::string& complaint, ExitCode code) {
  std::cerr << "rdma-brokerctl: " << complaint << "\n";
  return code;
}

ExitCode Run(const Subcommand& subcommand, BrokerQueries&& queries, const Arguments& arguments) {
  const ExitCode code = subcommand.run == nullptr ? queries.List(subcommand.name) : subcommand.run(queries, arguments);
  std::cout << queries.output() << std::flush;
  return queries.error().empty() ? code : Complain(queries.error(), code);
}

ExitCode RunOverTcp(const Subcommand& subcommand, const Arguments& arguments) {
  if (subcommand.run == Diagnose) {
    return Complain("the doctor looks at this machine; leave --address out", ExitCode::kUsage);
  }
  std::string problem;
  auto channel = rdmabroker::ctl::OpenRemoteChannel(arguments.broker, &problem);
  if (channel == nullptr) return Complain(problem, ExitCode::kUsage);
  return Run(subcommand, BrokerQueries(arguments.broker, std::move(channel), arguments.form), arguments);
}

ExitCode Run(const Subcommand& subcommand, const Arguments& arguments) {
  if (const auto problem = rdmabroker::ctl::ProblemOf(arguments.broker); !problem.empty()) {
    return Complain(problem, ExitCode::kUsage);
  }
  if (!arguments.broker.address.empty()) return RunOverTcp(subcommand, arguments);
  if (const auto problem = rdmabroker::client::SocketPathProblem(arguments.socket); !problem.empty()) {
    return Complain(std::string(problem) + ": " + arguments.socket, ExitCode::kUsage);
  }
  return Run(subcommand, BrokerQueries(arguments.socket, arguments.form), arguments);
}

// Of a broker on another machine.
void AddRemoteOptions(CLI::App& app, RemoteBroker& broker) {
  const auto file = [&](const char* name, std::string& path, const char* variable, const char* what) {
    app.add_option(name, path, what)->envname(variable)->type_name("FILE");
  };
  app.add_option("--address", broker.address, "A broker's TCP port, in place of the control socket")
      ->envname("RDMA_BROKER_ADDRESS")
      ->type_name("HOST:PORT");
  file("--certificate", broker.certificate, "RDMA_BROKER_CERTIFICATE", "With --address: PEM file of your certificate");
  file("--private-key", broker.private_key, "RDMA_BROKER_PRIVATE_KEY", "With --address: PEM file of its private key");
  file("--authorities", broker.authorities, "RDMA_BROKER_AUTHORITIES",
       "With --address: PEM file of who may have signed the broker's certificate");
  app.add_option("--server-name", broker.server_name,
                 "With --address: DNS name or SPIFFE id that the broker's certificate has; else the host")
      ->envname("RDMA_BROKER_SERVER_NAME")
      ->type_name("NAME");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Shows what a broker holds and what becomes of it, ends sessions, drains devices, restarts it, and looks for "
      "what is missing.",
      "rdma-brokerctl");
  app.footer(kFooter);
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag("--version", std::string("rdma-brokerctl ") + rdmabroker::kVersion,
                       "Print the version and exit");
  Arguments arguments;
  app.add_option("--socket", arguments.socket, "The broker's control socket; else RDMA_BROKER_SOCKET, else the default")
      ->capture_default_str();
  AddRemoteOptions(app, arguments.broker);
  const std::map<std::string, OutputForm> forms = {
      {"table", OutputForm::kTable}, {"json", OutputForm::kJson}, {"yaml", OutputForm::kYaml}};
  app.add_option("-o,--output", arguments.form, "table, json or yaml")->transform(CLI::CheckedTransformer(forms));
  std::map<const CLI::App*, const Subcommand*> subcommands;
  for (const Subcommand& subcommand : kSubcommands) {
    CLI::App* const added = app.add_subcommand(subcommand.name, subcommand.what);
    if (subcommand.take != nullptr) subcommand.take(*added, arguments);
    subcommands[added] = &subcommand;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return static_cast<int>(app.exit(error) == 0 ? ExitCode::kDone : ExitCode::kUsage);
  }
  return static_cast<int>(Run(*subcommands.at(app.get_subcommands().front()), arguments));
}
