// SPDX-License-Identifier: Apache-2.0

// The core's records: everything that it knows. What can be derived from them is in index.h, so that a snapshot is
// the records alone.

#ifndef BROKER_CORE_STATE_H_
#define BROKER_CORE_STATE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "broker/core/messages.h"
#include "broker/core/request_digest.h"
#include "broker/core/table.h"

namespace rdmabroker {

using Instant = absl::Time;

// What a session can own, and what an adapter can have as a successor.
using ObjectId = std::variant<AdapterId, ListenerId, SharedEndpointId, ReservationId, ConnectorId>;

// Abseil hashes std::variant only where it was built to use it.
template <typename H>
H AbslHashValue(H state, const ObjectId& object) {
  return H::combine(std::move(state), object.index(), std::visit([](auto id) { return id.value(); }, object));
}

// A device's connections since it came: those of NDKPI's performance counters that the control path can count.
struct ConnectionCounts {
  uint64_t connects = 0;           // Established by the active side.
  uint64_t accepts = 0;            // Established by the passive side.
  uint64_t connect_failures = 0;   // Of both sides: not established, other than by the consumer's own reject or close.
  uint64_t connection_errors = 0;  // Established ones that broke.

  bool operator==(const ConnectionCounts&) const = default;
};

struct DeviceRecord {
  Device device;
  ConnectionCounts counts;
  bool disabled = false;  // By an administrator: takes no more adapters.
  bool removed = false;   // Gone; kept while there is any of the following.
  uint32_t adapters = 0;
  uint32_t endpoints = 0;    // Not yet unbound.
  uint32_t connections = 0;  // Not yet released.

  bool operator==(const DeviceRecord&) const = default;
};

// Why no adapter can be opened on the device, for a person; empty where one can.
inline std::string WhyUnusable(const DeviceRecord& record) {
  return record.disabled ? "disabled by an administrator, who can enable it again" : record.device.unusable_reason;
}

struct KeptAnswer {
  RequestId id;
  std::optional<RequestDigest> request;  // None: of a broker that did not record it; any request is taken for it.
  Outcome outcome;

  bool operator==(const KeptAnswer&) const = default;
};

struct SessionRecord {
  SessionId id;
  Identity identity;
  SessionSecret secret = {};
  StreamId stream;     // 0: away, until `deadline`.
  bool ended = false;  // Over for its client; kept while its objects close.
  Instant deadline = absl::InfiniteFuture();
  Instant returned = absl::InfinitePast();  // When its client last came back.
  EventNumber last_event;
  EventNumber acknowledged;
  // The last event that was dropped. Acknowledged events, and the events and answers of an ended session, are dropped
  // some at a time.
  EventNumber dropped;
  std::deque<SessionEvent> events;  // Numbers dropped + 1 ... last_event.
  std::deque<KeptAnswer> answers;   // In the order of their ids.
  RequestId newest_request;
  AddressNews address_news = AddressNews::kNone;
  // What its client was told of Limits::answers_kept, the most where it was told repeatedly. 0: by a broker that did
  // not record it, until it returns.
  uint32_t answers_kept = 0;
  // Open or closing objects, by kind, in the order in which an ending session closes them.
  uint32_t adapters = 0;
  uint32_t listeners = 0;
  uint32_t shared_endpoints = 0;
  uint32_t reservations = 0;
  uint32_t connectors = 0;

  const SessionEvent& event(EventNumber number) const { return events[number.value() - dropped.value() - 1]; }
  // How many events its client has yet to acknowledge.
  uint64_t unacknowledged() const { return ended ? 0 : last_event.value() - acknowledged.value(); }
  // The last event that is no longer needed.
  EventNumber done_with() const { return ended ? last_event : acknowledged; }
  // Whether it keeps events or answers that are no longer needed.
  bool has_leftovers() const { return dropped < done_with() || (ended && !answers.empty()); }

  bool operator==(const SessionRecord&) const = default;
};

// What every object has. An object whose close is pending stays until its successors are closed.
struct ObjectRecord {
  SessionId session;
  AdapterId adapter;       // 0 for an adapter itself.
  EventNumber last_event;  // The last event on the session's stream that concerned it.
  uint32_t successors = 0;
  bool closing = false;
  RequestId close_request;     // 0 where the session's end closes it.
  bool ready = true;           // False while its creation is pending: its client does not know it yet.
  EndpointId endpoint;         // 0: none.
  bool left_endpoint = false;  // Its reference is dropped; a close waits for the endpoint to be unbound.

