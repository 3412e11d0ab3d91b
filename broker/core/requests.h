// SPDX-License-Identifier: Apache-2.0

// What a client asks and what it gets: the control contract's requests, answers and events as plain values. The proto
// in proto/rdmabroker/v1 documents them for clients; here only what the core needs to know is said.

#ifndef BROKER_CORE_REQUESTS_H_
#define BROKER_CORE_REQUESTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "broker/core/fabric_messages.h"
#include "broker/core/ids.h"
#include "dataplane/ndk/adapter_info.h"
#include "dataplane/ndk/socket_address.h"
#include "dataplane/ndk/status.h"

namespace rdmabroker {

// --- Requests ---

struct OpenAdapter {
  std::string device;
  NdkVersion version;

  bool operator==(const OpenAdapter&) const = default;
};

struct CloseAdapter {
  AdapterId adapter;

  bool operator==(const CloseAdapter&) const = default;
};

struct CreateListener {
  AdapterId adapter;

  bool operator==(const CreateListener&) const = default;
};

struct Listen {
  ListenerId listener;
  SocketAddress address;
  ReservationId reservation;   // 0, or the caller's, on this address or with `address` all zero.
  bool await_address = false;  // The device need not have it yet.
  // Follows the address to any of the session's adapters of the same kind. Not for a wildcard.
  bool any_adapter = false;

  bool operator==(const Listen&) const = default;
};

struct ControlConnectEvents {
  ListenerId listener;
  bool pause = false;

  bool operator==(const ControlConnectEvents&) const = default;
};

struct CloseListener {
  ListenerId listener;

  bool operator==(const CloseListener&) const = default;
};

struct CreateSharedEndpoint {
  AdapterId adapter;
  SocketAddress address;
  ReservationId reservation;

  bool operator==(const CreateSharedEndpoint&) const = default;
};

struct CloseSharedEndpoint {
  SharedEndpointId shared_endpoint;

  bool operator==(const CloseSharedEndpoint&) const = default;
};

struct ReservePort {
  AdapterId adapter;
  SocketAddress address;

  bool operator==(const ReservePort&) const = default;
};

struct ReleasePort {
  ReservationId reservation;

  bool operator==(const ReleasePort&) const = default;
};

struct CreateConnector {
  AdapterId adapter;

  bool operator==(const CreateConnector&) const = default;
};

struct Connect {
  ConnectorId connector;
  QpNumber qp;
  SocketAddress source;  // A wildcard of either family: the address that `route` leaves from.
  SocketAddress destination;
  ReadLimits limits;
  Bytes private_data;
  ConnectionOptions options = {};
  // To `destination`, when the request came first. Not the client's word: no part of the digest.
  Route route = {};

  bool operator==(const Connect&) const = default;
};

struct ConnectWithSharedEndpoint {
  ConnectorId connector;
  QpNumber qp;
  SharedEndpointId shared_endpoint;
  SocketAddress destination;
  ReadLimits limits;
  Bytes private_data;
  ConnectionOptions options = {};

  bool operator==(const ConnectWithSharedEndpoint&) const = default;
};

struct CompleteConnect {
  ConnectorId connector;

  bool operator==(const CompleteConnect&) const = default;
};

struct Accept {
  ConnectorId connector;
  QpNumber qp;
  ReadLimits limits;
  Bytes private_data;
  ConnectionOptions options = {};

  bool operator==(const Accept&) const = default;
};

struct Reject {
  ConnectorId connector;
  Bytes private_data;

  bool operator==(const Reject&) const = default;
};

struct Disconnect {
  ConnectorId connector;

  bool operator==(const Disconnect&) const = default;
};

struct GetConnectionData {
  ConnectorId connector;

  bool operator==(const GetConnectionData&) const = default;
};

struct ReportConnectionEnd {
  ConnectorId connector;
  bool graceful = false;
  uint32_t provider_error = 0;

  bool operator==(const ReportConnectionEnd&) const = default;
};

struct CloseConnector {
  ConnectorId connector;

  bool operator==(const CloseConnector&) const = default;
};

struct Request : std::variant<OpenAdapter, CloseAdapter, CreateListener, Listen, ControlConnectEvents, CloseListener,
                              CreateSharedEndpoint, CloseSharedEndpoint, ReservePort, ReleasePort, CreateConnector,
                              Connect, ConnectWithSharedEndpoint, CompleteConnect, Accept, Reject, Disconnect,
                              GetConnectionData, ReportConnectionEnd, CloseConnector> {
  using variant::variant;
  Request();
  Request(const Request&);
  Request(Request&&) noexcept;
  Request& operator=(const Request&);
  Request& operator=(Request&&) noexcept;
  ~Request();
  bool operator==(const Request& other) const;
};

// --- Answers ---

struct AdapterOpened {
  AdapterId adapter;
  AdapterInfo info;
  bool client_ends_connections = false;

