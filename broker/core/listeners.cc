// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <optional>
#include <variant>

#include "broker/core/connections.h"
#include "broker/core/endpoints.h"
#include "broker/core/nouns.h"
#include "broker/core/objects.h"
#include "broker/core/sessions.h"

namespace rdmabroker {
namespace {

void SetAnyAdapter(Turn& turn, ListenerRecord& listener, bool any) {
  listener.any_adapter = any;
  if (any) {
    turn.index.roaming.emplace(listener.session, listener.id);
  } else {
    turn.index.roaming.erase({listener.session, listener.id});
  }
}

// Each adapter has addresses of its own, so that "all of them" is a listener for each.
Outcome RefuseAnyAdapter(Turn& turn, const Call& call, const Listen& request) {
  SocketAddress address = request.address;
  if (request.reservation) {
    const auto reserved = FindOwned(turn, call, request.reservation);
    if (!reserved) return reserved.refusal;
    address = std::as_const(turn.records.endpoints).at(reserved->endpoint).address;
  }
  if (!address.ip.IsAny()) return Done();
  return Refuse(NdkStatus::kInvalidParameter, "any_adapter: not with a wildcard (", address.ToString(),
                "); name one address, or make a listener on each adapter");
}

Outcome Bind(Turn& turn, const Call& call, const Listen& request, ListenerRecord& listener) {
  if (request.reservation) {
    Outcome outcome = TakeReservation(turn, call, request.reservation, listener.adapter, request.address,
                                      EndpointUse::kListener, request.listener);
    if (outcome.status != NdkStatus::kPending) return outcome;
    listener.taking = request.reservation;
    listener.endpoint = turn.records.reservations.at(request.reservation).endpoint;
    return outcome;
  }
  const DeviceId own = DeviceOf(turn, listener.adapter).id;
  const DeviceId device = request.any_adapter ? DeviceFor(turn, listener, request.address.ip, own) : own;
  return AcquireEndpoint(turn, call.session, std::as_const(turn.records.devices).at(device).device,
                         EndpointUse::kListener, request.address,
                         request.await_address ? Presence::kAwaited : Presence::kNow, request.listener,
                         listener.endpoint);
}

// Why the listener delivers no request of the device now; nothing where it does.
std::optional<Refusal> WhyRefused(const Turn& turn, const ListenerRecord& listener, DeviceId device) {
  if (!MayBegin(turn, listener)) return Refusal::kClosing;
  if (!AdapterAt(turn, listener, device)) return Refusal::kNoListener;
  if (listener.state != ListenerState::kListening) return Refusal::kNoListener;
  if (listener.paused) return Refusal::kPaused;
  if (listener.undecided >= turn.limits.backlog) return Refusal::kBacklog;
  if (IsRemoved(turn, listener.adapter) || std::as_const(turn.records.devices).at(device).removed) {
    return Refusal::kRemoved;
  }
  if (IsOverwhelmed(turn, std::as_const(turn.records.sessions).at(listener.session))) return Refusal::kEvents;
  return std::nullopt;
}

// The listener that may deliver a request at the endpoint on the device, or why the request is refused as if nobody
// listened.
std::variant<ListenerRecord*, Refusal> ListenerFor(Turn& turn, const EndpointRecord& endpoint, DeviceId device) {
  const ListenerId* id = std::get_if<ListenerId>(&endpoint.owner);
  if (id == nullptr) return Refusal::kNoListener;
  ListenerRecord& listener = turn.records.listeners.at(*id);
  if (const auto refusal = WhyRefused(turn, listener, device)) return *refusal;
  return &listener;
}

}  // namespace

Outcome Perform(Turn& turn, const Call& call, const CreateListener& request) {
  const auto adapter = FindUsable(turn, call, request.adapter);
  if (!adapter) return adapter.refusal;
  const auto listener = NewObject<ListenerKind>(turn, call.session, request.adapter, turn.records.counters.listener);
  if (!listener) return listener.refusal;
  return Done(ListenerCreated{listener->id});
}

Outcome Perform(Turn& turn, const Call& call, const Listen& request) {
  const auto listener = FindUsable(turn, call, request.listener);
  if (!listener) return listener.refusal;
  if (listener->state != ListenerState::kCreated) {
    return Refuse(NdkStatus::kAddressAlreadyAssociated, Name(request.listener),
                  ": listens already; create another listener");
  }
  Outcome outcome = request.any_adapter ? RefuseAnyAdapter(turn, call, request) : Done();
  if (outcome.status != NdkStatus::kSuccess) return outcome;
  SetAnyAdapter(turn, *listener, request.any_adapter);
  outcome = Bind(turn, call, request, *listener);
  if (outcome.status != NdkStatus::kPending) {
    SetAnyAdapter(turn, *listener, false);
    return outcome;
  }
  listener->state = ListenerState::kBinding;
  listener->pending = call.id;
  return outcome;
}

Outcome Perform(Turn& turn, const Call& call, const ControlConnectEvents& request) {
  const auto listener = FindUsable(turn, call, request.listener);
  if (!listener) return listener.refusal;
  listener->paused = request.pause;
  return Done();
}

bool IsBare(const Turn&, const ListenerRecord& listener) { return !listener.endpoint; }

void StartClosing(Turn& turn, ListenerRecord& listener) {
  Complete(turn, listener, listener.pending, Refuse(NdkStatus::kCancelled, Name(listener.id), ": was closed"));
}

bool CanFinish(Turn& turn, ListenerRecord& listener) {
  return listener.successors == 0 && LeaveEndpoint(turn, listener, listener.id);
}

void OnBound(Turn& turn, ListenerRecord& listener, EndpointId endpoint) {
  listener.state = ListenerState::kListening;
  if (listener.taking) ConsumeReservation(turn, std::exchange(listener.taking, ReservationId()));
  Complete(turn, listener, listener.pending, Done(Listening{turn.records.endpoints.at(endpoint).address}));
}

void OnBindFailed(Turn& turn, ListenerRecord& listener, EndpointId, const Outcome& outcome) {
  listener.endpoint = EndpointId();
  if (listener.taking) ReturnReservation(turn, std::exchange(listener.taking, ReservationId()));
  SetAnyAdapter(turn, listener, false);
  listener.state = ListenerState::kCreated;
  Complete(turn, listener, listener.pending, outcome);
}

void Handle(Turn& turn, const FabricConnectRequested& report) {
  const auto& endpoints = std::as_const(turn.records.endpoints);
  const auto endpoint = endpoints.find(report.endpoint);
  // The core knows every endpoint until it is unbound, and no request of one comes after that.
  if (endpoint == endpoints.end()) return;
  const DeviceId device = report.device ? report.device : endpoint->second.device;
  const auto on = turn.records.devices.find(device);
  if (on == turn.records.devices.end()) return;
  const auto deliverer = ListenerFor(turn, endpoint->second, device);
  ListenerRecord* listener =
      std::holds_alternative<Refusal>(deliverer) ? nullptr : std::get<ListenerRecord*>(deliverer);
  const auto connector = listener == nullptr
                             ? Found<ConnectorRecord>{}
                             : NewObject<ConnectorKind>(turn, listener->session, AdapterAt(turn, *listener, device),
                                                        turn.records.counters.connector);
  ConnectionRecord& connection = turn.records.connections[report.connection];
  connection = {.id = report.connection, .device = device};
  ++on->second.connections;
  connection.local = report.local;
  connection.peer = report.peer;
  if (endpoint->second.state != EndpointState::kUnbinding) StandOn(turn, connection, report.endpoint);
  if (!connector) {
    turn.tally.Refuse(Side::kPassive, listener == nullptr ? std::get<Refusal>(deliverer) : Refusal::kQuota);
    connection.given_up = true;
    connection.farewell = Farewell::kRefuse;
    turn.Emit(FarewellOf(connection));
    return;
  }
  connection.connector = connector->id;
  const AdapterInfo& info = on->second.device.info;
  connector->listener = listener->id;
  SetState(turn, *connector, ConnectorState::kRequested);
  connector->connection = report.connection;
  connector->local = report.local;
  connector->peer = report.peer;
  connector->limits = {std::min(info.max_inbound_read_limit, report.peer_limits.outbound),
                       std::min(info.max_outbound_read_limit, report.peer_limits.inbound)};
  connector->private_data = report.private_data;
  connector->three_way = report.three_way;
  connector->has_data = true;
  connector->qp_attributes = report.qp_attributes;
  SetReadLimits(connector->qp_attributes, connector->limits);
  ++listener->successors;
  ++listener->undecided;
  ++turn.index.objects_of_uid.at(std::as_const(turn.records.sessions).at(listener->session).identity.uid).undecided;
  Notify(turn, *connector, ConnectEvent{listener->id, connector->id, DataOf(*connector), connector->adapter});
}

}  // namespace rdmabroker
