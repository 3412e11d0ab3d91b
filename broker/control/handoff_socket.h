// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_HANDOFF_SOCKET_H_
#define BROKER_CONTROL_HANDOFF_SOCKET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "broker/control/acceptor.h"
#include "broker/control/broker.h"
#include "broker/control/connect_rates.h"
#include "broker/control/counts.h"
#include "broker/control/user_costs.h"
#include "broker/monitoring/metrics.h"
#include "broker/runtime/handoff_table.h"
#include "broker/runtime/loop.h"
#include "broker/runtime/warning_limit.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// Gives clients the transports of their established connections, as handoff.proto describes. Loop thread only.
class HandoffSocket {
 public:
  // New connections of one user. A client makes one for each connection, and a broker does some thousand handshakes a
  // second at most.
  static constexpr rpc::TokenRate kConnectRate = {.burst = 4096, .a_second = 5000};

  struct Settings {
    // Fetchers at a time; a client has one for a connection, for two round trips. Further ones wait in the backlog.
    size_t fetchers = 1024;
    // Of these one user's, so that those who ask for nothing leave room for others.
    size_t fetchers_per_uid = 256;
    // For a fetcher to say what it wants. What it has been sent it may acknowledge until the core gives the connection
    // up; whether it has is looked at each time that this is over.
    absl::Duration patience = absl::Seconds(10);
  };

  HandoffSocket(UniqueFd listener, const Broker& broker, HandoffTable& table, UserCosts& costs, Loop& loop,
                Metrics& metrics, const Settings& settings);
  ~HandoffSocket();
  HandoffSocket(const HandoffSocket&) = delete;
  HandoffSocket& operator=(const HandoffSocket&) = delete;

  // For who comes from now on.
  void Set(absl::Duration patience) { settings_.patience = patience; }

  // Before, who comes waits.
  void StartAccepting() { acceptor_.Start(); }

 private:
  // A client that is fetching.
  struct Fetcher {
    UniqueFd socket;
    Identity peer;
    std::unique_ptr<UserCosts::Entry> account;
    WatchId watch = WatchId::kNone;
    TimerId patience = TimerId::kNone;
    ConnectionId sent;  // Its transport is on the way; the acknowledgement is awaited.
    ConnectorId connector;
  };

  void Take(UniqueFd socket);
  // Calls `act` when it is the user's turn, if the fetcher still exists then.
  void InTurn(uint64_t id, void (HandoffSocket::*act)(uint64_t id));
  // Begins to watch the fetcher.
  void Watch(uint64_t id);
  void Hear(uint64_t id);
  // Looks up and checks what was asked for. Null, with the refusal in `outcome`.
  Handoff* Authorise(const Fetcher& fetcher, const std::string& record, Outcome* outcome, ConnectionId* connection,
                     ConnectorId* connector) const;
  void Answer(uint64_t id, const std::string& record);
  void StartPatience(uint64_t id);
  void LosePatience(uint64_t id);
  void Drop(uint64_t id);

  const Broker& broker_;
  HandoffTable& table_;
  UserCosts& costs_;
  Loop& loop_;
  Metrics& metrics_;
  Settings settings_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, Fetcher> fetchers_;
  Counts<uid_t> of_user_;
  ConnectRates rates_{kConnectRate};
  WarningLimit too_many_;
  WarningLimit denied_;
  Acceptor acceptor_;  // Last: it calls the others.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_HANDOFF_SOCKET_H_
