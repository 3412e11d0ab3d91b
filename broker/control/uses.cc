// SPDX-License-Identifier: Apache-2.0

#include "broker/control/uses.h"

#include <algorithm>
#include <variant>

#include "broker/core/request_names.h"

namespace rdmabroker {
namespace {

// One overload for each request that begins something.
class UseFinder {
 public:
  UseFinder(SessionId session, const Records& records, const Limits& limits)
      : session_(session), records_(records), limits_(limits) {}

  std::optional<Use> operator()(const OpenAdapter& request) const { return Use{.adapter = request.device}; }
  std::optional<Use> operator()(const CreateListener& request) const { return Of(request.adapter); }
  std::optional<Use> operator()(const CreateConnector& request) const { return Of(request.adapter); }

  std::optional<Use> operator()(const Listen& request) const {
    const ListenerRecord* listener = Find(records_.listeners, request.listener);
    return listener == nullptr ? std::nullopt : WithPort(Of(listener->adapter), request.reservation, request.address);
  }
  std::optional<Use> operator()(const CreateSharedEndpoint& request) const {
    return WithPort(Of(request.adapter), request.reservation, request.address);
  }
  std::optional<Use> operator()(const ReservePort& request) const {
    return WithPort(Of(request.adapter), ReservationId(), request.address);
  }

  std::optional<Use> operator()(const Connect& request) const {
    std::optional<Use> use = OfConnector(request.connector);
    // A port that the client does not name is nothing that it wants.
    if (use && request.source.port != 0) use->local_ports = PortRange{request.source.port, request.source.port};
    return WithDestination(std::move(use), request.destination);
  }
  std::optional<Use> operator()(const ConnectWithSharedEndpoint& request) const {
    std::optional<Use> use = OfConnector(request.connector);
    const SharedEndpointRecord* shared = Find(records_.shared_endpoints, request.shared_endpoint);
    if (shared == nullptr || !use) return std::nullopt;
    use->local_ports = PortOf(shared->endpoint);
    return WithDestination(std::move(use), request.destination);
  }
  std::optional<Use> operator()(const Accept& request) const {
    std::optional<Use> use = OfConnector(request.connector);
    const ConnectorRecord* connector = Find(records_.connectors, request.connector);
    if (!use || !connector->listener) return std::nullopt;
    use->local_ports = PortRange{connector->local.port, connector->local.port};
    use->destination = connector->peer.ip;
    return use;
  }

  template <typename Other>
  std::optional<Use> operator()(const Other&) const {
    return std::nullopt;
  }

 private:
  template <typename Table, typename Id>
  const typename Table::mapped_type* Find(const Table& table, Id id) const {
    const auto found = table.find(id);
    const bool own = found != table.end() && found->second.session == session_ && found->second.ready;
    return own ? &found->second : nullptr;
  }

  std::optional<Use> Of(AdapterId id) const {
    const AdapterRecord* adapter = Find(records_.adapters, id);
    if (adapter == nullptr) return std::nullopt;
    return Use{.adapter = records_.devices.at(adapter->device).device.name};
  }

  std::optional<Use> OfConnector(ConnectorId id) const {
    const ConnectorRecord* connector = Find(records_.connectors, id);
    return connector == nullptr ? std::nullopt : Of(connector->adapter);
  }

  std::optional<PortRange> PortOf(EndpointId id) const {
    const auto endpoint = records_.endpoints.find(id);
    if (endpoint == records_.endpoints.end()) return std::nullopt;
    return PortRange{endpoint->second.address.port, endpoint->second.address.port};
  }

  std::optional<Use> WithPort(std::optional<Use> use, ReservationId reserved, const SocketAddress& address) const {
    if (!use) return use;
    if (reserved) {
      const ReservationRecord* reservation = Find(records_.reservations, reserved);
      if (reservation == nullptr) return std::nullopt;
      use->local_ports = PortOf(reservation->endpoint);
    } else if (address.port != 0) {
      use->local_ports = PortRange{address.port, address.port};
    } else {
      use->local_ports = PortRange{limits_.first_ephemeral_port, limits_.last_ephemeral_port};
    }
    return use;
  }

  // What names no host or no port is no destination; the core refuses it, whoever asks.
  static std::optional<Use> WithDestination(std::optional<Use> use, const SocketAddress& destination) {
    const IpAddress& ip = destination.ip;
    if (!use || destination.port == 0 || ip.IsAny() || ip.IsMulticast()) return std::nullopt;
    use->destination = ip;
    use->destination_port = destination.port;
    return use;
  }

  SessionId session_;
  const Records& records_;
  const Limits& limits_;
};

std::vector<Use> OnOtherAdapters(const Listen& request, const Use& use, SessionId session, const BrokerCore& core) {
  std::vector<Use> uses;
  if (!request.any_adapter) return uses;
  const Records& records = core.records();
  const Device& own =
      records.devices.at(records.adapters.at(records.listeners.at(request.listener).adapter).device).device;
  for (const auto& [id, device] : records.devices) {
    if (id == own.id || !AreOfOneKind(device.device, own) || !core.index().adapters_on.contains({id, session}))
      continue;
    uses.push_back(use);
    uses.back().adapter = device.device.name;
  }
  // In one order, whatever the table's is.
  std::ranges::sort(uses, {}, &Use::adapter);
  return uses;
}

std::vector<Use> OfRoamingListeners(const Use& use, SessionId session, const BrokerCore& core) {
  std::vector<Use> uses;
  const Records& records = core.records();
  const auto device = core.index().device_names.find(use.adapter);
  if (device == core.index().device_names.end()) return uses;
  const auto& roaming = core.index().roaming;
  for (auto next = roaming.lower_bound({session, ListenerId()}); next != roaming.end() && next->first == session;
       ++next) {
    const auto endpoint = records.endpoints.find(records.listeners.at(next->second).endpoint);
    if (endpoint == records.endpoints.end()) continue;
    const Device& at = records.devices.at(endpoint->second.device).device;
    if (!AreOfOneKind(at, records.devices.at(device->second).device)) continue;
    const uint16_t port = endpoint->second.address.port;
    uses.push_back({.adapter = use.adapter, .local_ports = PortRange{port, port}});
  }
  return uses;
}

}  // namespace

std::vector<Use> FurtherUsesOf(const ClientRequest& request, const Use& use, const BrokerCore& core) {
  if (const auto* listen = std::get_if<Listen>(&request.request)) {
    return OnOtherAdapters(*listen, use, request.session, core);
  }
  if (std::holds_alternative<OpenAdapter>(request.request)) return OfRoamingListeners(use, request.session, core);
  return {};
}

std::optional<Use> UseOf(const ClientRequest& request, const Records& records, const Limits& limits) {
  return std::visit(UseFinder(request.session, records, limits), request.request);
}

const char* NameOf(const Request& request) { return kRequestNames[request.index()]; }

}  // namespace rdmabroker
