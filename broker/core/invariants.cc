// SPDX-License-Identifier: Apache-2.0

#include "broker/core/invariants.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "broker/core/objects.h"

namespace rdmabroker {
namespace {

// Collects the first broken rule.
class Rules {
 public:
  template <typename... Parts>
  void Require(bool holds, const Parts&... parts) {
    if (!holds && status_.ok()) status_ = absl::InternalError(absl::StrCat(parts...));
  }
  template <typename Key, typename Record>
  bool Leads(const Table<Key, Record>& table, Key key, const std::string& from) {
    const bool leads = table.contains(key);
    Require(leads, from, ": refers to ", key.value(), ", which is not there");
    return leads;
  }
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

template <typename Object>
void CheckObject(Rules& rules, const Records& records, const Object& object) {
  const std::string name = Name(object.id);
  rules.Leads(records.sessions, object.session, name);
  if constexpr (std::is_same_v<Object, AdapterRecord>) {
    rules.Leads(records.devices, object.device, name);
    rules.Require(!object.adapter, name, ": has an adapter");
  } else {
    rules.Leads(records.adapters, object.adapter, name);
  }
  if (object.endpoint) rules.Leads(records.endpoints, object.endpoint, name);
  rules.Require(object.closing || !object.close_request, name, ": a close request without a close");
}

// Each record has its own id, and each id in it is that of a record. All other rules follow these ids.
void CheckReferences(Rules& rules, const Records& records) {
  const auto check_objects = [&](const auto& table) {
    for (const auto& [id, object] : table) {
      rules.Require(id == object.id, Name(object.id), ": filed under ", id.value());
      CheckObject(rules, records, object);
    }
  };
  check_objects(records.adapters);
  check_objects(records.listeners);
  check_objects(records.shared_endpoints);
  check_objects(records.reservations);
  check_objects(records.connectors);
  for (const auto& [id, listener] : records.listeners) {
    if (listener.taking) rules.Leads(records.reservations, listener.taking, Name(id));
  }
  for (const auto& [id, reservation] : records.reservations) {
    rules.Require(static_cast<bool>(reservation.endpoint), Name(id), ": holds no endpoint");
  }
  for (const auto& [id, shared] : records.shared_endpoints) {
    rules.Require(static_cast<bool>(shared.endpoint), Name(id), ": holds no endpoint");
    if (shared.taking) rules.Leads(records.reservations, shared.taking, Name(id));
  }
  for (const auto& [id, connector] : records.connectors) {
    if (connector.listener) rules.Leads(records.listeners, connector.listener, Name(id));
    if (connector.shared_endpoint) rules.Leads(records.shared_endpoints, connector.shared_endpoint, Name(id));
    if (connector.connection) rules.Leads(records.connections, connector.connection, Name(id));
    if (connector.releasing) rules.Leads(records.connections, connector.releasing, Name(id));
  }
  for (const auto& [id, endpoint] : records.endpoints) {
    const std::string name = absl::StrCat("endpoint ", id.value());
    rules.Require(id == endpoint.id, name, ": filed under another id");
    rules.Leads(records.devices, endpoint.device, name);
  }
  for (const auto& [id, connection] : records.connections) {
    const std::string name = absl::StrCat("connection ", id.value());
    rules.Require(id == connection.id, name, ": filed under another id");
    rules.Leads(records.devices, connection.device, name);
    if (connection.endpoint) rules.Leads(records.endpoints, connection.endpoint, name);
    if (connection.connector) rules.Leads(records.connectors, connection.connector, name);
    rules.Require(connection.given_up || connection.connector, name, ": nobody's, and not given up");
  }
  for (const auto& [id, device] : records.devices) {
    rules.Require(id == device.device.id, "device ", device.device.name, ": filed under another id");
  }
  for (const auto& [id, session] : records.sessions) {
    rules.Require(id == session.id, "session ", session.id.value(), ": filed under another id");
  }
}

// What the records should count.
struct Counted {
  std::map<ObjectId, uint32_t> successors;
  std::map<ListenerId, uint32_t> undecided;
  std::map<EndpointId, uint32_t> references;
  std::map<EndpointId, uint32_t> connections;
  std::map<DeviceId, uint32_t> adapters;
  std::map<DeviceId, uint32_t> endpoints;
  std::map<DeviceId, uint32_t> connections_of_device;
  std::map<std::pair<SessionId, size_t>, uint32_t> owned;  // By kind.
  std::set<SessionId> with_open;                           // Sessions with an object whose close has not begun.
};

bool HoldsReference(const ObjectRecord& object) { return object.endpoint && !object.left_endpoint; }

template <typename Object>
void CountObject(const Object& object, Counted& counted) {
  const ObjectId id = object.id;
  ++counted.owned[{object.session, id.index()}];
  if (!object.closing) counted.with_open.insert(object.session);
  if (object.adapter) ++counted.successors[object.adapter];
  if (HoldsReference(object)) {
    // An endpoint that a reservation is losing counts once, for its taker.
    bool counts = true;
    if constexpr (std::is_same_v<Object, ReservationRecord>) counts = !object.taken;
    if (counts) ++counted.references[object.endpoint];
  }
}

Counted Count(const Records& records) {
  Counted counted;
  const auto count = [&](const auto& table) {
    for (const auto& [id, object] : table) CountObject(object, counted);
  };
  count(records.adapters);
  count(records.listeners);
  count(records.shared_endpoints);
  count(records.reservations);
  count(records.connectors);
  for (const auto& [id, adapter] : records.adapters) ++counted.adapters[adapter.device];
  for (const auto& [id, connector] : records.connectors) {
    if (connector.listener) ++counted.successors[connector.listener];
    if (connector.shared_endpoint) ++counted.successors[connector.shared_endpoint];
    if (connector.state == ConnectorState::kRequested) ++counted.undecided[connector.listener];
  }
  for (const auto& [id, endpoint] : records.endpoints) ++counted.endpoints[endpoint.device];
  for (const auto& [id, connection] : records.connections) {
    ++counted.connections_of_device[connection.device];
    if (connection.endpoint) ++counted.connections[connection.endpoint];
  }
  return counted;
}

void CheckCounts(Rules& rules, const Records& records, Counted& counted) {
  const auto successors = [&](const auto& table) {
    for (const auto& [id, object] : table) {
      rules.Require(object.successors == counted.successors[id], Name(id), ": counts ", object.successors,
                    " successors, has ", counted.successors[id]);
    }
  };
  successors(records.adapters);
  successors(records.listeners);
  successors(records.shared_endpoints);
  successors(records.reservations);
  successors(records.connectors);
  for (const auto& [id, listener] : records.listeners) {
    rules.Require(listener.undecided == counted.undecided[id], Name(id), ": counts ", listener.undecided,
                  " undecided, has ", counted.undecided[id]);
  }
  for (const auto& [id, endpoint] : records.endpoints) {
    rules.Require(endpoint.references == counted.references[id], "endpoint ", id.value(), ": counts ",
                  endpoint.references, " references, has ", counted.references[id]);
    rules.Require(endpoint.connections == counted.connections[id], "endpoint ", id.value(), ": counts ",
                  endpoint.connections, " connections, has ", counted.connections[id]);
  }
  for (const auto& [id, device] : records.devices) {
    rules.Require(device.adapters == counted.adapters[id] && device.endpoints == counted.endpoints[id] &&
                      device.connections == counted.connections_of_device[id],
                  "device ", device.device.name, ": counts ", device.adapters, " adapters, ", device.endpoints,
                  " endpoints and ", device.connections, " connections");
    rules.Require(!device.removed || device.adapters + device.endpoints + device.connections > 0, "device ",
                  device.device.name, ": is gone and nothing needs it");
  }
}

// By kind, in the order of ObjectId.
std::array<uint32_t, 5> CountsOf(const SessionRecord& session) {
  return {session.adapters, session.listeners, session.shared_endpoints, session.reservations, session.connectors};
}

void CheckSessions(Rules& rules, const Records& records, Counted& counted) {
  for (const auto& [id, session] : records.sessions) {
    const std::array<uint32_t, 5> counts = CountsOf(session);
    uint32_t objects = 0;
    for (size_t kind = 0; kind < counts.size(); ++kind) {
      rules.Require(counts[kind] == counted.owned[{id, kind}], "session ", id.value(), ": counts ", counts[kind],
                    " objects of kind ", kind, ", has ", counted.owned[{id, kind}]);
      objects += counts[kind];
    }
    rules.Require(!session.ended || objects > 0 || session.has_leftovers(), "session ", id.value(),
                  ": has ended and has nothing");
    rules.Require(!session.ended || !session.stream, "session ", id.value(), ": has ended and has a stream");
    rules.Require(session.dropped <= session.done_with(), "session ", id.value(),
                  ": has dropped events that are not acknowledged");
    rules.Require(session.acknowledged <= session.last_event, "session ", id.value(),
                  ": has acknowledged events that there never were");
    rules.Require(session.events.size() == session.last_event.value() - session.dropped.value(), "session ", id.value(),
                  ": its kept events are not those after the dropped ones");
    const auto out_of_order = [](const KeptAnswer& one, const KeptAnswer& next) { return one.id >= next.id; };
    rules.Require(
        std::adjacent_find(session.answers.begin(), session.answers.end(), out_of_order) == session.answers.end(),
        "session ", id.value(), ": its kept answers are not in the order of their requests");
    const bool waits = session.deadline != absl::InfiniteFuture();
    rules.Require(waits == (session.ended ? counted.with_open.contains(id) : !session.stream), "session ", id.value(),
                  ": is away or has something to close without a deadline, or has one for nothing");
  }
}

// What belongs to a connector's state.
void CheckConnector(Rules& rules, const Records& records, const ConnectorRecord& connector) {
  using enum ConnectorState;
  const ConnectorState state = connector.state;
  const std::string name = Name(connector.id);
  const bool connected = state != kIdle && state != kBinding && state != kDead;
  rules.Require(connected == static_cast<bool>(connector.connection), name, ": state ", static_cast<int>(state),
                connected ? " without a connection" : " with a connection");
  const bool pending = state == kBinding || state == kConnecting || state == kCompleting || state == kAccepting ||
                       state == kDisconnecting;
  const bool ended = records.sessions.at(connector.session).ended;
  rules.Require(ended || pending == static_cast<bool>(connector.pending), name, ": state ", static_cast<int>(state),
                pending ? " without a request" : " with a request");
  const bool timed = pending || (state == kEstablished && connector.awaits_handoff);
  rules.Require(timed == (connector.deadline != absl::InfiniteFuture()), name, ": state ", static_cast<int>(state),
                timed ? " without a deadline" : " with a deadline");
  rules.Require(!connector.closing || state == kDead, name, ": is being closed and still does something");
  rules.Require(!connector.listener || (state != kIdle && state != kBinding && state != kConnecting &&
                                        state != kReplied && state != kCompleting),
                name, ": was delivered and connects");
  rules.Require(state != kBinding || connector.endpoint, name, ": is being bound without an endpoint");
  rules.Require((state != kRequested && state != kAccepting) || connector.listener, name, ": was delivered by nobody");
  rules.Require(!connector.accept_data || state == kAccepting, name, ": keeps an Accept's data, and accepts nothing");
  rules.Require(!connector.awaits_handoff || state == kEstablished, name, ": awaits a hand-off it cannot have");
  const bool uses_qp = pending || state == kReplied || state == kEstablished || state == kPeerDisconnected;
  rules.Require(!uses_qp || connector.qp.value != 0, name, ": is connected without a queue pair");
  if (!connector.connection) return;
  const auto connection = records.connections.find(connector.connection);
  const bool mutual = connection != records.connections.end() && connection->second.connector == connector.id &&
                      !connection->second.given_up;
  rules.Require(mutual, name, ": its connection is not its own");
}

void CheckConnections(Rules& rules, const Records& records) {
  for (const auto& [id, connector] : records.connectors) {
    CheckConnector(rules, records, connector);
  }
  std::map<std::pair<SocketAddress, SocketAddress>, std::vector<FourTuple>> tuples;
  for (const auto& [id, connection] : records.connections) {
    if (!connection.holds_addresses) continue;
    auto& same = tuples[{connection.local, connection.peer}];
    const FourTuple tuple = TupleOf(records, connection);
    rules.Require(std::find(same.begin(), same.end(), tuple) == same.end(), "connection ", id.value(),
                  ": another has the same addresses");
    same.push_back(tuple);
  }
}

// A report about an endpoint that is being bound or repurposed goes to its owner, which waits for it; only a connector
// may have chosen another endpoint meanwhile. A bound endpoint may outlive its owner.
void CheckOwner(Rules& rules, const Records& records, const EndpointRecord& endpoint) {
  const bool repurposing = endpoint.state == EndpointState::kRepurposing;
  const bool reports = endpoint.state == EndpointState::kBinding || repurposing;
  if (!reports || (std::holds_alternative<ConnectorId>(endpoint.owner) && !repurposing)) return;
  const std::string name = absl::StrCat("endpoint ", endpoint.id.value());
  const auto check = [&](auto id) {
    const auto& table = TableOf(records, id);
    const auto owner = table.find(id);
    rules.Require(owner != table.end() && owner->second.endpoint == endpoint.id, name, ": ", Name(id),
                  " does not wait for it");
    if (owner == table.end()) return;
    bool takes = false;
    if constexpr (requires { owner->second.taking; }) takes = static_cast<bool>(owner->second.taking);
    rules.Require(takes == repurposing, name, ": repurposed without a reservation, or bound with one");
  };
  std::visit(check, endpoint.owner);
}

// An object that waits for its endpoint's reports, or whose close gives the endpoint back, owns it.
void CheckOwned(Rules& rules, const Records& records) {
  const auto require = [&](const auto& object) {
    const EndpointRecord& endpoint = records.endpoints.at(object.endpoint);
    rules.Require(endpoint.owner == ObjectId(object.id), Name(object.id), ": endpoint ", endpoint.id.value(), " is ",
                  Name(endpoint.owner), "'s");
  };
  for (const auto& [id, listener] : records.listeners) {
    if (listener.endpoint) require(listener);
  }
  for (const auto& [id, shared] : records.shared_endpoints) require(shared);
  for (const auto& [id, reservation] : records.reservations) {
    if (!reservation.taken) require(reservation);
  }
  for (const auto& [id, connector] : records.connectors) {
    if (!connector.endpoint) continue;
    if (records.endpoints.at(connector.endpoint).state == EndpointState::kBinding) require(connector);
  }
}

// A reservation that is being taken has one taker, which holds its endpoint.
void CheckReservations(Rules& rules, const Records& records) {
  std::map<ReservationId, uint32_t> takers;
  const auto check = [&](const auto& table) {
    for (const auto& [id, taker] : table) {
      if (!taker.taking) continue;
      ++takers[taker.taking];
      const bool same = taker.endpoint && records.reservations.at(taker.taking).endpoint == taker.endpoint;
      rules.Require(same && records.endpoints.at(taker.endpoint).state == EndpointState::kRepurposing, Name(id),
                    ": takes a reservation without its endpoint");
    }
  };
  check(records.listeners);
  check(records.shared_endpoints);
  for (const auto& [id, reservation] : records.reservations) {
    rules.Require(takers[id] == (reservation.taken ? 1 : 0), Name(id), ": is taken by ", takers[id]);
  }
}

void CheckEndpoints(Rules& rules, const Records& records) {
  std::map<std::tuple<uint64_t, PortSpace, IpAddress, uint16_t>, EndpointId> taken;
  for (const auto& [id, endpoint] : records.endpoints) {
    CheckOwner(rules, records, endpoint);
    rules.Require(endpoint.address.port != 0, "endpoint ", id.value(), ": has no port");
    const bool used = endpoint.references + endpoint.connections > 0;
    rules.Require(endpoint.state != EndpointState::kBound || used, "endpoint ", id.value(), ": bound and unused");
    rules.Require(endpoint.state != EndpointState::kUnbinding || !used, "endpoint ", id.value(), ": unbound in use");
    const bool within =
        endpoint.address.ip.IsAny() || endpoint.ips.empty() || std::ranges::equal(endpoint.ips, TakenBy(endpoint));
    rules.Require(within, "endpoint ", id.value(), ": is held at addresses that are not its own");
    for (const IpAddress& ip : TakenBy(endpoint)) {
      const auto [other, fresh] =
          taken.try_emplace({endpoint.network_namespace, endpoint.port_space, ip, endpoint.address.port}, id);
      rules.Require(fresh, "endpoint ", id.value(), ": its address is endpoint ", other->second.value(), "'s too");
    }
  }
}

// What is left of a deadline is told by the time of the last event.
void CheckTime(Rules& rules, const Records& records) {
  const auto waits = [](const auto& each) { return each.second.deadline != absl::InfiniteFuture(); };
  const bool any = std::any_of(records.sessions.begin(), records.sessions.end(), waits) ||
                   std::any_of(records.connectors.begin(), records.connectors.end(), waits);
  const bool known = records.now != absl::InfinitePast() && records.now != absl::InfiniteFuture();
  rules.Require(known || !any, "there are deadlines, and no time of the last event");
}

}  // namespace

absl::Status CheckRecords(const Records& records) {
  Rules rules;
  CheckReferences(rules, records);
  if (!rules.status().ok()) return rules.status();
  Counted counted = Count(records);
  CheckCounts(rules, records, counted);
  CheckSessions(rules, records, counted);
  CheckTime(rules, records);
  CheckConnections(rules, records);
  CheckEndpoints(rules, records);
  CheckReservations(rules, records);
  CheckOwned(rules, records);
  for (const auto& [id, listener] : records.listeners) {
    rules.Require(listener.closing || (listener.state == ListenerState::kCreated) == !listener.endpoint, Name(id),
                  ": listens without an endpoint, or has one without listening");
  }
  return rules.status();
}

absl::Status CheckLimits(const Records& records, const Limits& limits) {
  Rules rules;
  const std::array<uint32_t, 5> most = {limits.adapters_per_session, limits.listeners_per_session,
                                        limits.shared_endpoints_per_session, limits.reservations_per_session,
                                        limits.connectors_per_session};
  for (const auto& [id, session] : records.sessions) {
    const std::array<uint32_t, 5> counts = CountsOf(session);
    for (size_t kind = 0; kind < counts.size(); ++kind) {
      rules.Require(counts[kind] <= most[kind], "session ", id.value(), ": has ", counts[kind], " objects of kind ",
                    kind);
    }
    rules.Require(session.answers.size() <= session.answers_kept, "session ", id.value(), ": keeps too many answers");
  }
  return rules.status();
}

absl::Status CheckIndex(const Records& records, const Index& index) {
  const Index derived = Index::Of(records);
  Rules rules;
  rules.Require(derived.addresses == index.addresses, "index: addresses differ from the records");
  rules.Require(derived.wildcards == index.wildcards, "index: wildcards differ from the records");
  rules.Require(derived.tuples == index.tuples, "index: tuples differ from the records");
  rules.Require(derived.qps == index.qps, "index: queue pairs differ from the records");
  rules.Require(derived.deadlines == index.deadlines, "index: deadlines differ from the records");
  rules.Require(derived.owned == index.owned, "index: owners differ from the records");
  rules.Require(derived.open == index.open, "index: what is open differs from the records");
  rules.Require(derived.undropped == index.undropped, "index: what sessions must drop differs from the records");
  rules.Require(derived.objects_of_uid == index.objects_of_uid, "index: uids' objects differ from the records");
  rules.Require(derived.device_names == index.device_names, "index: device names differ from the records");
  rules.Require(derived.adapters_on == index.adapters_on, "index: adapters on devices differ from the records");
  rules.Require(derived.roaming == index.roaming, "index: listeners at any adapter differ from the records");
  rules.Require(derived.lists == index.lists, "index: lists differ from the records");
  rules.Require(derived.ledger == index.ledger, "index: uids' bytes differ from the records");
  rules.Require(derived.states == index.states, "index: states differ from the records");
  return rules.status();
}

}  // namespace rdmabroker
