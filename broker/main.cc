// SPDX-License-Identifier: Apache-2.0

// rdma-brokerd: the composition root.

#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <string>

#include "absl/synchronization/mutex.h"
#include "broker/control/configuration.h"
#include "broker/control/control_server.h"
#include "broker/fabric/iwarp/iwarp_fabric.h"
#include "broker/fabric/rdmacm/rdmacm_fabric.h"
#include "broker/runtime/heartbeat.h"
#include "broker/runtime/systemd_supervisor.h"

namespace rdmabroker {
namespace {

// User-space iWARP is always there; the kernel's devices are numbered as they come.
constexpr DeviceId kIwarpDevice(1);
constexpr DeviceId kFirstKernelDevice(2);

// The exit status by which rdma-broker-keeper knows that another try does not help.
constexpr int kBadConfiguration = 2;

// A descriptor for each client's connection, its duplicate, and each connection that is being made.
void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) spdlog::warn("cannot raise the limit on open files");
}

// Blocks the signals that end the daemon, before any thread is there to get them.
UniqueFd TakeSignals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

// Whoever has started the daemon and cannot be told draws his own conclusions; the connections go on.
void WarnUnless(const absl::Status& told) {
  if (!told.ok()) spdlog::warn("{}", std::string(told.message()));
}

int Serve(const Configuration& configuration) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("rdma-brokerd"));
  spdlog::set_level(spdlog::level::from_str(configuration.log_level));
  // Who reads the log may go away; the connections must not go with him.
  ::signal(SIGPIPE, SIG_IGN);
  // First: what it finds in the environment are numbers of descriptors.
  const auto supervisor = SystemdSupervisor::FromEnvironment();
  if (!supervisor.ok()) {
    std::cerr << "rdma-brokerd: " << supervisor.status().message() << "\n";
    return 1;
  }
  RaiseDescriptorLimit();
  const UniqueFd signals = TakeSignals();
  auto server = ControlServer::Start(configuration);
  if (!server.ok()) {
    std::cerr << "rdma-brokerd: " << server.status().message() << "\n";
    return 1;
  }
  ControlServer& control = **server;
  auto iwarp = IwarpFabric::Open(kIwarpDevice, {.crc = configuration.iwarp_crc}, control.watcher(), control.handoffs());
  if (!iwarp.ok()) {
    std::cerr << "rdma-brokerd: " << iwarp.status().message() << "\n";
    return 1;
  }
  control.Add(*std::move(iwarp));
  auto rdmacm = RdmaCmFabric::Open(kFirstKernelDevice, {.trust_qp_numbers = configuration.trust_qp_numbers},
                                   control.executor(), control.watcher());
  if (rdmacm.ok()) {
    control.Add(*std::move(rdmacm));
  } else {
    spdlog::warn("the kernel's RDMA devices are left out: {}", std::string(rdmacm.status().message()));
  }
  const Heartbeat heartbeat(**supervisor, control.watcher());
  control.executor().Post([&] {
    spdlog::info("serving socket={}/control.sock", configuration.socket_directory);
    WarnUnless((*supervisor)->Ready());
    WarnUnless((*supervisor)->ShowStatus("serving on " + configuration.socket_directory + "/control.sock"));
  });
  const WatchId watch = control.watcher().Watch(signals.get(), EPOLLIN, [&](uint32_t) {
    spdlog::info("stopping");
    WarnUnless((*supervisor)->Stopping());
    WarnUnless((*supervisor)->ShowStatus("stopping"));
    control.Stop();
  });
  control.Run();
  control.watcher().Unwatch(watch);
  spdlog::info("stopped");
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app{"Brokers RDMA connections for the processes of this machine."};
  std::string path;
  bool check = false;
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
  return Serve(configuration);
}

}  // namespace
}  // namespace rdmabroker

int main(int argc, char** argv) {
  // Debian builds Abseil with its detector of possible lock cycles, which ends the process on a suspicion.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return rdmabroker::Main(argc, argv);
}
