// SPDX-License-Identifier: Apache-2.0

#include "broker/control/inspection_rows.h"

#include <algorithm>
#include <string>
#include <variant>

#include "broker/control/translation.h"
#include "broker/core/index.h"
#include "broker/core/overloaded.h"

namespace rdmabroker {
namespace {

// The proto's states are the core's, after the 0 that means "not told".
template <typename ProtoEnum, typename CoreEnum>
ProtoEnum StateOf(CoreEnum state) {
  return static_cast<ProtoEnum>(static_cast<int>(state) + 1);
}

// What listeners, shared endpoints, reservations and connectors show alike.
template <typename Object, typename Row>
void FillObject(const Records& records, const Object& object, Row* row) {
  row->set_session_id(object.session.value());
  row->set_adapter_id(object.adapter.value());
  row->set_device(DeviceOf(records, object).device.name);
  row->set_endpoint_id(object.endpoint.value());
  row->set_closing(object.closing);
}

template <typename Row>
void FillAddress(const Records& records, EndpointId id, Row* row) {
  const auto endpoint = records.endpoints.find(id);
  if (endpoint != records.endpoints.end()) ShowAddress(endpoint->second.address, row->mutable_address());
}

}  // namespace

SessionId SessionOf(const Records& records, const EndpointRecord& endpoint) {
  const auto owner = [](const auto& table, auto id) {
    const auto found = table.find(id);
    return found == table.end() ? SessionId() : found->second.session;
  };
  return std::visit(
      Overloaded{[](AdapterId) { return SessionId(); }, [&](ListenerId id) { return owner(records.listeners, id); },
                 [&](SharedEndpointId id) { return owner(records.shared_endpoints, id); },
                 [&](ReservationId id) { return owner(records.reservations, id); },
                 [&](ConnectorId id) { return owner(records.connectors, id); }},
      endpoint.owner);
}

const DeviceRecord& DeviceOf(const Records& records, const EndpointRecord& endpoint) {
  return records.devices.at(endpoint.device);
}

const DeviceRecord& DeviceOf(const Records& records, const ObjectRecord& object) {
  return records.devices.at(records.adapters.at(object.adapter).device);
}

void Fill(const Records&, const SessionRecord& session, v1::SessionInfo* row) {
  row->set_session_id(session.id.value());
  row->set_uid(session.identity.uid);
  row->set_gid(session.identity.gid);
  row->set_pid(session.identity.pid);
  row->set_state(session.ended    ? v1::SESSION_STATE_ENDING
                 : session.stream ? v1::SESSION_STATE_OPEN
                                  : v1::SESSION_STATE_AWAY);
  row->set_adapters(session.adapters);
  row->set_listeners(session.listeners);
  row->set_shared_endpoints(session.shared_endpoints);
  row->set_reservations(session.reservations);
  row->set_connectors(session.connectors);
  row->set_unacknowledged_events(static_cast<uint32_t>(session.unacknowledged()));
}

void Fill(const Records& records, const EndpointRecord& endpoint, v1::EndpointInfo* row) {
  row->set_endpoint_id(endpoint.id.value());
  row->set_session_id(SessionOf(records, endpoint).value());
  row->set_device(DeviceOf(records, endpoint).device.name);
  row->set_network_namespace(endpoint.network_namespace);
  row->set_port_space(ToProto(endpoint.port_space));
  ShowAddress(endpoint.address, row->mutable_address());
  row->set_use(StateOf<v1::EndpointUse>(endpoint.use));
  row->set_references(endpoint.references);
  row->set_connections(endpoint.connections);
  row->set_state(StateOf<v1::EndpointState>(endpoint.state));
}

void Fill(const Records& records, const ListenerRecord& listener, v1::ListenerInfo* row) {
  row->set_listener_id(listener.id.value());
  FillObject(records, listener, row);
  FillAddress(records, listener.endpoint, row);
  row->set_state(StateOf<v1::ListenerState>(listener.state));
  row->set_undecided_connectors(listener.undecided);
  row->set_successors(listener.successors);
  row->set_paused(listener.paused);
  const auto endpoint = records.endpoints.find(listener.endpoint);
  if (endpoint != records.endpoints.end()) row->set_device(records.devices.at(endpoint->second.device).device.name);
  if (listener.state != ListenerState::kListening || endpoint == records.endpoints.end()) return;
  for (const IpAddress& ip : endpoint->second.ips) ShowAddress(ip, row->add_answers_at());
}

void Fill(const Records& records, const SharedEndpointRecord& shared_endpoint, v1::SharedEndpointInfo* row) {
  row->set_shared_endpoint_id(shared_endpoint.id.value());
  FillObject(records, shared_endpoint, row);
  FillAddress(records, shared_endpoint.endpoint, row);
  row->set_successors(shared_endpoint.successors);
}

void Fill(const Records& records, const ReservationRecord& reservation, v1::ReservationInfo* row) {
  row->set_reservation_id(reservation.id.value());
  FillObject(records, reservation, row);
  FillAddress(records, reservation.endpoint, row);
}

void Fill(const Records& records, const ConnectorRecord& connector, v1::ConnectorInfo* row) {
  row->set_connector_id(connector.id.value());
  FillObject(records, connector, row);
  row->set_state(StateOf<v1::ConnectorState>(connector.state));
  row->set_listener_id(connector.listener.value());
  row->set_shared_endpoint_id(connector.shared_endpoint.value());
  if (connector.local.port != 0) ShowAddress(connector.local, row->mutable_local());
  if (connector.peer.port != 0) ShowAddress(connector.peer, row->mutable_peer());
  row->set_qp_number(connector.qp.value);
  row->set_path_mtu(PathMtu(connector));
  if (connector.has_data) ToProto(connector.limits, row->mutable_limits());
  if (connector.state == ConnectorState::kDead) row->set_dead_status(ToProto(connector.dead_status));
  const auto session = records.sessions.find(connector.session);
  if (session != records.sessions.end()) row->set_pid(session->second.identity.pid);
}

void Fill(const StateCounts& states, const DeviceRecord& device, bool counted, v1::DeviceActivity* activity) {
  activity->set_state(ToState(device));
  activity->set_withheld(!counted);
  if (!counted) return;
  activity->set_adapters(device.adapters);
  const auto active = states.active.find(device.device.id);
  activity->set_active_connections(active == states.active.end() ? 0 : active->second);
  activity->set_connects(device.counts.connects);
  activity->set_accepts(device.counts.accepts);
  activity->set_connect_failures(device.counts.connect_failures);
  activity->set_connection_errors(device.counts.connection_errors);
}

std::map<std::string, const DeviceRecord*> DevicesThere(const Records& records) {
  std::map<std::string, const DeviceRecord*> devices;
  for (const auto& [name, id] : DeviceNames(records)) devices[name] = &records.devices.at(id);
  return devices;
}

void Fill(const StateCounts& states, const DeviceRecord& device, bool counted, v1::AdapterRow* row) {
  ToProto(device, row->mutable_device());
  Fill(states, device, counted, row->mutable_activity());
}

}  // namespace rdmabroker
