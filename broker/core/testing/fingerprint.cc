// SPDX-License-Identifier: Apache-2.0

#include "broker/core/testing/fingerprint.h"

#include <algorithm>
#include <string>
#include <vector>

namespace rdmabroker {
namespace {

// Names that are no record's any more; no id of a live one ranks so high.
constexpr uint64_t kGone = 0xFFFF;

// A table's records in the order of their ids, and an id's place in it.
template <typename Key, typename Record>
class Ranked {
 public:
  explicit Ranked(const Table<Key, Record>& table) {
    records_.reserve(table.size());
    for (const auto& [key, record] : table) records_.emplace_back(key, &record);
    std::sort(records_.begin(), records_.end());
  }

  // 0 for no id, else from 1.
  uint64_t Of(Key key) const {
    if (!key) return 0;
    for (size_t i = 0; i < records_.size(); ++i) {
      if (records_[i].first == key) return i + 1;
    }
    return kGone;
  }
  const std::vector<std::pair<Key, const Record*>>& records() const { return records_; }

 private:
  std::vector<std::pair<Key, const Record*>> records_;
};

class Writer {
 public:
  Writer(const Records& records, const Observer& observer)
      : all_(records),
        observer_(observer),
        devices_(records.devices),
        sessions_(records.sessions),
        adapters_(records.adapters),
        listeners_(records.listeners),
        shared_endpoints_(records.shared_endpoints),
        reservations_(records.reservations),
        connectors_(records.connectors),
        endpoints_(records.endpoints),
        connections_(records.connections) {}

  Fingerprint Write() {
    Put(all_.devices.size(), all_.sessions.size(), all_.adapters.size(), all_.listeners.size(),
        all_.shared_endpoints.size(), all_.reservations.size(), all_.connectors.size(), all_.endpoints.size());
    for (const auto& [id, device] : devices_.records()) Device(*device);
    for (const auto& [id, session] : sessions_.records()) OneSession(*session);
    for (const auto& [id, adapter] : adapters_.records()) {
      Object(*adapter, adapter->id);
      Put(adapter->device.value());
    }
    for (const auto& [id, listener] : listeners_.records()) {
      Object(*listener, listener->id);
      Put(static_cast<uint64_t>(listener->state), listener->paused, static_cast<bool>(listener->pending),
          reservations_.Of(listener->taking), listener->undecided);
    }
    for (const auto& [id, shared] : shared_endpoints_.records()) {
      Object(*shared, shared->id);
      Put(static_cast<bool>(shared->pending), reservations_.Of(shared->taking));
    }
    for (const auto& [id, reservation] : reservations_.records()) {
      Object(*reservation, reservation->id);
      Put(reservation->taken, static_cast<bool>(reservation->pending));
    }
    for (const auto& [id, connector] : connectors_.records()) OneConnector(*connector);
    for (const auto& [id, endpoint] : endpoints_.records()) OneEndpoint(*endpoint);
    for (const auto& [id, connection] : connections_.records()) OneConnection(*connection);
    Put(all_.counters.ephemeral_port);
    return fingerprint_;
  }

 private:
  // The finaliser of MurmurHash3 over each half, with different odd multipliers.
  void PutOne(uint64_t value) {
    fingerprint_.low = Mix((fingerprint_.low ^ value) * 0x9E3779B97F4A7C15);
    fingerprint_.high = Mix((fingerprint_.high + value) * 0xC2B2AE3D27D4EB4F + 1);
  }
  static uint64_t Mix(uint64_t value) {
    value ^= value >> 33;
    value *= 0xFF51AFD7ED558CCD;
    return value ^ (value >> 29);
  }
  template <typename... Values>
  void Put(Values... values) {
    (PutOne(static_cast<uint64_t>(values)), ...);
  }

  void PutBytes(const Bytes& bytes) {
    Put(bytes.size());
    for (const uint8_t byte : bytes) Put(byte);
  }
  void PutIp(const IpAddress& ip) {
    Put(ip.family, ip.scope_id);
    uint64_t halves[2] = {};
    for (size_t i = 0; i < 16; ++i) halves[i / 8] = halves[i / 8] << 8 | ip.bytes[i];
    Put(halves[0], halves[1]);
  }
  void PutIps(const std::vector<IpAddress>& ips) {
    Put(ips.size());
    for (const IpAddress& ip : ips) PutIp(ip);
  }
  void PutAddress(const SocketAddress& address) {
    PutIp(address.ip);
    Put(address.port);
  }
  void PutDeadline(Instant deadline) {
    Put(deadline == absl::InfiniteFuture() ? -1 : absl::ToInt64Nanoseconds(deadline - all_.now));
  }
  void PutOwner(const ObjectId& owner) {
    Put(owner.index(), std::visit([&](auto id) { return Rank(id); }, owner));
  }
  uint64_t Rank(AdapterId id) const { return adapters_.Of(id); }
  uint64_t Rank(ListenerId id) const { return listeners_.Of(id); }
  uint64_t Rank(SharedEndpointId id) const { return shared_endpoints_.Of(id); }
  uint64_t Rank(ReservationId id) const { return reservations_.Of(id); }
  uint64_t Rank(ConnectorId id) const { return connectors_.Of(id); }

