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

void GiveUpListening(Turn& turn, ListenerRecord& listener, const Outcome& outcome) {
  listener.state = ListenerState::kCreated;
  Complete(turn, listener, listener.pending, outcome);
}

// Why the listener delivers no request now; nothing where it does.
std::optional<Refusal> WhyRefused(const Turn& turn, const ListenerRecord& listener) {
  if (listener.closing) return Refusal::kClosing;
  if (listener.state != ListenerState::kListening) return Refusal::kNoListener;
  if (listener.paused) return Refusal::kPaused;
  if (listener.undecided >= turn.limits.backlog) return Refusal::kBacklog;
  if (IsRemoved(turn, listener.adapter)) return Refusal::kRemoved;
  if (IsOverwhelmed(turn, std::as_const(turn.records.sessions).at(listener.session))) return Refusal::kEvents;
  return std::nullopt;
}

// The listener that may deliver a request at the endpoint, or why the request is refused as if nobody listened.
std::variant<ListenerRecord*, Refusal> ListenerFor(Turn& turn, const EndpointRecord& endpoint) {
  const ListenerId* id = std::get_if<ListenerId>(&endpoint.owner);
  if (id == nullptr) return Refusal::kNoListener;
  ListenerRecord& listener = turn.records.listeners.at(*id);
  if (const auto refusal = WhyRefused(turn, listener)) return *refusal;
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
  Outcome outcome;
  if (request.reservation) {
    outcome = TakeReservation(turn, call, request.reservation, listener->adapter, request.address,
                              EndpointUse::kListener, request.listener);
    if (outcome.status != NdkStatus::kPending) return outcome;
    listener->taking = request.reservation;
    listener->endpoint = turn.records.reservations.at(request.reservation).endpoint;
  } else {
    outcome = AcquireEndpoint(turn, call.session, DeviceOf(turn, listener->adapter), EndpointUse::kListener,
                              request.address, request.await_address ? Presence::kAwaited : Presence::kNow,
                              request.listener, listener->endpoint);
    if (outcome.status != NdkStatus::kPending) return outcome;
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
  GiveUpListening(turn, listener, outcome);
}

void Handle(Turn& turn, const FabricConnectRequested& report) {
  const auto& endpoints = std::as_const(turn.records.endpoints);
  const auto endpoint = endpoints.find(report.endpoint);
  // The core knows every endpoint until it is unbound, and no request of one comes after that.
  if (endpoint == endpoints.end()) return;
  const auto deliverer = ListenerFor(turn, endpoint->second);
  ListenerRecord* listener =
      std::holds_alternative<Refusal>(deliverer) ? nullptr : std::get<ListenerRecord*>(deliverer);
  const auto connector = listener == nullptr ? Found<ConnectorRecord>{}
                                             : NewObject<ConnectorKind>(turn, listener->session, listener->adapter,
                                                                        turn.records.counters.connector);
  ConnectionRecord& connection = turn.records.connections[report.connection];
  connection = {.id = report.connection, .device = endpoint->second.device};
  ++turn.records.devices.at(connection.device).connections;
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
  const AdapterInfo& info = DeviceOf(turn, listener->adapter).info;
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
  Notify(turn, *connector, ConnectEvent{listener->id, connector->id, DataOf(*connector)});
}

}  // namespace rdmabroker