  bool operator==(const ObjectRecord&) const = default;
};

struct AdapterRecord : ObjectRecord {
  AdapterId id;
  DeviceId device;
  NdkVersion requested;
  bool told_disabled = false;  // Once is enough, and bounds the events of administrators who change their mind.

  bool operator==(const AdapterRecord&) const = default;
};

enum class ListenerState : uint8_t { kCreated, kBinding, kListening };

struct ListenerRecord : ObjectRecord {
  ListenerId id;
  ListenerState state = ListenerState::kCreated;
  bool paused = false;
  RequestId pending;         // Listen.
  ReservationId taking;      // While a reservation turns into this listener's endpoint.
  uint32_t undecided = 0;    // Delivered, neither accepted, rejected nor closed.
  bool any_adapter = false;  // Its endpoint may be on the device of any of the session's adapters.

  bool operator==(const ListenerRecord&) const = default;
};

struct SharedEndpointRecord : ObjectRecord {
  SharedEndpointId id;
  RequestId pending;  // CreateSharedEndpoint.
  ReservationId taking;

  bool operator==(const SharedEndpointRecord&) const = default;
};

struct ReservationRecord : ObjectRecord {
  ReservationId id;
  bool taken = false;  // Turning into a listener's or shared endpoint's.
  RequestId pending;   // ReservePort.

  bool operator==(const ReservationRecord&) const = default;
};

enum class ConnectorState : uint8_t {
  kIdle,        // Created, or a Connect failed that may be tried again.
  kBinding,     // Connect: the local address is being bound, or an earlier try released.
  kConnecting,  // Connect: the peer has been asked.
  kReplied,     // The peer accepted; CompleteConnect or Reject is next.
  kCompleting,  // CompleteConnect is pending.
  kRequested,   // Delivered by a listener, undecided.
  kAccepting,   // Accept is pending.
  kEstablished,
  kPeerDisconnected,  // A DisconnectEvent was sent; the own Disconnect or close is outstanding.
  kDisconnecting,     // Disconnect is pending.
  kDead,              // Nothing but close is left; `dead_status` tells why.
};
inline constexpr size_t kConnectorStates = static_cast<size_t>(ConnectorState::kDead) + 1;

// How the last try of a connector to connect, or its connection, ended, where that was no success. For inspection
// alone.
struct ConnectorFailure {
  Instant at = absl::InfinitePast();
  NdkStatus status = NdkStatus::kUnsuccessful;
  uint32_t provider_error = 0;  // As Outcome's.
  std::string hint;

  bool operator==(const ConnectorFailure&) const = default;
};

struct ConnectorRecord : ObjectRecord {
  ConnectorId id;
  ConnectorState state = ConnectorState::kIdle;
  ListenerId listener;               // That delivered it; 0 for one that the client created.
  SharedEndpointId shared_endpoint;  // That it has connected through; 0 for none.
  ConnectionId connection;           // At the fabric, not yet given up.
  ConnectionId releasing;            // The last one given up, until it is released.
  QpNumber qp;                       // 0: none.
  SocketAddress local;
  SocketAddress peer;
  ReadLimits limits;  // Offered or derived, then effective.
  ConnectionOptions options;
  Bytes private_data;  // Ours until the peer has answered, then the peer's.
  bool three_way = true;
  bool has_data = false;  // limits, private_data and qp_attributes are the peer's.
  std::vector<QpAttributes> qp_attributes;
  RequestId pending;
  // Ours, while kAccepting, for whoever has to ask again. None: of a broker that did not record it.
  std::optional<Bytes> accept_data;
  bool awaits_handoff = false;
  bool broken = false;  // Its established connection, other than by its own side; counted.
  Instant deadline = absl::InfiniteFuture();
  NdkStatus dead_status = NdkStatus::kConnectionInvalid;
  // For inspection alone:
  Instant since = absl::InfinitePast();     // That it is in this state; the infinite past: it cannot be told.
  std::optional<ConnectorFailure> failure;  // Stays while it tries again.
  bool recovered = false;                   // Its connection was made, or begun, by an earlier process of the broker.

