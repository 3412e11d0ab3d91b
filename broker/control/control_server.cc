// SPDX-License-Identifier: Apache-2.0

#include "broker/control/control_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "broker/control/administration_service.h"
#include "broker/control/broker_service.h"
#include "broker/control/inspection_service.h"
#include "broker/control/transport_limits.h"

namespace rdmabroker {
namespace {

// For replies that are under way when the daemon stops, which take a millisecond; the streams have been ended before.
// It is waited for to its end where a client keeps an idle connection, and all others wait for the next process as
// long.
constexpr auto kShutdownPatience = std::chrono::milliseconds(100);

// A fraction of what the last handshake's end takes.
constexpr absl::Duration kDrainLook = absl::Milliseconds(5);

Administrators AdministratorsOf(const LoadedConfiguration& loaded) {
  return {
      .daemon_uid = ::geteuid(), .group = loaded.administrators_group, .root = loaded.configuration.root_administers};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlServer>> ControlServer::Start(const LoadedConfiguration& loaded, BrokerCore core,
                                                                    CoreRunner::Commit commit, DescriptorKeep& keep,
                                                                    std::optional<RemoteAccess::Port> tcp_port) {
  const Configuration& configuration = loaded.configuration;
  const auto mode = static_cast<mode_t>(configuration.socket_mode);
  std::vector<std::unique_ptr<SocketName>> names;
  KeptSockets kept(keep);
  const auto listen = [&](const std::string& name, int type) {
    const ListeningSocket wanted = {configuration.socket_directory + "/" + name, type, mode, loaded.socket_group};
    absl::StatusOr<UniqueFd> listener = kept.Listen(wanted, name);
    // What is kept has its name for the next process.
    if (listener.ok() && !keep.IsThere()) names.push_back(std::make_unique<SocketName>(wanted.path));
    return listener;
  };
  auto control = listen("control.sock", SOCK_STREAM);
  if (!control.ok()) return control.status();
  auto handoff = listen("handoff.sock", SOCK_SEQPACKET);
  if (!handoff.ok()) return handoff.status();
  kept.ForgetTheRest();
  const Administrators administrators = AdministratorsOf(loaded);

  std::unique_ptr<ControlServer> self(new ControlServer);
  self->socket_names_ = std::move(names);
  grpc::ServerBuilder builder;
  SetTransportLimits(builder, configuration.limits.answers_kept);
  builder.RegisterService(&self->broker_service_);
  builder.RegisterService(&self->inspection_service_);
  builder.RegisterService(&self->administration_service_);
  builder.RegisterService(&self->health_service_);
  self->remotes_ = std::make_unique<RemoteAccess>(std::move(tcp_port));
  self->remotes_->AddTo(builder);
  self->loop_.SetQueue(builder.AddCompletionQueue());
  self->server_ = builder.BuildAndStart();
  self->watcher_ = std::make_unique<Watcher>(self->loop_);
  self->broker_ = std::make_unique<Broker>(
      std::move(core), *self->watcher_, std::move(commit),
      [&metrics = self->metrics_](Instant now, const Event& event, const Effects& effects) {
        metrics.Observe(now, event, effects);
      },
      configuration.policy, configuration.audit);
  self->broker_->gate().OnDecision([&metrics = self->metrics_](bool allowed) { metrics.CountDecision(allowed); });
  self->control_socket_ = std::make_unique<ControlSocket>(
      *std::move(control), *self->server_, *self->watcher_, self->metrics_,
      ControlSocket::Settings{administrators, configuration.connections_per_uid, configuration.patience});
  self->handoff_socket_ = std::make_unique<HandoffSocket>(
      *std::move(handoff), *self->broker_, self->handoffs_, *self->watcher_, self->metrics_,
      HandoffSocket::Settings{.administrators = administrators, .patience = configuration.patience});
  self->remotes_->Start(configuration, *self->watcher_, self->loop_);
  self->Serve(configuration);
  return self;
}

void ControlServer::Serve(const Configuration& configuration) {
  unary_.reset(new UnaryContext{loop_, *control_socket_, *remotes_, broker_->gate(), metrics_});
  streams_.reset(new SessionStream::Context{*unary_, *watcher_, *broker_, broker_service_, configuration.patience});
  SessionStream::Serve(*streams_);
  ServeRequests(*unary_, *broker_, broker_service_);
  ServeInspection(*unary_, *broker_, inspection_service_);
  watches_ = std::make_unique<WatchService>(*unary_, *watcher_, *broker_, inspection_service_, configuration.patience);
  ServeAdministration(*unary_, *broker_, administration_service_,
                      {.restart = [this] { return restart_ != nullptr && restart_(); },
                       .reload = [this](ReloadDone done) { Reload(std::move(done)); }});
  health_ = std::make_unique<HealthService>(*unary_, health_service_);
}

void ControlServer::Reload(ReloadDone done) {
  if (reload_ == nullptr) return done(absl::FailedPreconditionError("configuration: nobody reads it again"));
  reload_(std::move(done));
}

Configuration ControlServer::Apply(const LoadedConfiguration& loaded, const Configuration& in_use) {
  const Administrators administrators = AdministratorsOf(loaded);
  broker_->SetLimits(in_use.limits);
  broker_->gate().Replace(in_use.policy, in_use.audit);
  control_socket_->Set({administrators, in_use.connections_per_uid, in_use.patience});
  handoff_socket_->Set(administrators, in_use.patience);
  streams_->patience = in_use.patience;
  watches_->Apply(in_use.patience);
  return remotes_->Apply(in_use, loaded.certificates);
}

ControlServer::~ControlServer() {
  // gRPC ends the process where a server's queue goes with operations still on it.
  if (!ran_) {
    Stop();
    loop_.Run();
  }
  if (server_stopper_.joinable()) server_stopper_.join();
}

void ControlServer::Run() {
  ran_ = true;
  control_socket_->StartAccepting();
  handoff_socket_->StartAccepting();
  remotes_->StartAccepting();
  loop_.Run();
}

void ControlServer::Stop(absl::Duration patience) {
  loop_.Post([this, patience] { StopOnLoop(patience); });
}

void ControlServer::StopOnLoop(absl::Duration patience) {
  if (std::exchange(stopping_, true)) return;
  // First: whoever is told of it finds it so.
  broker_->MakeWay();
  health_->StopServing();
  control_socket_->StopAccepting();
  // The next process has the port.
  metrics_port_.reset();
  remotes_->StopAccepting();
  Drain(Watcher::Now() + patience);
}

void ControlServer::Drain(absl::Time end) {
  if (Watcher::Now() < end && broker_->HasHandshakes()) {
    watcher_->StartTimer(Watcher::Now() + kDrainLook, [this, end] { Drain(end); });
    return;
  }
  broker_->StopStreams();
  watches_->Stop();
  server_stopper_ = std::thread([this] {
    server_->Shutdown(std::chrono::system_clock::now() + kShutdownPatience);
    loop_.Post([this] { loop_.Stop(); });
  });
}

}  // namespace rdmabroker
