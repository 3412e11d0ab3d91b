// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_CONTROL_SOCKET_H_
#define BROKER_CONTROL_CONTROL_SOCKET_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "absl/time/time.h"
#include "broker/control/accepting_thread.h"
#include "broker/control/caller.h"
#include "broker/control/counts.h"
#include "broker/control/served_connection.h"
#include "broker/control/services.h"
#include "broker/control/user_costs.h"
#include "broker/monitoring/metrics.h"
#include "broker/runtime/loop.h"
#include "broker/runtime/warning_limit.h"
#include "dataplane/unique_fd.h"
#include "proto/rpc/frame_budget.h"

namespace rdmabroker {

// Serves connections to the control socket, and asks the kernel who they are. Loop thread only.
class ControlSocket final : public ServedConnection::Port {
 public:
  // New connections of one user: as many at once as it may have, so that all of its clients may return together, and
  // then more than people and their tools need.
  static constexpr rpc::TokenRate kConnectRate = {.burst = 2048, .a_second = 200};

  struct Settings {
    Administrators administrators;
    // Connections at a time: every client has one, people's tools come and go.
    uint32_t connections_per_uid = 2048;
    // For a connection's first call.
    absl::Duration silence_timeout = absl::Seconds(10);
    // The most calls at a time on one connection.
    uint32_t calls = 128;
  };

  // All must outlive it.
  ControlSocket(UniqueFd listener, const Services& services, AcceptingThread& accepting, UserCosts& costs, Loop& loop,
                Metrics& metrics, const Settings& settings);
  ~ControlSocket() override;
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  // From now on these hold, for connections that there are, too; but a connection keeps its number of calls, and who
  // has more connections than is allowed keeps them.
  void Set(const Settings& settings);

  // Before, and after StopAccepting, there are no new connections.
  void StartAccepting();
  void StopAccepting() { accepting_.Stop(listening_); }

  // Has each connection end once its calls have ended, at once if it has none.
  void Drain();
  [[nodiscard]] bool HasConnections() const { return !connections_.empty(); }

  rpc::Status Admit(ServedConnection& connection, absl::string_view action,
                    std::shared_ptr<const Caller>* caller) override;
  void Exceeds(ServedConnection& connection, absl::string_view cause) override;
  void Ended(ServedConnection& connection) override;

 private:
  struct Connection {
    std::shared_ptr<ServedConnection> served;
    std::shared_ptr<const Caller> caller;
    TimerId silence = TimerId::kNone;
  };

  void Take(UniqueFd socket);
  void Refuse(uid_t uid);
  void RefuseHasty(uint64_t count);

  UniqueFd listener_;  // Until StartAccepting.
  const Services& services_;
  AcceptingThread& accepting_;
  UserCosts& costs_;
  Loop& loop_;
  Metrics& metrics_;
  Settings settings_;
  AcceptingThread::ListenerId listening_ = AcceptingThread::ListenerId::kNone;
  std::unordered_map<ServedConnection*, Connection> connections_;
  Counts<uid_t> of_user_;
  WarningLimit too_many_;
  WarningLimit excess_;
  WarningLimit hasty_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_CONTROL_SOCKET_H_