  bool operator==(const ConnectorRecord&) const = default;
};

// Bytes of payload in a packet of its connection; 0: TCP sees to it, or there is no connection.
inline uint32_t PathMtu(const ConnectorRecord& connector) {
  uint32_t mtu = 0;
  for (const QpAttributes& step : connector.qp_attributes) mtu = std::max(mtu, MtuInBytes(step.path_mtu));
  return mtu;
}
// Whether the peer may send packets that are too large for the device's port.
inline bool ExceedsPort(const ConnectorRecord& connector, const Device& device) {
  return device.mtu != 0 && PathMtu(connector) > device.mtu;
}

// Whether its connection is established and not yet over on this side: NDKPI's counter of active connections.
inline bool IsActive(const ConnectorRecord& connector) {
  return connector.state == ConnectorState::kEstablished || connector.state == ConnectorState::kPeerDisconnected ||
         connector.state == ConnectorState::kDisconnecting;
}

enum class EndpointState : uint8_t { kBinding, kBound, kRepurposing, kUnbinding };
inline constexpr size_t kEndpointStates = static_cast<size_t>(EndpointState::kUnbinding) + 1;

// A local address held at a fabric.
struct EndpointRecord {
  EndpointId id;
  DeviceId device;
  uint64_t network_namespace = 0;
  PortSpace port_space = PortSpace::kRdmaCm;
  EndpointUse use = EndpointUse::kListener;
  EndpointState state = EndpointState::kBinding;
  SocketAddress address;  // May be a wildcard.
  // Concrete: those at which the fabric is to hold it now. None where its device has not got the address.
  std::vector<IpAddress> ips;
  bool ephemeral = false;    // The core chose the port.
  uint32_t tries = 0;        // Ports tried.
  uint32_t uid = 0;          // Whose it is; also when its owner is gone.
  uint32_t references = 0;   // NDKPI's: the owner itself and the connectors that were accepted or connected.
  uint32_t connections = 0;  // Not yet released at the fabric.
  ObjectId owner;

  bool operator==(const EndpointRecord&) const = default;
};

// The addresses that no other endpoint may have with that port: a named one also while the device has not got it.
inline std::span<const IpAddress> TakenBy(const EndpointRecord& endpoint) {
  if (endpoint.address.ip.IsAny()) return endpoint.ips;
  return {&endpoint.address.ip, 1};
}

// How a connection is given up.
enum class Farewell : uint8_t { kRelease, kClientEnded, kReject, kRefuse };

// A connection at the fabric.
struct ConnectionRecord {
  ConnectionId id;
  DeviceId device;
  EndpointId endpoint;
  ConnectorId connector;  // 0 once its connector does not wait for its release.
  bool given_up = false;
  Farewell farewell = Farewell::kRelease;  // Once given up.
  Bytes farewell_data;                     // Of kReject, for the peer.
  // The addresses that no other connection may have, while it lasts. A connection that others made is not in the way.
  bool holds_addresses = false;
  SocketAddress local;
  SocketAddress peer;

  bool operator==(const ConnectionRecord&) const = default;
};

// How many ids of each kind were given out.
struct Counters {
  uint64_t session = 0;
  uint64_t adapter = 0;
  uint64_t listener = 0;
  uint64_t shared_endpoint = 0;
  uint64_t reservation = 0;
  uint64_t connector = 0;
  uint64_t endpoint = 0;
  uint64_t connection = 0;
  uint16_t ephemeral_port = 0;  // The last one chosen.
  uint64_t id_key = 0;          // Random; 0: ids are the numbers that the counters had (new_ids.h).

  bool operator==(const Counters&) const = default;
};

struct Records {
  Records();
  Records(const Records&);
  Records(Records&&) noexcept;
  Records& operator=(const Records&);
  Records& operator=(Records&&) noexcept;
  ~Records();

  Table<DeviceId, DeviceRecord> devices;
  Table<SessionId, SessionRecord> sessions;
  Table<AdapterId, AdapterRecord> adapters;
  Table<ListenerId, ListenerRecord> listeners;
  Table<SharedEndpointId, SharedEndpointRecord> shared_endpoints;
  Table<ReservationId, ReservationRecord> reservations;
  Table<ConnectorId, ConnectorRecord> connectors;
  Table<EndpointId, EndpointRecord> endpoints;
  Table<ConnectionId, ConnectionRecord> connections;
  Counters counters;
  Instant now = absl::InfinitePast();  // Of the last event.
  // Tells these records, from their beginning to their loss, from others. 0: it cannot be told.
  uint64_t lineage = 0;

  bool operator==(const Records&) const = default;
};

}  // namespace rdmabroker

#endif  // BROKER_CORE_STATE_H_