  void Device(const DeviceRecord& record) {
    Put(record.device.id.value(), record.removed, record.disabled, record.adapters, record.endpoints,
        record.device.port_space, record.device.client_ends_connections, record.device.keeps_qps_until_released);
    PutIps(record.device.addresses);
  }

  void OneSession(const SessionRecord& session) {
    Put(static_cast<bool>(session.stream), session.ended, session.last_event.value() - session.acknowledged.value(),
        session.events.size(), session.ended ? session.answers.size() : 0, session.identity.uid);
    PutDeadline(session.deadline);
  }

  void Object(const ObjectRecord& object, const ObjectId& id) {
    const EventNumber acknowledged = all_.sessions.at(object.session).acknowledged;
    const uint64_t unseen =
        object.last_event > acknowledged ? object.last_event.value() - acknowledged.value() : uint64_t{0};
    const auto seen = observer_.objects().find(id);
    const bool known = seen != observer_.objects().end();
    Put(sessions_.Of(object.session), adapters_.Of(object.adapter), unseen, object.successors, object.closing,
        static_cast<bool>(object.close_request), object.ready, endpoints_.Of(object.endpoint), object.left_endpoint,
        known, known ? seen->second.told : Observer::Told::kNothing, known && seen->second.may_vanish);
  }

  void OneConnector(const ConnectorRecord& connector) {
    Object(connector, connector.id);
    Put(connector.state, listeners_.Of(connector.listener), shared_endpoints_.Of(connector.shared_endpoint),
        connections_.Of(connector.connection), connections_.Of(connector.releasing), connector.qp.value,
        connector.limits.inbound, connector.limits.outbound, connector.options.rnr_retry_count, connector.three_way,
        connector.has_data, connector.qp_attributes.size(), static_cast<bool>(connector.pending),
        connector.awaits_handoff, connector.broken, connector.dead_status);
    PutAddress(connector.local);
    PutAddress(connector.peer);
    PutBytes(connector.private_data);
    Put(connector.accept_data.has_value());
    if (connector.accept_data) PutBytes(*connector.accept_data);
    PutDeadline(connector.deadline);
    // Until when its transport may be fetched depends on this.
    if (connector.awaits_handoff) PutDeadline(all_.sessions.at(connector.session).returned);
  }

  void OneEndpoint(const EndpointRecord& endpoint) {
    Put(endpoint.device.value(), endpoint.network_namespace, endpoint.port_space, endpoint.use, endpoint.state,
        endpoint.ephemeral, endpoint.tries, endpoint.uid, endpoint.references, endpoint.connections);
    PutAddress(endpoint.address);
    PutIps(endpoint.ips);
    PutOwner(endpoint.owner);
    const auto seen = observer_.endpoints().find(endpoint.id);
    if (seen != observer_.endpoints().end()) Put(seen->second.before);
  }

  void OneConnection(const ConnectionRecord& connection) {
    Put(connection.device.value(), endpoints_.Of(connection.endpoint), connectors_.Of(connection.connector),
        connection.given_up, connection.holds_addresses);
    PutAddress(connection.local);
    PutAddress(connection.peer);
    const auto seen = observer_.connections().find(connection.id);
    if (seen != observer_.connections().end()) Put(seen->second.stage);
  }

  const Records& all_;
  const Observer& observer_;
  Ranked<DeviceId, DeviceRecord> devices_;
  Ranked<SessionId, SessionRecord> sessions_;
  Ranked<AdapterId, AdapterRecord> adapters_;
  Ranked<ListenerId, ListenerRecord> listeners_;
  Ranked<SharedEndpointId, SharedEndpointRecord> shared_endpoints_;
  Ranked<ReservationId, ReservationRecord> reservations_;
  Ranked<ConnectorId, ConnectorRecord> connectors_;
  Ranked<EndpointId, EndpointRecord> endpoints_;
  Ranked<ConnectionId, ConnectionRecord> connections_;
  Fingerprint fingerprint_{0x243F6A8885A308D3, 0x13198A2E03707344};
};

}  // namespace

Fingerprint FingerprintOf(const Records& records, const Observer& observer) {
  return Writer(records, observer).Write();
}

}  // namespace rdmabroker