  bool operator==(const AdapterOpened&) const = default;
};

struct ListenerCreated {
  ListenerId listener;

  bool operator==(const ListenerCreated&) const = default;
};

struct Listening {
  SocketAddress address;  // The port is the chosen one; a wildcard stays a wildcard.

  bool operator==(const Listening&) const = default;
};

struct SharedEndpointCreated {
  SharedEndpointId shared_endpoint;
  SocketAddress address;

  bool operator==(const SharedEndpointCreated&) const = default;
};

struct PortReserved {
  ReservationId reservation;
  SocketAddress address;

  bool operator==(const PortReserved&) const = default;
};

struct ConnectorCreated {
  ConnectorId connector;

  bool operator==(const ConnectorCreated&) const = default;
};

// What is known of a connector's connection: after a request was delivered, and after Connect was answered.
struct ConnectionData {
  SocketAddress local;
  SocketAddress peer;
  ReadLimits limits;   // Effective as far as both sides have spoken.
  Bytes private_data;  // The whole area of the peer's last message.
  bool three_way = true;
  std::vector<QpAttributes> qp_attributes;

  bool operator==(const ConnectionData&) const = default;
};

struct ConnectionEstablished {
  ReadLimits limits;
  std::optional<HandoffSecret> handoff;

  bool operator==(const ConnectionEstablished&) const = default;
};

struct Payload : std::variant<std::monostate, AdapterOpened, ListenerCreated, Listening, SharedEndpointCreated,
                              PortReserved, ConnectorCreated, ConnectionData, ConnectionEstablished> {
  using variant::variant;
  Payload();
  Payload(const Payload&);
  Payload(Payload&&) noexcept;
  Payload& operator=(const Payload&);
  Payload& operator=(Payload&&) noexcept;
  ~Payload();
  bool operator==(const Payload& other) const;
};

// A request's answer, at once or later. PENDING: an OutcomeEvent follows, exactly one.
struct Outcome {
  NdkStatus status = NdkStatus::kSuccess;
  Payload payload;
  uint32_t provider_error = 0;
  bool retryable = false;      // The same request may succeed later, on the same objects.
  bool retry_same_qp = false;  // ... and with the same queue pair.
  std::string hint;            // For a person: what was wrong with which field or object, and what to do.

  bool operator==(const Outcome&) const = default;
};

// --- Events on a session's stream ---

struct OutcomeEvent {
  RequestId request;
  Outcome outcome;

  bool operator==(const OutcomeEvent&) const = default;
};

// A listener's new connector, which the session now owns.
struct ConnectEvent {
  ListenerId listener;
  ConnectorId connector;
  ConnectionData data;
  AdapterId adapter;  // The connector's. 0: the listener's, by a broker that did not record it.

  bool operator==(const ConnectEvent&) const = default;
};

// The peer, or a fault, has ended an established connection.
struct DisconnectEvent {
  ConnectorId connector;
  NdkStatus status = NdkStatus::kSuccess;  // SUCCESS: the peer disconnected gracefully.
  uint32_t provider_error = 0;

  bool operator==(const DisconnectEvent&) const = default;
};

// The device is gone; every call on the adapter's objects but close fails with DEVICE_REMOVED.
struct AdapterRemovedEvent {
  AdapterId adapter;

  bool operator==(const AdapterRemovedEvent&) const = default;
};

// An administrator wants the adapter closed. Everything goes on as before until then. Once for an adapter.
struct AdapterDisabledEvent {
  AdapterId adapter;

  bool operator==(const AdapterDisabledEvent&) const = default;
};

// The objects that keep their address while the device does not have it.
using AddressHolder = std::variant<ListenerId, SharedEndpointId, ReservationId>;

// The device has lost the holder's address, or has it again. Only for clients that have asked for such events.
struct AddressEvent {
  AddressHolder holder;
  bool present = false;

  bool operator==(const AddressEvent&) const = default;
};

struct SessionEvent : std::variant<OutcomeEvent, ConnectEvent, DisconnectEvent, AdapterRemovedEvent,
                                   AdapterDisabledEvent, AddressEvent> {
  using variant::variant;
  SessionEvent();
  SessionEvent(const SessionEvent&);
  SessionEvent(SessionEvent&&) noexcept;
  SessionEvent& operator=(const SessionEvent&);
  SessionEvent& operator=(SessionEvent&&) noexcept;
  ~SessionEvent();
  bool operator==(const SessionEvent& other) const;
};

}  // namespace rdmabroker

#endif  // BROKER_CORE_REQUESTS_H_
