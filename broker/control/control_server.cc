// SPDX-License-Identifier: Apache-2.0

#include "broker/control/control_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "broker/control/administration_service.h"
#include "broker/control/broker_service.h"
#include "broker/control/inspection_service.h"
#include "broker/log/log.h"

namespace rdmabroker {
namespace {

// For replies that are under way when the daemon stops, which take a millisecond; the streams have been ended before.
// It passes where a client keeps an idle connection, and all others wait for the next process as long.
constexpr absl::Duration kShutdownPatience = absl::Milliseconds(100);

// A fraction of what the last handshake's end takes, and the end of the last connection.
constexpr absl::Duration kDrainLook = absl::Milliseconds(5);

// A turn of the loop that is longer has held clients up. Others' requests take a tenth of that.
constexpr absl::Duration kLongTurn = absl::Milliseconds(10);

ControlSocket::Settings SettingsOf(const Configuration& configuration, const Administrators& administrators) {
  return {.administrators = administrators,
          .connections_per_uid = configuration.connections_per_uid,
          .silence_timeout = configuration.patience,
          .calls = configuration.limits.answers_kept + ControlServer::kOtherCalls};
}

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
  self->broker_ = std::make_unique<Broker>(
      std::move(core), self->loop_, std::move(commit),
      [&metrics = self->metrics_](Instant now, const Event& event, const Effects& effects) {
        metrics.Observe(now, event, effects);
      },
      configuration.policy, configuration.audit);
  self->broker_->gate().OnDecision([&metrics = self->metrics_](bool allowed) { metrics.CountDecision(allowed); });
  if (absl::Status served = self->Serve(configuration); !served.ok()) return served;
  self->costs_ = std::make_unique<UserCosts>(
      self->loop_, UserCosts::Bounds(), [&metrics = self->metrics_](uint64_t others) { metrics.CountOthers(others); });
  self->accepting_ = std::make_unique<AcceptingThread>(self->loop_);
  self->control_socket_ =
      std::make_unique<ControlSocket>(*std::move(control), self->services_, *self->accepting_, *self->costs_,
                                      self->loop_, self->metrics_, SettingsOf(configuration, administrators));
  self->handoff_socket_ =
      std::make_unique<HandoffSocket>(*std::move(handoff), *self->broker_, self->handoffs_, *self->costs_, self->loop_,
                                      self->metrics_, HandoffSocket::Settings{.patience = configuration.patience});
  self->remotes_ =
      std::make_unique<RemoteAccess>(std::move(tcp_port), configuration,
                                     RemoteAccess::Parts{self->services_, *self->accepting_, *self->costs_, self->loop_,
                                                         self->broker_->gate(), self->metrics_});
  return self;
}

absl::Status ControlServer::Serve(const Configuration& configuration) {
  patience_ = configuration.patience;
  loop_.FollowTurns([this](const Loop::Turn& turn) { NoteTurn(turn); });
  streams_.reset(new SessionStream::Context{loop_, *broker_, metrics_, patience_});
  SessionStream::Serve(services_, *streams_);
  ServeRequests(services_, *broker_, metrics_);
  ServeInspection(services_, *broker_);
  watches_ = std::make_unique<WatchService>(services_, loop_, *broker_, patience_);
  ServeAdministration(services_, *broker_,
                      {.restart = [this] { return restart_ != nullptr && restart_(); },
                       .reload = [this](ReloadDone done) { Reload(std::move(done)); }});
  health_ = std::make_unique<HealthService>(services_, loop_, patience_);
  const std::vector<std::string> missing = services_.Missing();
  if (missing.empty()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the contract has methods that are not served: ", absl::StrJoin(missing, ", ")));
}

void ControlServer::NoteTurn(const Loop::Turn& turn) {
  if (turn.took <= kLongTurn) return;
  metrics_.CountLongTurn();
  if (const auto left_out = long_turns_.Pass(Loop::Now())) {
    LogWarning("clients held up", {{"milliseconds", absl::ToInt64Milliseconds(turn.took)},
                                   {"longest_milliseconds", absl::ToInt64Milliseconds(turn.longest)},
                                   {"longest", absl::StrCat(turn.place.file, ":", turn.place.line)},
                                   {"left_out", *left_out}});
  }
}

void ControlServer::Reload(ReloadDone done) {
  if (reload_ == nullptr) return done(absl::FailedPreconditionError("configuration: nobody reads it again"));
  reload_(std::move(done));
}

Configuration ControlServer::Apply(const LoadedConfiguration& loaded, const Configuration& in_use) {
  const Administrators administrators = AdministratorsOf(loaded);
  broker_->SetLimits(in_use.limits);
  broker_->gate().Replace(in_use.policy, in_use.audit);
  control_socket_->Set(SettingsOf(in_use, administrators));
  handoff_socket_->Set(in_use.patience);
  patience_ = in_use.patience;
  watches_->EndAll();
  return remotes_->Apply(in_use, loaded.certificates);
}

ControlServer::~ControlServer() = default;

void ControlServer::Run() {
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
  Drain(Loop::Now() + patience);
}

void ControlServer::Drain(absl::Time end) {
  if (Loop::Now() < end && broker_->HasHandshakes()) {
    loop_.StartTimer(Loop::Now() + kDrainLook, [this, end] { Drain(end); });
    return;
  }
  broker_->StopStreams();
  watches_->Stop();
  control_socket_->Drain();
  remotes_->Drain();
  AwaitClients(Loop::Now() + kShutdownPatience);
}

void ControlServer::AwaitClients(absl::Time end) {
  if (Loop::Now() >= end || !(control_socket_->HasConnections() || remotes_->HasConnections())) return loop_.Stop();
  loop_.StartTimer(Loop::Now() + kDrainLook, [this, end] { AwaitClients(end); });
}

}  // namespace rdmabroker
