// SPDX-License-Identifier: Apache-2.0

// rdma-broker-keeper: starts the broker, starts it anew when it dies, and keeps descriptors for it meanwhile.

#include <fcntl.h>
#include <sysexits.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "broker/keeper/descriptor_store.h"
#include "broker/keeper/keeper.h"
#include "broker/keeper/memory_bound.h"
#include "broker/log/log.h"
#include "deploy/debian/version.h"

namespace {

using rdmabroker::keeper::DescriptorStore;
using rdmabroker::keeper::Keeper;
using rdmabroker::keeper::ReadMemory;

constexpr char kFooter[] =
    "What follows \"--\" is the command with its arguments: rdma-broker-keeper [OPTIONS] -- rdma-brokerd [OPTIONS].\n"
    "SIGTERM and SIGINT end it with the command; SIGHUP, SIGUSR1 and SIGUSR2 are passed on once it is ready.\n"
    "Exit status: the command's, or 128 and the number of the signal that ended it, where that is 0, where the keeper "
    "was asked to end, or where it is 2, 126 or 127 and the command was never ready; 64 wrong usage; 71 the system "
    "lacks something.";

// rdma-brokerd ends within a second, and Docker waits for ten.
constexpr double kStopSeconds = 5;
// As FileDescriptorStoreMax in deploy/systemd/rdma-brokerd.service, which gives the reason.
constexpr size_t kMostDescriptors = 4096;
// What is longer than a day is a mistake, such as milliseconds.
constexpr double kLeastSeconds = 0.001;
constexpr double kMostSeconds = 86400;

// Otherwise the first descriptors that are opened would be the child's standard ones.
void OpenStandardDescriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) != fd) ::_exit(EX_OSERR);
  }
}

// Of one of log.h's lists of names, for CLI11.
template <typename Names>
std::vector<std::string> TextsOf(const Names& names) {
  return std::vector<std::string>(names.begin(), names.end());
}

int Keep(Keeper::Settings settings) {
  auto keeper = Keeper::Make(std::move(settings));
  if (!keeper.ok()) {
    std::cerr << "rdma-broker-keeper: " << keeper.status().message() << "\n";
    return EX_OSERR;
  }
  return (*keeper)->Run();
}

}  // namespace

int main(int argc, char** argv) {
  OpenStandardDescriptors();
  CLI::App app("Starts the broker, starts it anew when it dies, and keeps descriptors for it meanwhile.",
               "rdma-broker-keeper");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("rdma-broker-keeper ") + rdmabroker::kVersion,
                       "Print the version and exit");
  double watchdog_seconds = 0;  // None.
  double stop_seconds = kStopSeconds;
  std::string memory;  // By the cgroup.
  std::string log_level = "info";
  std::string log_format = "text";
  Keeper::Settings settings = {.most_descriptors = kMostDescriptors};
  const auto seconds = CLI::Range(kLeastSeconds, kMostSeconds).description("");
  app.add_option("--watchdog", watchdog_seconds, "Silence after which a broker that was ready is killed; else none is")
      ->check(seconds)
      ->type_name("SECONDS");
  app.add_option("--stop-timeout", stop_seconds, "From the request to end, or from SIGABRT, to SIGKILL")
      ->check(seconds)
      ->type_name("SECONDS")
      ->capture_default_str();
  app.add_option("--descriptors", settings.most_descriptors,
                 absl::StrCat("How many are kept at a time, ", DescriptorStore::kMost, " at most"))
      ->check(CLI::Range(0, static_cast<int>(DescriptorStore::kMost)).description(""))
      ->type_name("NUMBER")
      ->capture_default_str();
  app.add_option("--memory", memory,
                 "What a broker may take (RLIMIT_DATA); else 3/4 of the cgroup's limit, where there is one")
      ->check([](const std::string& text) { return std::string(ReadMemory(text).status().message()); })
      ->type_name("BYTES|none");
  app.add_option("--log-level", log_level, "What is logged: this and worse")
      ->check(CLI::IsMember(TextsOf(rdmabroker::kLogLevelNames)))
      ->type_name("")
      ->capture_default_str();
  app.add_option("--log-format", log_format, "Lines for people, or JSON, an object a line")
      ->check(CLI::IsMember(TextsOf(rdmabroker::kLogFormatNames)))
      ->type_name("")
      ->capture_default_str();
  // By hand: what is the command's would not all come through CLI11 as it is, such as "[::1]".
  char** const dashes = std::find_if(argv, argv + argc, [](const char* each) { return std::strcmp(each, "--") == 0; });
  try {
    app.parse(static_cast<int>(dashes - argv), argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? EX_OK : EX_USAGE;
  }
  if (argv + argc - dashes < 2) {
    std::cerr << "rdma-broker-keeper: no command; name it after \"--\"\n";
    return EX_USAGE;
  }
  settings.command.assign(dashes + 1, argv + argc);
  if (watchdog_seconds > 0) settings.watchdog_interval = absl::Seconds(watchdog_seconds);
  if (!memory.empty()) settings.memory = *ReadMemory(memory);
  settings.stop_time = absl::Seconds(stop_seconds);
  rdmabroker::StartLogging("rdma-broker-keeper", *rdmabroker::LogFormatNamed(log_format),
                           *rdmabroker::LogLevelNamed(log_level));
  return Keep(std::move(settings));
}
