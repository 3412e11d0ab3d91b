// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_CONTROL_SERVER_H_
#define BROKER_CONTROL_CONTROL_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "broker/control/accepting_thread.h"
#include "broker/control/broker.h"
#include "broker/control/configuration.h"
#include "broker/control/configuration_reload.h"
#include "broker/control/control_socket.h"
#include "broker/control/handoff_socket.h"
#include "broker/control/health_service.h"
#include "broker/control/listening_socket.h"
#include "broker/control/metrics_port.h"
#include "broker/control/remote_access.h"
#include "broker/control/services.h"
#include "broker/control/session_stream.h"
#include "broker/control/user_costs.h"
#include "broker/control/watch_service.h"
#include "broker/monitoring/metrics.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/handoff_table.h"
#include "broker/runtime/loop.h"

namespace rdmabroker {

// The whole daemon but its fabrics: sockets, services, loop. Made, given its fabrics, run, and stopped once.
class ControlServer {
 public:
  // Calls at a time on one connection beside a client's unanswered requests: its stream, and inspection.
  static constexpr uint32_t kOtherCalls = 64;

  // Makes the sockets, or takes over those that the process before has left in `keep`, and starts to serve with `core`,
  // whose changes `commit` stores, and on `tcp_port` if there is one; `keep` is for the time of the call. Errors as
  // those of ListenOnUnixSocket.
  static absl::StatusOr<std::unique_ptr<ControlServer>> Start(
      const LoadedConfiguration& loaded, BrokerCore core, CoreRunner::Commit commit, DescriptorKeep& keep,
      std::optional<RemoteAccess::Port> tcp_port = std::nullopt);
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  // For the fabrics, before Run; they live on the loop thread.
  Loop& loop() { return loop_; }
  HandoffTable& handoffs() { return handoffs_; }
  void Recover(std::vector<std::unique_ptr<Fabric>> fabrics) { broker_->Recover(std::move(fabrics)); }
  const Broker& broker() const { return *broker_; }
  // Loop thread only.
  const UserCosts& costs() const { return *costs_; }
  // What is counted, on the loop thread.
  Metrics& metrics() { return metrics_; }
  // Before Run, if at all: as MetricsPort, until it stops.
  void ServeMetrics(UniqueFd listener, MetricsPort::Settings settings) {
    metrics_port_ = std::make_unique<MetricsPort>(std::move(listener), std::move(settings), *broker_, metrics_, loop_);
  }
  // Where it listens over TCP: IP:PORT, or "".
  std::string tcp_address() const { return remotes_->address(); }

  // Makes the calling thread the loop thread until Stop has done its work. Clients, who may have connected before, are
  // served from now on.
  void Run();

  // A handshake takes a few round trips, unless its peer or its client takes its time, and that has no bound. Some of
  // those that are under way after that end with the process, and have to be begun again.
  static constexpr absl::Duration kDrainPatience = absl::Seconds(1);
  // Leaves to the next process all handshakes that have not begun, waits for those that are under way, for `patience`
  // at most, tells clients, ends their streams and calls, and lets Run return. From any thread; a second call changes
  // nothing.
  void Stop(absl::Duration patience = kDrainPatience);

  // What an administrator's wish for another process calls, on the loop thread: false where nobody would start it.
  // Before Run.
  void OnRestart(std::function<bool()> restart) { restart_ = std::move(restart); }
  // What an administrator's wish for another look at the configuration calls, on the loop thread. Before Run.
  void OnReload(std::function<void(ReloadDone)> reload) { reload_ = std::move(reload); }

  // From now on `in_use` holds, as far as it may change in a process, with what `loaded` has looked up for it. Gives
  // what is in use in fact. Loop thread.
  Configuration Apply(const LoadedConfiguration& loaded, const Configuration& in_use);

 private:
  ControlServer() = default;

  // Adds all services, before there are sockets. Returns INTERNAL if a method of the contract has no service.
  absl::Status Serve(const Configuration& configuration);
  void Reload(ReloadDone done);
  void NoteTurn(const Loop::Turn& turn);
  void StopOnLoop(absl::Duration patience);
  // Until `end`, or until there are no handshakes; then tells clients.
  void Drain(absl::Time end);
  // Until `end`, or until clients have left; then ends the loop.
  void AwaitClients(absl::Time end);

  std::vector<std::unique_ptr<SocketName>> socket_names_;
  Loop loop_;
  HandoffTable handoffs_;
  Metrics metrics_;
  std::unique_ptr<UserCosts> costs_;
  std::unique_ptr<Broker> broker_;
  Services services_;
  // How long clients may take to say who they are, and to read (control.patience_ms).
  absl::Duration patience_;
  std::unique_ptr<SessionStream::Context> streams_;
  std::unique_ptr<HealthService> health_;
  std::unique_ptr<MetricsPort> metrics_port_;
  std::unique_ptr<WatchService> watches_;
  std::unique_ptr<AcceptingThread> accepting_;
  std::unique_ptr<ControlSocket> control_socket_;
  std::unique_ptr<HandoffSocket> handoff_socket_;
  std::unique_ptr<RemoteAccess> remotes_;
  std::function<bool()> restart_;
  std::function<void(ReloadDone)> reload_;
  WarningLimit long_turns_;
  bool stopping_ = false;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_CONTROL_SERVER_H_
