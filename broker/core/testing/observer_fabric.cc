// SPDX-License-Identifier: Apache-2.0

// The observer's view of the fabrics, and of the records.

#include <algorithm>
#include <type_traits>
#include <variant>

#include "broker/core/overloaded.h"
#include "broker/core/testing/observer.h"

namespace rdmabroker {

void Observer::Advance(ConnectionId id, std::initializer_list<Stage> from, Stage to) {
  const auto connection = connections_.find(id);
  if (connection == connections_.end()) return;
  if (std::find(from.begin(), from.end(), connection->second.stage) != from.end()) connection->second.stage = to;
}

// A report that the contract does not allow here changes nothing.
void Observer::BeforeReport(const FabricReport& report) {
  using enum Stage;
  const auto endpoint = [&](EndpointId id, std::initializer_list<EndpointState> states) {
    const auto found = endpoints_.find(id);
    const bool in_state =
        found != endpoints_.end() && std::find(states.begin(), states.end(), found->second.state) != states.end();
    return in_state ? found : endpoints_.end();
  };
  const auto handle = Overloaded{
      [&](const DeviceChanged& typed) {
        devices_.try_emplace(typed.device.id, true);
        if (typed.device.client_ends_connections) clients_end_.insert(typed.device.id);
      },
      [&](const DeviceRemoved& typed) {
        if (const auto device = devices_.find(typed.device); device != devices_.end()) device->second = false;
      },
      [&](const FabricBound& typed) {
        const auto found = endpoint(typed.endpoint, {EndpointState::kBinding, EndpointState::kRepurposing});
        if (found != endpoints_.end()) found->second.state = EndpointState::kBound;
      },
      [&](const FabricBindFailed& typed) {
        const auto found = endpoint(typed.endpoint, {EndpointState::kBinding, EndpointState::kRepurposing});
        if (found == endpoints_.end()) return;
        if (found->second.state == EndpointState::kBinding) {
          endpoints_.erase(found);
        } else {
          found->second.state = EndpointState::kBound;
          found->second.use = found->second.before;
        }
      },
      [&](const FabricUnbound& typed) {
        const auto found = endpoint(typed.endpoint, {EndpointState::kUnbinding});
        if (found != endpoints_.end()) endpoints_.erase(found);
      },
      [&](const FabricConnectRequested& typed) {
        const auto found = endpoints_.find(typed.endpoint);
        if (found == endpoints_.end()) return;
        connections_.try_emplace(typed.connection, SeenConnection{typed.device ? typed.device : found->second.device,
                                                                  typed.endpoint, kRequested});
      },
      [&](const FabricReplied& typed) { Advance(typed.connection, {kConnecting}, kReplied); },
      [&](const FabricConnectFailed& typed) { Advance(typed.connection, {kConnecting}, kOver); },
      [&](const FabricEstablished& typed) {
        Advance(typed.connection, {kCompleting, kAccepting}, kEstablished);
      },
      [&](const FabricFailed& typed) {
        Advance(typed.connection, {kRequested, kReplied, kCompleting, kAccepting}, kOver);
      },
      [&](const FabricDisconnected& typed) {
        Advance(typed.connection, {kRequested, kReplied, kCompleting, kAccepting, kEstablished, kDisconnecting}, kOver);
      },
      [](const FabricHandedOff&) {},
      [&](const FabricReleased& typed) {
        const auto found = connections_.find(typed.connection);
        if (found != connections_.end() && found->second.stage == kGivenUp) connections_.erase(found);
      },
  };
  std::visit(handle, report);
}

void Observer::See(const Event&, const FabricRequest& effect) {
  const auto ask = [this]<typename Request>(const Request& request) {
    Ask(request);
    if constexpr (std::is_same_v<Request, FabricAdoptEndpoint> || std::is_same_v<Request, FabricAdoptConnection>) {
      return;
    } else if constexpr (requires { request.connection; }) {
      unasked_connections_.erase(request.connection);
    } else if constexpr (requires { request.endpoint; }) {
      unasked_endpoints_.erase(request.endpoint);
    }
  };
  std::visit(ask, effect);
}

void Observer::RequireDevice(DeviceId device, bool to_give_back) {
  const auto found = devices_.find(device);
  Require(found != devices_.end(), "device ", device.value(), ": asked, but was never there");
  Require(found == devices_.end() || found->second || to_give_back, "device ", device.value(), ": asked, but is gone");
}

Observer::SeenEndpoint* Observer::Find(EndpointId id, DeviceId device) {
  const auto found = endpoints_.find(id);
  const bool there = found != endpoints_.end() && found->second.device == device;
  Require(there, "endpoint ", id.value(), ": not at device ", device.value());
  return there ? &found->second : nullptr;
}

Observer::SeenConnection* Observer::Find(ConnectionId id, DeviceId device) {
  const auto found = connections_.find(id);
  const bool there = found != connections_.end() && found->second.device == device;
  Require(there, "connection ", id.value(), ": not at device ", device.value());
  return there ? &found->second : nullptr;
}

void Observer::Ask(const FabricBind& request) {
  RequireDevice(request.device, false);
  Require(!endpoints_.contains(request.endpoint) || IsAskedAgain(request.endpoint, EndpointState::kBinding),
          "endpoint ", request.endpoint.value(), ": bound twice");
  Require(request.port != 0, "endpoint ", request.endpoint.value(), ": bound to port 0");
  endpoints_[request.endpoint] = {.device = request.device, .use = request.use};
}

void Observer::Ask(const FabricRepurpose& request) {
  RequireDevice(request.device, false);
  SeenEndpoint* endpoint = Find(request.endpoint, request.device);
  if (endpoint == nullptr) return;
  if (IsAskedAgain(request.endpoint, EndpointState::kRepurposing)) return;
  Require(endpoint->state == EndpointState::kBound && endpoint->use == EndpointUse::kReserved &&
              (request.use == EndpointUse::kListener || request.use == EndpointUse::kShared),
          "endpoint ", request.endpoint.value(), ": repurposed, but not a reserved one");
  endpoint->before = std::exchange(endpoint->use, request.use);
  endpoint->state = EndpointState::kRepurposing;
}

void Observer::Ask(const FabricRebind& request) {
  RequireDevice(request.device, false);
  const auto endpoint = endpoints_.find(request.endpoint);
  Require(endpoint != endpoints_.end() && endpoint->second.state == EndpointState::kBound, "endpoint ",
          request.endpoint.value(), ": rebound, but not bound");
  if (endpoint == endpoints_.end()) return;
  endpoint->second.device = request.device;
  endpoint->second.at_no_address = request.ips.empty();
}

void Observer::Ask(const FabricUnbind& request) {
  RequireDevice(request.device, true);
  SeenEndpoint* endpoint = Find(request.endpoint, request.device);
  if (endpoint == nullptr || IsAskedAgain(request.endpoint, EndpointState::kUnbinding)) return;
  Require(endpoint->state == EndpointState::kBound, "endpoint ", request.endpoint.value(), ": unbound, but not bound");
  endpoint->state = EndpointState::kUnbinding;
  for (const auto& [id, connection] : connections_) {
    Require(connection.endpoint != request.endpoint, "endpoint ", request.endpoint.value(),
            ": unbound under connection ", id.value());
  }
}

void Observer::Ask(const FabricConnect& request) {
  RequireDevice(request.device, false);
  const SeenEndpoint* endpoint = Find(request.endpoint, request.device);
  Require(request.connection > newest_connection_, "connection ", request.connection.value(),
          ": is an earlier one's id");
  newest_connection_ = request.connection;
  Require(sessions_.contains(request.session), "connection ", request.connection.value(), ": for no session");
  Require(request.qp.value != 0, "connection ", request.connection.value(), ": without a queue pair");
  connections_[request.connection] = {request.device, request.endpoint, Stage::kConnecting};
  if (endpoint == nullptr) return;
  const bool can_connect = endpoint->state == EndpointState::kBound &&
                           (endpoint->use == EndpointUse::kDedicated || endpoint->use == EndpointUse::kShared);
  Require(can_connect, "endpoint ", request.endpoint.value(), ": connected from, but not bound for that");
  Require(!endpoint->at_no_address, "endpoint ", request.endpoint.value(), ": connected from, but at no address");
}

void Observer::Ask(const FabricComplete& request) {
  RequireDevice(request.device, false);
  SeenConnection* connection = Find(request.connection, request.device);
  if (connection == nullptr) return;
  if (IsAskedAgain(request.connection, Stage::kCompleting)) return;
  Require(connection->stage == Stage::kReplied, "connection ", request.connection.value(),
          ": completed too early or late");
  connection->stage = Stage::kCompleting;
}

void Observer::Ask(const FabricAccept& request) {
  RequireDevice(request.device, false);
  SeenConnection* connection = Find(request.connection, request.device);
  if (connection == nullptr) return;
  if (IsAskedAgain(request.connection, Stage::kAccepting)) return;
  Require(connection->stage == Stage::kRequested, "connection ", request.connection.value(), ": accepted, but decided");
  connection->stage = Stage::kAccepting;
}

void Observer::Ask(const FabricReject& request) {
  RequireDevice(request.device, true);
  SeenConnection* connection = Find(request.connection, request.device);
  if (connection == nullptr) return;
  if (IsAskedAgain(request.connection, Stage::kGivenUp)) return;
  Require(connection->stage == Stage::kRequested || connection->stage == Stage::kReplied, "connection ",
          request.connection.value(), ": rejected, but decided");
  connection->stage = Stage::kGivenUp;
}

void Observer::Ask(const FabricRefuse& request) {
  RequireDevice(request.device, true);
  SeenConnection* connection = Find(request.connection, request.device);
  if (connection == nullptr) return;
  if (IsAskedAgain(request.connection, Stage::kGivenUp)) return;
  Require(connection->stage == Stage::kRequested, "connection ", request.connection.value(), ": refused, but decided");
  connection->stage = Stage::kGivenUp;
}

void Observer::Ask(const FabricDisconnect& request) {
  RequireDevice(request.device, false);
  SeenConnection* connection = Find(request.connection, request.device);
  if (connection == nullptr) return;
  if (IsAskedAgain(request.connection, Stage::kDisconnecting)) return;
  Require(connection->stage == Stage::kEstablished, "connection ", request.connection.value(),
          ": disconnected, but not established");
  Require(!clients_end_.contains(request.device), "connection ", request.connection.value(),
          ": disconnected, which its client does");
  connection->stage = Stage::kDisconnecting;
}

void Observer::Ask(const FabricRelease& request) {
  RequireDevice(request.device, true);
  SeenConnection* connection = Find(request.connection, request.device);
  if (connection == nullptr) return;
  if (IsAskedAgain(request.connection, Stage::kGivenUp)) return;
  Require(connection->stage != Stage::kGivenUp, "connection ", request.connection.value(), ": given up twice");
  connection->stage = Stage::kGivenUp;
}

// Between Recover and the device's FabricAdopted, a request that has no answer yet comes once more.
bool Observer::IsAskedAgain(EndpointId id, EndpointState state) const {
  const auto found = endpoints_.find(id);
  return found != endpoints_.end() && recovering_.contains(found->second.device) && found->second.state == state;
}

bool Observer::IsAskedAgain(ConnectionId id, Stage stage) const {
  const auto found = connections_.find(id);
  return found != connections_.end() && recovering_.contains(found->second.device) && found->second.stage == stage;
}

void Observer::Ask(const FabricAdoptEndpoint& request) {
  Require(recovering_.contains(request.device), "endpoint ", request.endpoint.value(), ": adopted too late");
  SeenEndpoint* endpoint = Find(request.endpoint, request.device);
  if (endpoint == nullptr) return;
  const bool turns = endpoint->state == EndpointState::kRepurposing;
  Require(request.use == (turns ? endpoint->before : endpoint->use), "endpoint ", request.endpoint.value(),
          ": adopted as another");
  Require(adopted_endpoints_.insert(request.endpoint).second, "endpoint ", request.endpoint.value(), ": adopted twice");
}

void Observer::Ask(const FabricAdoptConnection& request) {
  static const std::map<Stage, AdoptedStage> kStages = {{Stage::kConnecting, AdoptedStage::kConnecting},
                                                        {Stage::kReplied, AdoptedStage::kReplied},
                                                        {Stage::kCompleting, AdoptedStage::kReplied},
                                                        {Stage::kRequested, AdoptedStage::kRequested},
                                                        {Stage::kAccepting, AdoptedStage::kRequested},
                                                        {Stage::kEstablished, AdoptedStage::kEstablished},
                                                        {Stage::kDisconnecting, AdoptedStage::kEstablished},
                                                        {Stage::kOver, AdoptedStage::kEstablished},
                                                        {Stage::kGivenUp, AdoptedStage::kOver}};
  Require(recovering_.contains(request.device), "connection ", request.connection.value(), ": adopted too late");
  const SeenConnection* connection = Find(request.connection, request.device);
  if (connection == nullptr) return;
  Require(kStages.at(connection->stage) == request.stage, "connection ", request.connection.value(),
          ": adopted in another stage");
  Require(adopted_connections_.insert(request.connection).second, "connection ", request.connection.value(),
          ": adopted twice");
}

void Observer::Ask(const FabricAdopted& request) {
  for (const auto& [id, endpoint] : endpoints_) {
    const bool adopted = adopted_endpoints_.contains(id) || endpoint.state == EndpointState::kBinding;
    Require(endpoint.device != request.device || adopted, "endpoint ", id.value(), ": not adopted");
  }
  for (const auto& [id, connection] : connections_) {
    Require(connection.device != request.device || adopted_connections_.contains(id), "connection ", id.value(),
            ": not adopted");
  }
  for (const EndpointId id : unasked_endpoints_) {
    const auto endpoint = endpoints_.find(id);
    Require(endpoint == endpoints_.end() || endpoint->second.device != request.device, "endpoint ", id.value(),
            ": not asked for again");
  }
  for (const ConnectionId id : unasked_connections_) {
    const auto connection = connections_.find(id);
    Require(connection == connections_.end() || connection->second.device != request.device, "connection ", id.value(),
            ": not asked for again");
  }
  recovering_.erase(request.device);
}

void Observer::AgreeOnSessions(const Records& records) {
  size_t live = 0;
  for (const auto& [id, session] : records.sessions) live += session.ended ? 0 : 1;
  Require(live == sessions_.size(), "sessions: ", live, " are live, ", sessions_.size(), " were opened and not ended");
  std::map<SessionId, std::set<RequestId>> owed;
  const auto collect = [&](SessionId session, RequestId request) {
    if (request && sessions_.contains(session)) {
      Require(owed[session].insert(request).second, "request ", request.value(), ": is pending twice");
    }
  };
  const auto collect_all = [&](const auto& table) {
    for (const auto& entry : table) {
      const auto& object = entry.second;
      collect(object.session, object.close_request);
      if constexpr (requires { object.pending; }) collect(object.session, object.pending);
    }
  };
  collect_all(records.adapters);
  collect_all(records.listeners);
  collect_all(records.shared_endpoints);
  collect_all(records.reservations);
  collect_all(records.connectors);
  for (const auto& [id, seen] : sessions_) {
    const auto found = records.sessions.find(id);
    if (found == records.sessions.end()) return Require(false, "session ", id.value(), ": forgotten");
    const SessionRecord& session = found->second;
    Require(session.stream == seen.stream && session.last_event == seen.last_event &&
                session.acknowledged == seen.acknowledged && session.unacknowledged() == seen.events.size() &&
                std::equal(seen.events.rbegin(), seen.events.rend(), session.events.rbegin()),
            "session ", id.value(), ": its stream or events are not what its client knows");
    const std::set<RequestId>& pending = owed[id];
    const bool same = pending.size() == seen.owed.size() &&
                      std::equal(pending.begin(), pending.end(), seen.owed.begin(),
                                 [](RequestId request, const auto& entry) { return request == entry.first; });
    Require(same, "session ", id.value(), ": ", pending.size(), " requests are pending, ", seen.owed.size(),
            " have no outcome yet");
  }
}

void Observer::AgreeOnObjects(const Records& records) {
  size_t known = 0;
  const auto count = [&](const auto& table) {
    for (const auto& [id, object] : table) {
      if (!sessions_.contains(object.session) || !object.ready) continue;
      const auto seen = objects_.find(id);
      Require(seen != objects_.end() && seen->second.session == object.session, "object ", id.value(),
              ": its client does not know it");
      if (seen == objects_.end()) continue;
      Require(seen->second.closing == object.closing, "object ", id.value(), ": its close is not its client's");
      ++known;
    }
  };
  std::erase_if(objects_, [&](const auto& entry) {
    const auto* reservation = std::get_if<ReservationId>(&entry.first);
    return reservation != nullptr && entry.second.may_vanish && !records.reservations.contains(*reservation);
  });
  count(records.adapters);
  count(records.listeners);
  count(records.shared_endpoints);
  count(records.reservations);
  count(records.connectors);
  Require(known == objects_.size(), "objects: clients know ", objects_.size(), ", there are ", known);
}

void Observer::AgreeOnFabric(const Records& records) {
  Require(records.endpoints.size() == endpoints_.size(), "endpoints: ", endpoints_.size(), " at the fabrics, ",
          records.endpoints.size(), " in the records");
  for (const auto& [id, seen] : endpoints_) {
    const auto endpoint = records.endpoints.find(id);
    Require(endpoint != records.endpoints.end() && endpoint->second.state == seen.state &&
                endpoint->second.use == seen.use && endpoint->second.device == seen.device,
            "endpoint ", id.value(), ": not in the state that its fabric has it in");
  }
  Require(records.connections.size() == connections_.size(), "connections: ", connections_.size(), " at the fabrics, ",
          records.connections.size(), " in the records");
  for (const auto& [id, seen] : connections_) {
    const auto connection = records.connections.find(id);
    Require(connection != records.connections.end() && connection->second.device == seen.device &&
                connection->second.given_up == (seen.stage == Stage::kGivenUp),
            "connection ", id.value(), ": not in the state that its fabric has it in");
  }
}

}  // namespace rdmabroker
