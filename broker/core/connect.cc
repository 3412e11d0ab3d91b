// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "broker/core/connections.h"
#include "broker/core/endpoints.h"
#include "broker/core/nouns.h"
#include "broker/core/objects.h"
#include "broker/core/sessions.h"

namespace rdmabroker {
namespace {

constexpr std::ptrdiff_t kAddressesInHint = 4;  // A hint is for a person.

// The failures after which the same connector may try again: those that NDKPI's NDK_FN_CONNECT names, and those that
// pass when another connection has left the pair of addresses, or others have given resources back, or that have come
// of the broker's death.
bool MayRetry(NdkStatus status) {
  switch (status) {
    case NdkStatus::kNetworkUnreachable:
    case NdkStatus::kHostUnreachable:
    case NdkStatus::kConnectionRefused:
    case NdkStatus::kIoTimeout:
    case NdkStatus::kAddressAlreadyExists:
    case NdkStatus::kInsufficientResources:
    case NdkStatus::kConnectionAborted:
      return true;
    default:
      return false;
  }
}

Outcome RefuseUnlessIdle(const ConnectorRecord& connector) {
  if (connector.listener) {
    return Refuse(NdkStatus::kInvalidDeviceState, Name(connector.id),
                  ": was delivered by a listener; create a connector to connect with");
  }
  switch (connector.state) {
    case ConnectorState::kIdle:
      return Done();
    case ConnectorState::kDead:
      return Refuse(NdkStatus::kConnectionInvalid, Name(connector.id), ": its connection is over; close it");
    default:
      return Refuse(NdkStatus::kConnectionActive, Name(connector.id), ": is connecting or connected already");
  }
}

// Whether the connector may connect from `endpoint` to `peer`; its own earlier try is in nobody's way.
Outcome RefuseSource(const Turn& turn, const ConnectorRecord& connector, const EndpointRecord& endpoint,
                     const SocketAddress& peer) {
  const Device& device = DeviceOf(turn, connector.adapter);
  if (!HasAddress(device, endpoint.address.ip)) {
    Outcome refusal = Refuse(NdkStatus::kNetworkUnreachable, "source ", endpoint.address.ToString(), ": ", device.name,
                             " has lost it; give it to its network interface, or connect from an adapter that has it");
    refusal.retryable = refusal.retry_same_qp = true;
    return refusal;
  }
  ConnectionRecord wanted{.device = endpoint.device};
  wanted.local = endpoint.address;
  wanted.peer = peer;
  const Records& records = turn.records;
  const auto taken = turn.index.tuples.find(TupleOf(records, wanted));
  if (taken == turn.index.tuples.end() || records.connections.at(taken->second).connector == connector.id) {
    return Done();
  }
  return Refuse(NdkStatus::kAddressAlreadyExists, "destination ", peer.ToString(),
                ": another connector has a connection to it from ", endpoint.address.ToString(), " already");
}

// What Connect and ConnectWithSharedEndpoint check alike. `Request` is either; `destination` is its own, by OnLinkOf.
template <typename Request>
Outcome RefuseUnlessSound(const Turn& turn, const ConnectorRecord& connector, const Request& request,
                          const SocketAddress& destination) {
  Outcome outcome = RefuseUnlessIdle(connector);
  if (outcome.status == NdkStatus::kSuccess) outcome = RefuseUnlessFree(turn, connector, request.qp);
  const IpAddress& ip = destination.ip;
  if (outcome.status == NdkStatus::kSuccess && (destination.port == 0 || ip.IsAny() || ip.IsMulticast())) {
    outcome = Refuse(NdkStatus::kInvalidParameter, "destination ", destination.ToString(),
                     ": name one host's address and its port");
  }
  if (outcome.status == NdkStatus::kSuccess && ip.IsLinkLocal() && ip.scope_id == 0) {
    outcome = Refuse(NdkStatus::kInvalidAddress, "destination ", destination.ToString(),
                     ": a link-local address; name its interface, as in ", ip.ToString(),
                     "%eth0, or a source that is link-local");
  }
  const Device& device = DeviceOf(turn, connector.adapter);
  if (outcome.status == NdkStatus::kSuccess && HasAddress(device, ip) &&
      (device.info.adapter_flags & kLoopbackConnectionsSupported) == 0) {
    outcome = Refuse(NdkStatus::kNotSupported, "destination ", destination.ToString(), ": is an address of ",
                     device.name, ", which cannot connect with itself; take another adapter");
  }
  if (outcome.status == NdkStatus::kSuccess) {
    outcome = RefuseUnlessFits(request.private_data, device.info.max_caller_data, "Connect");
  }
  return outcome;
}

// A link-local destination is on the link of its source.
SocketAddress OnLinkOf(const SocketAddress& source, SocketAddress destination) {
  if (destination.ip.IsLinkLocal() && destination.ip.scope_id == 0) destination.ip.scope_id = source.ip.scope_id;
  return destination;
}

// A queue pair sends from its own adapter alone, so a route over another one is none for it. Names no other adapter,
// since the client may not know of it.
Outcome ChooseSource(const Device& device, const Route& route, const SocketAddress& destination, IpAddress* source) {
  if (route.status != NdkStatus::kSuccess) {
    Outcome outcome =
        Refuse(route.status, "destination ", destination.ToString(), ": no source by route; see \"ip route get ",
               destination.ip.ToString(), "\", or name a source");
    outcome.retryable = MayRetry(outcome.status);
    return outcome;
  }
  if (!HasAddress(device, route.source)) {
    const auto end = device.addresses.begin() + std::min(std::ssize(device.addresses), kAddressesInHint);
    return Refuse(NdkStatus::kInvalidAddress, "destination ", destination.ToString(), ": its route leaves from ",
                  route.source.ToString(), ", which ", device.name,
                  " does not have; open the adapter that has it, or name a source of ", device.name, ": ",
                  absl::StrJoin(device.addresses.begin(), end, ", ",
                                [](std::string* out, const IpAddress& ip) { *out += ip.ToString(); }));
  }
  *source = route.source;
  return Done();
}

Outcome RefuseUnlessTheyMeet(const SocketAddress& source, const SocketAddress& destination) {
  const auto refuse = [&](const char* what) {
    return Refuse(NdkStatus::kInvalidParameterMix, "source ", source.ToString(), ": not ", what, " destination ",
                  destination.ToString());
  };
  if (source.ip.family != destination.ip.family) return refuse("of the address family of");
  const bool two_links = source.ip.scope_id != 0 && destination.ip.scope_id != 0;
  if (two_links && source.ip.scope_id != destination.ip.scope_id) return refuse("on the interface of");
  return Done();
}

// The endpoint of an earlier, failed try goes when another takes its place.
void ReplaceEndpoint(Turn& turn, ConnectorRecord& connector, EndpointId endpoint, SharedEndpointId shared_endpoint) {
  const EndpointId former = std::exchange(connector.endpoint, endpoint);
  const SharedEndpointId former_shared = std::exchange(connector.shared_endpoint, shared_endpoint);
  if (former) DropReference(turn, former);
  if (former_shared) DropSuccessor(turn, former_shared);
}

template <typename Request>
void Begin(Turn& turn, const Call& call, ConnectorRecord& connector, const Request& request,
           const SocketAddress& destination) {
  const AdapterInfo& info = DeviceOf(turn, connector.adapter).info;
  TakeQp(turn, connector, request.qp);
  connector.pending = call.id;
  connector.peer = destination;
  connector.limits = {std::min(request.limits.inbound, info.max_inbound_read_limit),
                      std::min(request.limits.outbound, info.max_outbound_read_limit)};
  connector.options = request.options;
  connector.private_data = request.private_data;
  connector.has_data = false;
  connector.qp_attributes.clear();
  SetState(turn, connector, ConnectorState::kBinding);
  SetDeadline(turn, connector, turn.limits.connect_timeout);
}

// The connector's own endpoint, whose port its client has left to the core.
bool HasAnyPort(const ConnectorRecord& connector, const EndpointRecord& endpoint) {
  return endpoint.ephemeral && endpoint.owner == ObjectId(connector.id);
}

void StartConnection(Turn& turn, ConnectorRecord& connector, const EndpointRecord& endpoint) {
  const ConnectionId id(++turn.records.counters.connection);
  ConnectionRecord& connection = turn.records.connections[id];
  connection = {.id = id, .device = endpoint.device, .connector = connector.id, .holds_addresses = true};
  ++turn.records.devices.at(connection.device).connections;
  connection.local = connector.local = endpoint.address;
  connection.peer = connector.peer;
  StandOn(turn, connection, endpoint.id);
  turn.index.tuples[TupleOf(turn.records, connection)] = id;
  connector.connection = id;
  connector.recovered = false;
  SetState(turn, connector, ConnectorState::kConnecting);
  const Identity& identity = turn.records.sessions.at(connector.session).identity;
  turn.Emit(FabricConnect{connection.device, id, endpoint.id, connector.session, connector.qp, connection.local,
                          connection.peer, connector.limits, connector.private_data, identity.pid, identity.uid,
                          HasAnyPort(connector, endpoint), connector.options});
}

void FailConnect(Turn& turn, ConnectorRecord& connector, Outcome outcome, bool again) {
  CountFailure(turn, connector, outcome.status);
  LeaveQp(turn, connector);
  SetDeadline(turn, connector, absl::InfiniteDuration());
  SetState(turn, connector, again ? ConnectorState::kIdle : ConnectorState::kDead);
  Fail(turn, connector, std::move(outcome));
}

// Why, where the fabric or the status tells.
std::string CauseOf(const Turn& turn, const ConnectorRecord& connector, const FabricConnectFailed& report) {
  if (!report.explanation.empty()) return absl::StrCat(": ", report.explanation);
  if (report.status != NdkStatus::kAddressAlreadyExists) return "";
  const SocketAddress& local = turn.records.endpoints.at(connector.endpoint).address;
  return absl::StrCat(": there is a connection to it from ", local.ToString(),
                      " already, which need not be this broker's; end that, or connect from another port");
}

// The port is in use towards this peer by a connection that the core does not know, such as one that has outlived the
// broker's records. Each port is tried once, and all within the Connect's time.
bool ConnectsFromAnotherPort(Turn& turn, ConnectorRecord& connector, const FabricConnectFailed& report) {
  const bool taken = report.status == NdkStatus::kAddressAlreadyExists || report.status == NdkStatus::kSharingViolation;
  const EndpointRecord& endpoint = std::as_const(turn.records.endpoints).at(connector.endpoint);
  const uint32_t tries = endpoint.tries;
  const uint32_t ports = turn.limits.last_ephemeral_port - turn.limits.first_ephemeral_port + 1;
  if (!taken || !report.qp_reusable || !HasAnyPort(connector, endpoint) || tries >= ports) return false;
  EndpointId next;
  const Outcome outcome =
      AcquireEndpoint(turn, connector.session, DeviceOf(turn, connector.adapter), EndpointUse::kDedicated,
                      {endpoint.address.ip, 0}, Presence::kNow, connector.id, next);
  if (outcome.status != NdkStatus::kPending) return false;
  turn.records.endpoints.at(next).tries += tries;
  ReplaceEndpoint(turn, connector, next, SharedEndpointId());
  SetState(turn, connector, ConnectorState::kBinding);
  return true;
}

}  // namespace

Outcome Perform(Turn& turn, const Call& call, const CreateConnector& request) {
  const auto adapter = FindUsable(turn, call, request.adapter);
  if (!adapter) return adapter.refusal;
  const auto connector = NewObject<ConnectorKind>(turn, call.session, request.adapter, turn.records.counters.connector);
  if (!connector) return connector.refusal;
  connector->since = turn.now();
  return Done(ConnectorCreated{connector->id});
}

Outcome Perform(Turn& turn, const Call& call, const Connect& request) {
  SocketAddress source = request.source;
  const SocketAddress destination = OnLinkOf(source, request.destination);
  const auto found = FindUsable(turn, call, request.connector);
  if (!found) return found.refusal;
  ConnectorRecord& connector = *found;
  Outcome outcome = RefuseUnlessSound(turn, connector, request, destination);
  if (outcome.status == NdkStatus::kSuccess && source.ip.IsAny()) {
    outcome = ChooseSource(DeviceOf(turn, connector.adapter), request.route, destination, &source.ip);
  }
  if (outcome.status == NdkStatus::kSuccess) outcome = RefuseUnlessTheyMeet(source, destination);
  if (outcome.status != NdkStatus::kSuccess) return outcome;
  const auto held = turn.records.endpoints.find(connector.endpoint);
  const bool keep = held != turn.records.endpoints.end() && held->second.owner == ObjectId(connector.id) &&
                    held->second.address == source;
  if (keep) {
    outcome = RefuseSource(turn, connector, held->second, destination);
    if (outcome.status != NdkStatus::kSuccess) return outcome;
  } else {
    EndpointId endpoint;
    outcome = AcquireEndpoint(turn, call.session, DeviceOf(turn, connector.adapter), EndpointUse::kDedicated, source,
                              Presence::kNow, connector.id, endpoint);
    if (outcome.status != NdkStatus::kPending) return outcome;
    ReplaceEndpoint(turn, connector, endpoint, SharedEndpointId());
  }
  Begin(turn, call, connector, request, destination);
  ConnectWhenReady(turn, connector);
  return Pending();
}

Outcome Perform(Turn& turn, const Call& call, const ConnectWithSharedEndpoint& request) {
  const auto found = FindUsable(turn, call, request.connector);
  if (!found) return found.refusal;
  const auto shared = FindUsable(turn, call, request.shared_endpoint);
  if (!shared) return shared.refusal;
  const EndpointRecord& endpoint = turn.records.endpoints.at(shared->endpoint);
  const SocketAddress destination = OnLinkOf(endpoint.address, request.destination);
  ConnectorRecord& connector = *found;
  Outcome outcome = RefuseUnlessSound(turn, connector, request, destination);
  if (outcome.status != NdkStatus::kSuccess) return outcome;
  if (shared->adapter != connector.adapter) {
    return Refuse(NdkStatus::kInvalidParameterMix, Name(request.shared_endpoint), ": is ", Name(shared->adapter),
                  "'s, not ", Name(connector.adapter), "'s");
  }
  outcome = RefuseUnlessTheyMeet(endpoint.address, destination);
  if (outcome.status != NdkStatus::kSuccess) return outcome;
  outcome = RefuseSource(turn, connector, endpoint, destination);
  if (outcome.status != NdkStatus::kSuccess) return outcome;
  if (connector.shared_endpoint != request.shared_endpoint) {
    AddReference(turn, shared->endpoint);
    ++shared->successors;
    ReplaceEndpoint(turn, connector, shared->endpoint, request.shared_endpoint);
  }
  Begin(turn, call, connector, request, destination);
  ConnectWhenReady(turn, connector);
  return Pending();
}

Outcome Perform(Turn& turn, const Call& call, const CompleteConnect& request) {
  const auto connector = FindUsable(turn, call, request.connector);
  if (!connector) return connector.refusal;
  if (connector->listener || connector->state != ConnectorState::kReplied) {
    const bool given_up = !connector->listener && connector->state == ConnectorState::kDead;
    return Refuse(given_up ? connector->dead_status : NdkStatus::kConnectionInvalid, Name(request.connector),
                  ": no accepted Connect waits to be completed");
  }
  SetState(turn, *connector, ConnectorState::kCompleting);
  connector->pending = call.id;
  SetDeadline(turn, *connector, turn.limits.establish_timeout);
  turn.Emit(FabricComplete{DeviceOf(turn, connector->adapter).id, connector->connection, connector->limits});
  return Pending();
}

void OnBound(Turn& turn, ConnectorRecord& connector, EndpointId endpoint) {
  if (connector.endpoint == endpoint) ConnectWhenReady(turn, connector);
}

void ConnectWhenReady(Turn& turn, ConnectorRecord& connector) {
  if (connector.state != ConnectorState::kBinding || !MayBegin(turn, connector) || connector.releasing) return;
  const EndpointRecord& endpoint = turn.records.endpoints.at(connector.endpoint);
  if (endpoint.state != EndpointState::kBound) return;
  const Outcome outcome = RefuseSource(turn, connector, endpoint, connector.peer);
  if (outcome.status != NdkStatus::kSuccess) return FailConnect(turn, connector, outcome, true);
  StartConnection(turn, connector, endpoint);
}

void OnBindFailed(Turn& turn, ConnectorRecord& connector, EndpointId endpoint, const Outcome& outcome) {
  if (connector.endpoint != endpoint) return;
  connector.endpoint = EndpointId();
  if (connector.state == ConnectorState::kBinding) FailConnect(turn, connector, outcome, true);
}

void OnConnectTimeout(Turn& turn, ConnectorRecord& connector) {
  const bool connecting = static_cast<bool>(connector.connection);
  if (connecting) GiveUp(turn, connector, Farewell::kRelease);
  Outcome outcome = Refuse(NdkStatus::kIoTimeout, "destination ", connector.peer.ToString(), ": no answer within ",
                           absl::FormatDuration(turn.limits.connect_timeout));
  outcome.retryable = true;
  outcome.retry_same_qp = !connecting || !DeviceOf(turn, connector.adapter).keeps_qps_until_released;
  FailConnect(turn, connector, std::move(outcome), true);
}

void Handle(Turn& turn, const FabricReplied& report) {
  ConnectorRecord* connector = ConnectorOf(turn, report.connection);
  if (connector == nullptr || connector->state != ConnectorState::kConnecting) return;
  SetDeadline(turn, *connector, absl::InfiniteDuration());
  connector->limits = {std::min(connector->limits.inbound, report.peer_limits.outbound),
                       std::min(connector->limits.outbound, report.peer_limits.inbound)};
  connector->private_data = report.private_data;
  connector->three_way = report.three_way;
  connector->has_data = true;
  connector->qp_attributes = report.qp_attributes;
  SetReadLimits(connector->qp_attributes, connector->limits);
  SetState(turn, *connector, ConnectorState::kReplied);
  Complete(turn, *connector, connector->pending, Done(DataOf(*connector)));
}

void Handle(Turn& turn, const FabricConnectFailed& report) {
  ConnectorRecord* connector = ConnectorOf(turn, report.connection);
  if (connector == nullptr || connector->state != ConnectorState::kConnecting) return;
  FreeAddresses(turn, report.connection);
  GiveUp(turn, *connector, Farewell::kRelease);
  if (ConnectsFromAnotherPort(turn, *connector, report)) return;
  Outcome outcome = Refuse(report.status, "destination ", connector->peer.ToString(), ": cannot be connected",
                           CauseOf(turn, *connector, report));
  outcome.provider_error = report.provider_error;
  outcome.retryable = MayRetry(report.status);
  outcome.retry_same_qp = outcome.retryable && report.qp_reusable;
  if (report.status == NdkStatus::kConnectionRefused) {
    turn.tally.Refuse(Side::kActive, Refusal::kPeer);
    connector->limits = {};
    connector->private_data = report.private_data;
    connector->has_data = true;
    outcome.payload = DataOf(*connector);
  }
  const bool again = outcome.retryable;
  FailConnect(turn, *connector, std::move(outcome), again);
}

}  // namespace rdmabroker
