// SPDX-License-Identifier: Apache-2.0

// rdma-brokerd: the composition root.

#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "broker/control/configuration.h"
#include "broker/control/control_server.h"
#include "broker/control/metrics_port.h"
#include "broker/fabric/iwarp/iwarp_fabric.h"
#include "broker/fabric/rdmacm/rdmacm_fabric.h"
#include "broker/log/log.h"
#include "broker/monitoring/snapshot.h"
#include "broker/runtime/exit_status.h"
#include "broker/runtime/heartbeat.h"
#include "broker/runtime/systemd_supervisor.h"
#include "broker/survival/survival.h"
#include "deploy/debian/version.h"

namespace rdmabroker {
namespace {

// User-space iWARP is always there; the kernel's devices are numbered as they come.
constexpr DeviceId kIwarpDevice(1);
constexpr DeviceId kFirstKernelDevice(2);

// A descriptor for each client's connection, its duplicate, and each connection that is being made.
void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    LogWarning("cannot raise the limit on open files", {{"cause", std::strerror(errno)}});
  }
}

// Blocks the signals that end the daemon, before any thread is there to get them.
UniqueFd TakeSignals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGUSR2);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

// Whoever has started the daemon and cannot be told draws his own conclusions; the connections go on.
void WarnUnless(const absl::Status& told) {
  if (!told.ok()) LogWarning("the supervisor was not told how it goes", {{"cause", told.message()}});
}

std::string StateDirectory(const Configuration& configuration) {
  if (!configuration.state_directory.empty()) return configuration.state_directory;
  const char* const given = std::getenv("RUNTIME_DIRECTORY");  // systemd.exec(5): one, or several with colons between.
  if (given == nullptr || *given == '\0') return configuration.socket_directory + "/state";
  return std::string(given, std::strcspn(given, ":"));
}

std::vector<RdmaCmPast::Device> KernelDevices(const Records& records) {
  std::vector<RdmaCmPast::Device> devices;
  for (const auto& [id, record] : records.devices) {
    if (id != kIwarpDevice) devices.push_back({id, record.device.name, record.removed});
  }
  return devices;
}

using Fabrics = std::vector<std::unique_ptr<Fabric>>;

// Connections that there are must not be taken for lost: they stay with the supervisor.
absl::Status CannotTakeOver(const absl::Status& cause) {
  return absl::Status(cause.code(),
                      absl::StrCat("connections of the kernel's RDMA devices cannot be taken over from the "
                                   "process before, and are kept; have this mended: ",
                                   cause.message()));
}

absl::StatusOr<Fabrics> OpenFabrics(ControlServer& control, const Configuration& configuration, Survival& survival) {
  auto iwarp = IwarpFabric::Open(kIwarpDevice, {.crc = configuration.iwarp_crc}, control.watcher(), control.handoffs(),
                                 survival.descriptors(), survival.of_fabrics());
  if (!iwarp.ok()) return iwarp.status();
  const RdmaCmPast past = {survival.descriptors(), survival.of_fabrics(),
                           KernelDevices(control.broker().core().records()), survival.begins_anew()};
  const bool holds_connections = past.HoldsConnections();
  auto rdmacm = RdmaCmFabric::Open(kFirstKernelDevice, {.trust_qp_numbers = configuration.trust_qp_numbers}, past,
                                   control.executor(), control.watcher());
  if (!rdmacm.ok() && holds_connections) return CannotTakeOver(rdmacm.status());
  Fabrics fabrics;
  fabrics.push_back(*std::move(iwarp));
  if (rdmacm.ok()) {
    fabrics.push_back(*std::move(rdmacm));
  } else {
    LogWarning("the kernel's devices are left out", {{"cause", rdmacm.status().message()}});
  }
  return fabrics;
}

void ServeMetrics(ControlServer& control, UniqueFd scrapes, const Configuration& configuration, Survival& survival) {
  if (configuration.metrics_address.empty()) return;
  survival.OnCommit([&control](absl::Duration took, bool stored) { control.metrics().CountCommit(took, stored); });
  const auto complete = [&keep = survival.descriptors()](Snapshot& snapshot) {
    snapshot.kept_descriptors = keep.kept();
    snapshot.most_kept_descriptors = keep.most_kept();
  };
  control.ServeMetrics(std::move(scrapes), {configuration.metrics_address, StateDirectory(configuration), complete});
}

