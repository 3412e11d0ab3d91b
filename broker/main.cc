// SPDX-License-Identifier: Apache-2.0

// rdma-brokerd: what its arguments say, and by which configuration it serves.

#include <signal.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "broker/control/configuration_reload.h"
#include "broker/control/kept_configuration.h"
#include "broker/daemon.h"
#include "broker/log/log.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/exit_status.h"
#include "broker/runtime/systemd_supervisor.h"
#include "deploy/debian/version.h"

namespace rdmabroker {
namespace {

// A descriptor for each client's connection, its duplicate, each session's process, and each connection that is being
// made.
void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    LogWarning("cannot raise the limit on open files", {{"cause", std::strerror(errno)}});
  }
}

int Fail(const absl::Status& failure, int exit_status) {
  std::cerr << "rdma-brokerd: " << failure.message() << "\n";
  return exit_status;
}

void StartLoggingBy(const Configuration& configuration) {
  StartLogging("rdma-brokerd", *LogFormatNamed(configuration.log_format), *LogLevelNamed(configuration.log_level));
}

using Loaded = absl::StatusOr<LoadedConfiguration>;

// Clients wait while the daemon starts, and nothing that they have is in a file. Nor would anybody learn why one hangs
// that waited for ever.
constexpr absl::Duration kFilePatience = absl::Seconds(5);

// What `read` gives, unless its file system takes too long: then it goes on by itself, and ends with the process.
std::optional<Loaded> InTime(std::function<Loaded()> read) {
  const auto promise = std::make_shared<std::promise<Loaded>>();
  std::future<Loaded> loaded = promise->get_future();
  std::thread([promise, read = std::move(read)] { promise->set_value(read()); }).detach();
  if (loaded.wait_for(absl::ToChronoSeconds(kFilePatience)) != std::future_status::ready) return std::nullopt;
  return loaded.get();
}

absl::Status Hangs(const std::string& names, const char* what) {
  return absl::DeadlineExceededError(
      absl::StrCat(names, ": not read within ", absl::FormatDuration(kFilePatience), "; ", what, " hangs"));
}

Loaded WithCertificatesInTime(Loaded loaded) {
  if (!loaded.ok() || loaded->configuration.tcp_address.empty()) return loaded;
  std::optional<Loaded> read = InTime([loaded] { return WithCertificates(loaded); });
  if (read) return *std::move(read);
  const CertificateFiles files = CertificateFilesOf(loaded->configuration);
  std::string names = absl::StrCat(files.certificate, ", ", files.private_key, " or ", files.client_authorities);
  if (!files.revoked.empty()) absl::StrAppend(&names, " or ", files.revoked);
  loaded->certificate_problem = Hangs(names, "their file system");
  return loaded;
}

Loaded ReadInTime(const std::string& path) {
  std::optional<Loaded> read = InTime([path] { return LoadConfigurationFile(path); });
  if (read) return WithCertificatesInTime(*std::move(read));
  return Hangs(path.empty() ? "the defaults" : path, "its file system, or who knows the users and groups in it,");
}

// The file's, if it is good. After a death there are connections, which must not wait until somebody mends the file:
// then the former one, and one without its TCP port rather than none. An error where there is none.
Loaded Choose(const std::string& path, const KeptConfiguration& kept) {
  Loaded read = ReadInTime(path);
  const absl::Status problem = ProblemOf(read);
  if (problem.ok()) {
    StartLoggingBy(read->configuration);
    return read;
  }
  if (!kept.former()) return problem;
  Loaded former = WithCertificatesInTime(
      LoadConfiguration(kept.former()->text, "the former configuration", kept.former()->numbers));
  const bool only_port_is_bad = read.ok() && !ProblemOf(former).ok();
  Loaded& chosen = only_port_is_bad ? read : former;
  if (!chosen.ok()) return problem;
  StartLoggingBy(chosen->configuration);
  if (!only_port_is_bad) {
    LogError("configuration is bad, so the former one is used", {{"cause", problem.message()}});
  }
  if (!chosen->certificate_problem.ok()) {
    LogError("tcp port not served", {{"cause", chosen->certificate_problem.message()}});
  }
  return std::move(chosen);
}

int Serve(const std::string& path, const UniqueFd& signals) {
  // Who reads the log may go away; the connections must not go with him.
  ::signal(SIGPIPE, SIG_IGN);
  // First: what it finds in the environment are numbers of descriptors.
  const auto supervisor = SystemdSupervisor::FromEnvironment();
  if (!supervisor.ok()) return Fail(supervisor.status(), 1);
  DescriptorKeep keep(**supervisor);
  KeptConfiguration kept(keep);
  const auto loaded = Choose(path, kept);
  if (!loaded.ok()) return Fail(loaded.status(), kBadConfiguration);
  RaiseDescriptorLimit();
  const absl::StatusOr<int> ran = RunDaemon({*loaded, path, **supervisor, keep, kept, signals});
  return ran.ok() ? *ran : Fail(ran.status(), 1);
}

int Check(const std::string& path) {
  const absl::Status problem = ProblemOf(ReadInTime(path));
  if (!problem.ok()) return Fail(problem, kBadConfiguration);
  std::cout << (path.empty() ? "the defaults" : path) << ": fine\n";
  return 0;
}

int Main(int argc, char** argv) {
  // First: one that asks for another process would end this one.
  const UniqueFd signals = TakeSignals();
  CLI::App app{"Brokers RDMA connections for the processes of this machine."};
  std::string path;
  bool check = false;
  app.set_version_flag("--version", std::string("rdma-brokerd ") + kVersion, "Print the version and exit");
  app.add_option("--config", path, "TOML file; without it every setting has its default")->type_name("FILE");
  app.add_flag("--check-config", check, "Read the configuration, say what is wrong with it, and end");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kBadConfiguration;
  }
  return check ? Check(path) : Serve(path, signals);
}

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) {
  // Debian builds Abseil with its detector of possible lock cycles, which ends the process on a suspicion.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return rdmabroker::Main(argc, argv);
}
