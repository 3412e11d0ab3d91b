// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_LIFE_LOG_H_
#define BROKER_CONTROL_LIFE_LOG_H_

#include <cstdint>
#include <string>
#include <unordered_map>

#include "absl/strings/string_view.h"
#include "broker/core/broker_core.h"
#include "broker/core/messages.h"
#include "broker/log/log.h"
#include "broker/runtime/warning_limit.h"

namespace rdmabroker {

// Logs what becomes of sessions, listeners and connectors: what goes as usual at debug, but for the sessions
// themselves; failures at info. No private data and no secrets. What clients and peers can cause at info and above is
// bounded, each kind of event by itself. Loop thread only; `core` is read when the methods are called.
class LifeLog {
 public:
  // As many sessions as a user may have at the default limit, of which all return at once after a restart.
  static constexpr int64_t kAtOnce = 1024;

  explicit LifeLog(const BrokerCore& core) : core_(core) {}

  // Once, before anything else: what another process's core had is known, and was logged by that.
  void GoOn();

  void Opened(SessionId session);  // Or resumed.
  void Refused(const Identity& identity, const Outcome& outcome);
  void Away(SessionId session);
  void Ended(SessionId session, absl::string_view why);

  // Takes each effect of an event when the core has handled the event. `asked` is the event where that is a request,
  // and null otherwise.
  void Saw(const Effect& effect, const ClientRequest* asked);

  // A request's first answer; before it, the events that the request has caused at once.
  void Answered(const ClientRequest& request, const Outcome& answer);
  // `asked`: the request that is being handled; null for none.
  void Happened(const NumberedEvent& event, const ClientRequest* asked);

 private:
  // What a connector's lines say of it, also when it is gone.
  struct Place {
    std::string device;
    SocketAddress local;
    SocketAddress peer;
  };
  // What a request wants of an object whose life is logged.
  enum class Aim : uint8_t {
    kOther,
    kConnect,
    kEstablish,
    kReject,
    kDisconnect,
    kReportEnd,
    kReportBreak,
    kClose,
    kListen
  };
  struct Deed {
    Aim aim = Aim::kOther;
    ConnectorId connector;  // Or:
    ListenerId listener;
    uint32_t provider_error = 0;  // Set for kReportBreak only.
  };
  struct Session {
    // That wait for their outcomes, by RequestId: at most two for each object, one of which closes it.
    std::unordered_map<uint64_t, Deed> waiting;
    std::unordered_map<uint64_t, Place> established;  // By ConnectorId.
    std::unordered_map<uint64_t, Place> listening;    // By ListenerId; without a peer.
  };

  static Deed DeedOf(const Request& request);
  const Records& records() const { return core_.records(); }
  Place PlaceOf(ConnectorId connector) const;
  // Whether an outcome will come, as it has not for a request that is repeated.
  bool Waits(RequestId request, const Deed& deed) const;
  void Remember(Session& known, const ConnectorRecord& connector);
  void Remember(Session& known, const ListenerRecord& listener);

  void Requested(SessionId session, const ConnectEvent& event);
  void FollowedAddress(const FabricRebind& request);
  // At once, or later.
  void Concluded(SessionId session, Session& known, const Deed& deed, const Outcome& outcome);
  void Listening(SessionId session, Session& known, ListenerId listener, const Outcome& outcome);
  void Closed(SessionId session, Session& known, ListenerId listener);
  void Established(SessionId session, Session& known, ConnectorId connector);
  void Failed(SessionId session, ConnectorId connector, const Outcome& outcome);
  // Nothing where the connection was not established, or its end has been logged.
  void Ended(SessionId session, Session& known, ConnectorId connector, const Outcome& how);

  const BrokerCore& core_;
  std::unordered_map<uint64_t, Session> sessions_;  // By SessionId; those that the core has.
  WarningLimit opened_{kAtOnce};
  WarningLimit resumed_{kAtOnce};
  WarningLimit away_{kAtOnce};
  WarningLimit ended_{kAtOnce};
  WarningLimit failed_listeners_{kAtOnce};
  WarningLimit failed_connectors_{kAtOnce};
  WarningLimit broken_connectors_{kAtOnce};
  WarningLimit exceeded_ports_;
  WarningLimit lost_addresses_;
  WarningLimit found_addresses_{kAtOnce};
  WarningLimit refused_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_LIFE_LOG_H_