int NextSignal(const UniqueFd& signals) {
  signalfd_siginfo info = {};
  return ::read(signals.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

// The exit status. From here on nothing of what the process before has left is lost by an early end of this one.
absl::StatusOr<int> Run(const Configuration& configuration, Supervisor& supervisor, const UniqueFd& signals) {
  const absl::Time began = Watcher::Now();
  auto survival = Survival::Open(StateDirectory(configuration), configuration.limits, supervisor);
  if (!survival.ok()) return survival.status();
  auto scrapes = ListenForScrapes(configuration.metrics_address, (*survival)->takes_over());
  if (!scrapes.ok()) return scrapes.status();
  auto server = ControlServer::Start(
      configuration, (*survival)->TakeCore(), [&](BrokerCore& core) { return (*survival)->Commit(core); },
      (*survival)->descriptors());
  if (!server.ok()) return server.status();
  ControlServer& control = **server;
  auto fabrics = OpenFabrics(control, configuration, **survival);
  if (!fabrics.ok()) return fabrics.status();
  control.Recover(*std::move(fabrics));
  (*survival)->descriptors().ForgetTheRest();
  ServeMetrics(control, *std::move(scrapes), configuration, **survival);
  const Heartbeat heartbeat(supervisor, control.watcher());
  control.executor().Post([&] {
    LogInfo("serving", {{"socket", configuration.socket_directory + "/control.sock"}});
    control.metrics().ShowRecovery(Watcher::Now() - began);
    WarnUnless(supervisor.Ready());
    WarnUnless(supervisor.ShowStatus("serving on " + configuration.socket_directory + "/control.sock"));
  });
  int exit_status = 0;
  bool stopping = false;
  const auto stop = [&](int status) {
    stopping = true;
    exit_status = status;
    if (status == kStartAnother) {
      LogInfo("making way for another process");
    } else {
      LogInfo("stopping");
    }
    WarnUnless(supervisor.Stopping());
    WarnUnless(supervisor.ShowStatus("stopping"));
    control.Stop();
  };
  const auto restart = [&] {
    if (!supervisor.IsThere()) return false;
    if (!stopping) stop(kStartAnother);
    return true;
  };
  control.OnRestart(restart);
  WatchId watch = WatchId::kNone;
  watch = control.watcher().Watch(signals.get(), EPOLLIN, [&](uint32_t) {
    const int signal = NextSignal(signals);
    if (signal == SIGUSR2 && !restart()) LogWarning("not restarted, as nobody would start another process");
    // It may come while the daemon makes way.
    if (signal == SIGTERM || signal == SIGINT) stop(0);
    control.watcher().Rearm(watch, EPOLLIN);
  });
  control.Run();
  control.watcher().Unwatch(watch);
  LogInfo("stopped");
  return exit_status;
}

int Serve(const Configuration& configuration, const UniqueFd& signals) {
  StartLogging("rdma-brokerd", *LogFormatNamed(configuration.log_format), *LogLevelNamed(configuration.log_level));
  // Who reads the log may go away; the connections must not go with him.
  ::signal(SIGPIPE, SIG_IGN);
  // First: what it finds in the environment are numbers of descriptors.
  const auto supervisor = SystemdSupervisor::FromEnvironment();
  RaiseDescriptorLimit();
  const absl::StatusOr<int> ran =
      supervisor.ok() ? Run(configuration, **supervisor, signals) : absl::StatusOr<int>(supervisor.status());
  if (ran.ok()) return *ran;
  std::cerr << "rdma-brokerd: " << ran.status().message() << "\n";
  return 1;
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
  Configuration configuration;
  if (!path.empty()) {
    const auto read = ReadConfiguration(path);
    if (!read.ok()) {
      std::cerr << "rdma-brokerd: " << read.status().message() << "\n";
      return kBadConfiguration;
    }
    configuration = *read;
  }
  if (check) {
    std::cout << (path.empty() ? "the defaults" : path) << ": fine\n";
    return 0;
  }
  return Serve(configuration, signals);
}

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) {
  // Debian builds Abseil with its detector of possible lock cycles, which ends the process on a suspicion.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return rdmabroker::Main(argc, argv);
}
