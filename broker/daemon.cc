// SPDX-License-Identifier: Apache-2.0

#include "broker/daemon.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "broker/control/control_server.h"
#include "broker/control/metrics_port.h"
#include "broker/control/remote_access.h"
#include "broker/fabric/iwarp/iwarp_fabric.h"
#include "broker/fabric/rdmacm/rdmacm_fabric.h"
#include "broker/log/log.h"
#include "broker/monitoring/snapshot.h"
#include "broker/runtime/exit_status.h"
#include "broker/runtime/heartbeat.h"
#include "broker/survival/survival.h"

namespace rdmabroker {
namespace {

// User-space iWARP is always there; the kernel's devices are numbered as they come.
constexpr DeviceId kIwarpDevice(1);
constexpr DeviceId kFirstKernelDevice(2);

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
  auto iwarp = IwarpFabric::Open(kIwarpDevice, {.crc = configuration.iwarp_crc}, control.loop(), control.handoffs(),
                                 survival.descriptors(), survival.of_fabrics());
  if (!iwarp.ok()) return iwarp.status();
  const RdmaCmPast past = {survival.descriptors(), survival.of_fabrics(),
                           KernelDevices(control.broker().core().records()), survival.begins_anew()};
  const bool holds_connections = past.HoldsConnections();
  auto rdmacm = RdmaCmFabric::Open(kFirstKernelDevice, {.trust_qp_numbers = configuration.trust_qp_numbers}, past,
                                   control.loop());
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

// A port that is in use must not keep the connections that there are waiting.
absl::StatusOr<std::optional<RemoteAccess::Port>> OpenPort(const DaemonParts& parts) {
  auto port = RemoteAccess::Open(parts.loaded);
  if (port.ok() || !parts.kept.former()) return port;
  LogError("tcp port not served", {{"cause", port.status().message()}});
  return std::nullopt;
}

void ServeMetrics(ControlServer& control, UniqueFd scrapes, const Configuration& configuration, Survival& survival) {
  if (configuration.metrics_address.empty()) return;
  survival.OnCommit([&control](absl::Duration took, bool stored) { control.metrics().CountCommit(took, stored); });
  const auto complete = [&keep = survival.descriptors(), &control](Snapshot& snapshot) {
    snapshot.held_octets = control.costs().held();
    snapshot.kept_descriptors = keep.kept();
    snapshot.most_kept_descriptors = keep.most_kept();
  };
  control.ServeMetrics(std::move(scrapes), {configuration.metrics_address, {StateDirectory(configuration)}, complete});
}

// The daemon while it runs: what it is told, and what it tells.
class Daemon {
 public:
  Daemon(const DaemonParts& parts, Instant began, ControlServer& control)
      : parts_(parts),
        began_(began),
        control_(control),
        reload_(
            parts.path, parts.loaded.configuration, control.loop(),
            [this](const LoadedConfiguration& loaded, const Configuration& in_use) { return Apply(loaded, in_use); }) {
    control.OnRestart([this] { return Restart(); });
    control.OnReload([this](ReloadDone done) { reload_.Ask(std::move(done)); });
  }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // The exit status.
  int Run() {
    const Heartbeat heartbeat(parts_.supervisor, control_.loop());
    control_.loop().Post([this] { SayThatItServes(); });
    watch_ = control_.loop().Watch(parts_.signals.get(), EPOLLIN, [this](uint32_t) { TakeSignal(); });
    control_.Run();
    control_.loop().Unwatch(watch_);
    LogInfo("stopped");
    return exit_status_;
  }

 private:
  void SayThatItServes() {
    const std::string socket = parts_.loaded.configuration.socket_directory + "/control.sock";
    LogInfo("serving", {{"socket", socket}});
    control_.metrics().ShowRecovery(Loop::Now() - began_);
    WarnUnless(parts_.supervisor.Ready());
    WarnUnless(parts_.supervisor.ShowStatus("serving on " + socket));
  }

  void TakeSignal() {
    signalfd_siginfo info = {};
    const bool any = ::read(parts_.signals.get(), &info, sizeof info) == sizeof info;
    switch (any ? info.ssi_signo : 0) {
      case SIGHUP:
        reload_.Ask([](const absl::StatusOr<ChangedKeys>&) {});
        break;
      case SIGUSR2:
        if (!Restart()) LogWarning("not restarted, as nobody would start another process");
        break;
      case SIGUSR1:
        // By which other daemons open their logs again; it would end this one.
        LogInfo("signal ignored", {{"signal", "SIGUSR1"}});
        break;
      case SIGTERM:
      case SIGINT:
        // It may come while the daemon makes way.
        Stop(0);
        break;
      default:
        break;
    }
    control_.loop().Rearm(watch_, EPOLLIN);
  }

  void Stop(int status) {
    stopping_ = true;
    exit_status_ = status;
    if (status == kStartAnother) {
      LogInfo("making way for another process");
    } else {
      LogInfo("stopping");
    }
    WarnUnless(parts_.supervisor.Stopping());
    WarnUnless(parts_.supervisor.ShowStatus("stopping"));
    reload_.Stop();
    control_.Stop();
  }

  // False: nobody would start another.
  bool Restart() {
    if (!parts_.supervisor.IsThere()) return false;
    if (!stopping_) Stop(kStartAnother);
    return true;
  }

  Configuration Apply(const LoadedConfiguration& loaded, const Configuration& in_use) {
    SetLogLevel(*LogLevelNamed(in_use.log_level));
    SetLogFormat(*LogFormatNamed(in_use.log_format));
    Configuration had = control_.Apply(loaded, in_use);
    parts_.kept.Keep(loaded.text, loaded.numbers);
    return had;
  }

  const DaemonParts& parts_;
  const Instant began_;
  ControlServer& control_;
  ConfigurationReload reload_;
  WatchId watch_ = WatchId::kNone;
  int exit_status_ = 0;
  bool stopping_ = false;
};

}  // namespace

UniqueFd TakeSignals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) ::sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

// After Recover nothing of what the process before has left is lost by an early end of this one.
absl::StatusOr<int> RunDaemon(const DaemonParts& parts) {
  const Instant began = Loop::Now();
  const Configuration& configuration = parts.loaded.configuration;
  auto port = OpenPort(parts);
  if (!port.ok()) return port.status();
  auto survival = Survival::Open(StateDirectory(configuration), configuration.limits, parts.keep);
  if (!survival.ok()) return survival.status();
  auto scrapes = ListenForScrapes(configuration.metrics_address, (*survival)->takes_over());
  if (!scrapes.ok()) return scrapes.status();
  auto server = ControlServer::Start(
      parts.loaded, (*survival)->TakeCore(), [&](BrokerCore& core) { return (*survival)->Commit(core); }, parts.keep,
      *std::move(port));
  if (!server.ok()) return server.status();
  ControlServer& control = **server;
  auto fabrics = OpenFabrics(control, configuration, **survival);
  if (!fabrics.ok()) return fabrics.status();
  control.Recover(*std::move(fabrics));
  parts.keep.ForgetTheRest();
  parts.kept.Keep(parts.loaded.text, parts.loaded.numbers);
  ServeMetrics(control, *std::move(scrapes), configuration, **survival);
  return Daemon(parts, began, control).Run();
}

}  // namespace rdmabroker
