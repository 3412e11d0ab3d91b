// SPDX-License-Identifier: Apache-2.0

// rdma-brokerctl: shows what a broker holds, ends sessions, disables devices, restarts it, and looks for what is
// missing.

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <map>
#include <string>

#include "client/control_socket.h"
#include "client/ctl/broker_queries.h"
#include "client/ctl/doctor/doctor.h"

namespace {

using rdmabroker::ctl::BrokerQueries;
using rdmabroker::ctl::ExitCode;
using rdmabroker::ctl::OutputForm;

constexpr char kFooter[] =
    "Exit status: 0 done; 1 the broker refuses or fails, or the doctor finds a problem; 2 wrong usage; 3 no broker "
    "answers on the socket, which for the doctor is a problem.";

int Exit(ExitCode code) { return static_cast<int>(code); }

int Diagnose(const std::string& socket, OutputForm form) {
  const rdmabroker::ctl::Findings findings = rdmabroker::ctl::Examine(socket);
  std::cout << rdmabroker::ctl::ShowFindings(findings, form) << std::flush;
  return Exit(rdmabroker::ctl::HasProblem(findings) ? ExitCode::kRefused : ExitCode::kDone);
}

// What the subcommands take.
struct Arguments {
  uint64_t session = 0;
  std::string device;
  uint32_t wait_seconds = 0;
};

ExitCode Ask(BrokerQueries& queries, const std::string& command, const Arguments& arguments) {
  if (command == "health") return queries.Health();
  if (command == "end-session") return queries.EndSession(arguments.session);
  if (command == "enable-adapter") return queries.EnableAdapter(arguments.device);
  if (command == "disable-adapter") {
    return queries.DisableAdapter(arguments.device, std::chrono::seconds(arguments.wait_seconds));
  }
  if (command == "restart") return queries.Restart();
  return queries.List(command);
}

int Run(const CLI::App& app, const std::string& socket, OutputForm form, const Arguments& arguments) {
  if (const auto problem = rdmabroker::client::SocketPathProblem(socket); !problem.empty()) {
    std::cerr << "rdma-brokerctl: " << problem << ": " << socket << "\n";
    return Exit(ExitCode::kUsage);
  }
  const std::string& command = app.get_subcommands().front()->get_name();
  if (command == "doctor") return Diagnose(socket, form);
  BrokerQueries queries(socket, form);
  const ExitCode code = Ask(queries, command, arguments);
  std::cout << queries.output() << std::flush;
  if (!queries.error().empty()) std::cerr << "rdma-brokerctl: " << queries.error() << "\n";
  return Exit(code);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Shows what a broker holds, ends sessions, disables devices, restarts it, and looks for what is missing.",
      "rdma-brokerctl");
  app.footer(kFooter);
  app.require_subcommand(1);
  app.fallthrough();
  std::string socket = rdmabroker::client::ControlSocketPath();
  app.add_option("--socket", socket, "The broker's control socket; else RDMA_BROKER_SOCKET, else the default")
      ->capture_default_str();
  OutputForm form = OutputForm::kTable;
  const std::map<std::string, OutputForm> forms = {{"table", OutputForm::kTable}, {"json", OutputForm::kJson}};
  app.add_option("-o,--output", form, "table or json")->transform(CLI::CheckedTransformer(forms));
  app.add_subcommand("adapters", "RDMA devices and what they can do");
  app.add_subcommand("sessions", "Client processes");
  app.add_subcommand("endpoints", "Local addresses in use, with their reference counts");
  app.add_subcommand("listeners", "Listeners");
  app.add_subcommand("shared-endpoints", "Shared endpoints");
  app.add_subcommand("reservations", "Addresses held without listening");
  app.add_subcommand("connectors", "Connections and what becomes one");
  app.add_subcommand("doctor", "What is missing here for RDMA, and the command that mends it; works without a broker");
  app.add_subcommand("health", "Whether the broker serves, for probes: exit status 0 where it does");
  Arguments arguments;
  app.add_subcommand("end-session", "Ends a session with everything in it; for administrators")
      ->add_option("ID", arguments.session, "The session")
      ->required();
  CLI::App* disable = app.add_subcommand(
      "disable-adapter", "Lets nobody open a device any more, and has its clients close it; for administrators");
  disable->add_option("NAME", arguments.device, "The device")->required();
  disable->add_option("--wait", arguments.wait_seconds, "Seconds to wait until its last adapter is closed");
  app.add_subcommand("enable-adapter", "Ends what disable-adapter has begun; for administrators")
      ->add_option("NAME", arguments.device, "The device")
      ->required();
  app.add_subcommand(
      "restart", "Lets another process of the broker go on with everything, as after an upgrade; for administrators");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? Exit(ExitCode::kDone) : Exit(ExitCode::kUsage);
  }
  return Run(app, socket, form, arguments);
}
