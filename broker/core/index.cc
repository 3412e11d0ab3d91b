// SPDX-License-Identifier: Apache-2.0

#include "broker/core/index.h"

#include <algorithm>

namespace rdmabroker {

absl::flat_hash_map<std::string, DeviceId> DeviceNames(const Records& records) {
  absl::flat_hash_map<std::string, DeviceId> names;
  for (const auto& [id, device] : records.devices) {
    if (device.removed) continue;
    DeviceId& named = names[device.device.name];
    named = std::max(named, id);
  }
  return names;
}

FourTuple TupleOf(const Records& records, const ConnectionRecord& connection) {
  const Device& device = records.devices.at(connection.device).device;
  return {device.network_namespace, device.port_space, connection.local, connection.peer};
}

AddressKey AddressOf(const EndpointRecord& endpoint, const IpAddress& ip) {
  return {endpoint.network_namespace, endpoint.port_space, {ip, endpoint.address.port}};
}

PortKey PortOf(const EndpointRecord& endpoint) {
  return {endpoint.network_namespace, endpoint.port_space, endpoint.address.port};
}

void StateCounts::Count(const Records& records, const ConnectorRecord& connector, int by) {
  connectors[static_cast<size_t>(connector.state)] += static_cast<uint32_t>(by);
  if (!IsActive(connector)) return;
  const auto count = active.try_emplace(records.adapters.at(connector.adapter).device).first;
  count->second += static_cast<uint32_t>(by);
  if (count->second == 0) active.erase(count);
}

void StateCounts::Count(const EndpointRecord& endpoint, int by) {
  endpoints[static_cast<size_t>(endpoint.state)] += static_cast<uint32_t>(by);
}

// Defined here for the reason that requests.cc gives.
Index::Index() = default;
Index::Index(const Index&) = default;
Index::Index(Index&&) noexcept = default;
Index& Index::operator=(const Index&) = default;
Index& Index::operator=(Index&&) noexcept = default;
Index::~Index() = default;

Index Index::Of(const Records& records) {
  Index index;
  for (const auto& [id, endpoint] : records.endpoints) {
    index.lists.endpoints.Add(endpoint.uid, id);
    index.states.Count(endpoint, 1);
    for (const IpAddress& ip : TakenBy(endpoint)) index.addresses[AddressOf(endpoint, ip)] = id;
    if (endpoint.address.ip.IsAny()) index.wildcards[PortOf(endpoint)].insert(id);
  }
  for (const auto& [id, connection] : records.connections) {
    if (connection.holds_addresses) index.tuples[TupleOf(records, connection)] = id;
  }
  index.device_names = DeviceNames(records);
  for (const auto& [id, session] : records.sessions) {
    const uint32_t uid = session.identity.uid;
    index.lists.sessions.Add(uid, id);
    index.ledger.Charge(uid, BytesOf(session));
    if (session.deadline != absl::InfiniteFuture()) index.deadlines.sessions.emplace(session.deadline, id);
    if (session.has_leftovers()) index.undropped.insert(id);
  }
  const auto own = [&](const auto& table) {
    for (const auto& [id, object] : table) {
      const SessionRecord& session = records.sessions.at(object.session);
      const uint32_t uid = session.identity.uid;
      index.owned[object.session].insert(id);
      if (!object.closing) index.open[object.session].insert(id);
      ++index.objects_of_uid[uid].all;
      ListOf(index.lists, id).Add(uid, id);
      index.ledger.Charge(uid, kObjectBytes);
    }
  };
  own(records.adapters);
  for (const auto& [id, adapter] : records.adapters) index.adapters_on[{adapter.device, adapter.session}].insert(id);
  own(records.listeners);
  for (const auto& [id, listener] : records.listeners) {
    if (listener.any_adapter) index.roaming.emplace(listener.session, id);
  }
  own(records.shared_endpoints);
  own(records.reservations);
  own(records.connectors);
  for (const auto& [id, connector] : records.connectors) {
    index.states.Count(records, connector, 1);
    const uint32_t uid = records.sessions.at(connector.session).identity.uid;
    if (connector.state == ConnectorState::kRequested) ++index.objects_of_uid.at(uid).undecided;
    if (connector.deadline != absl::InfiniteFuture()) index.deadlines.Add(uid, connector.deadline, id);
    if (connector.qp.value == 0) continue;
    const DeviceId device = records.adapters.at(connector.adapter).device;
    index.qps[{connector.session, device, connector.qp}] = id;
  }
  return index;
}

}  // namespace rdmabroker
