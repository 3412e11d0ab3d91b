// SPDX-License-Identifier: Apache-2.0

#include "broker/core/connections.h"

#include "broker/core/endpoints.h"
#include "broker/core/nouns.h"
#include "broker/core/objects.h"
#include "broker/core/sessions.h"

namespace rdmabroker {
namespace {

// The fabric may take for a goodbye what the client knows better: soft iWARP's kernel tells no end from another.
void CountBroken(Turn& turn, ConnectorRecord& connector) {
  if (!std::exchange(connector.broken, true)) ++CountsOf(turn, connector).connection_errors;
}

// 24 bits. 0 is the subnet management's (InfiniBand Architecture Specification, volume 1, 3.9), and what a client that
// forgot the field sends. 1, which is management's there, too, is any queue pair's on iWARP devices.
constexpr uint32_t kFirstQpNumber = 1;
constexpr uint32_t kLastQpNumber = 0xFFFFFF;

QpKey KeyOf(const Turn& turn, const ConnectorRecord& connector, QpNumber qp) {
  return {connector.session, DeviceOf(turn, connector.adapter).id, qp};
}

// How long a client has to fetch a transport. It fetches at once, but may be stopped before it does, whether it loses
// its stream or not.
absl::Duration HandoffPatience(const Limits& limits) { return limits.handoff_timeout + limits.session_grace; }

// The established connection is over: its client learns of it, or has said so itself.
void EndConnection(Turn& turn, ConnectorRecord& connector, Farewell farewell = Farewell::kRelease) {
  FreeAddresses(turn, connector.connection);
  GiveUp(turn, connector, farewell);
  Die(turn, connector, NdkStatus::kConnectionInvalid);
}

// Ends a connection whose transport was not fetched in time. A client that was away has the whole time again from its
// return on.
void OnHandoffTimeout(Turn& turn, ConnectorRecord& connector) {
  const SessionRecord& session = std::as_const(turn.records.sessions).at(connector.session);
  // A client that is away may still return until its session's deadline.
  const Instant due = (session.stream ? session.returned : turn.now()) + HandoffPatience(turn.limits);
  if (turn.now() < due) return SetDeadline(turn, connector, due - turn.now());
  const NdkStatus status = NdkStatus::kIoTimeout;
  CountBroken(turn, connector);
  NoteFailure(turn, connector,
              Refuse(status, Name(connector.id), ": its client has not fetched its transport in time"));
  EndConnection(turn, connector);
  Notify(turn, connector, DisconnectEvent{connector.id, status, 0});
}

}  // namespace

ConnectionData DataOf(const ConnectorRecord& connector) {
  return {connector.local,        connector.peer,      connector.limits,
          connector.private_data, connector.three_way, connector.qp_attributes};
}

void SetReadLimits(std::vector<QpAttributes>& attributes, const ReadLimits& limits) {
  for (QpAttributes& step : attributes) {
    step.max_inbound_reads = limits.inbound;
    step.max_outbound_reads = limits.outbound;
  }
}

Outcome RefuseUnlessFree(const Turn& turn, const ConnectorRecord& connector, QpNumber qp) {
  if (qp.value < kFirstQpNumber || qp.value > kLastQpNumber) {
    return Refuse(NdkStatus::kInvalidParameter, "qp_number ", qp.value, ": not between ", kFirstQpNumber, " and ",
                  kLastQpNumber);
  }
  if (turn.index.qps.contains(KeyOf(turn, connector, qp))) {
    return Refuse(NdkStatus::kConnectionActive, "qp_number ", qp.value,
                  ": a connector that is not closed uses it; take another queue pair");
  }
  return Done();
}

void TakeQp(Turn& turn, ConnectorRecord& connector, QpNumber qp) {
  connector.qp = qp;
  turn.index.qps[KeyOf(turn, connector, qp)] = connector.id;
}

void LeaveQp(Turn& turn, ConnectorRecord& connector) {
  if (connector.qp.value == 0) return;
  turn.index.qps.erase(KeyOf(turn, connector, connector.qp));
  connector.qp = {};
}

Outcome RefuseUnlessFits(const Bytes& private_data, uint32_t limit, const char* request) {
  if (private_data.size() <= limit) return Done();
  return Refuse(NdkStatus::kInvalidBufferSize, "private_data: ", private_data.size(), " bytes; ", request,
                " carries at most ", limit, " on this adapter");
}

void NoteFailure(Turn& turn, ConnectorRecord& connector, const Outcome& outcome) {
  connector.failure = ConnectorFailure{turn.now(), outcome.status, outcome.provider_error, outcome.hint};
}

void Fail(Turn& turn, ConnectorRecord& connector, Outcome outcome) {
  NoteFailure(turn, connector, outcome);
  Complete(turn, connector, connector.pending, std::move(outcome));
}

void SetDeadline(Turn& turn, ConnectorRecord& connector, absl::Duration timeout) {
  const Instant former = connector.deadline;
  connector.deadline = timeout == absl::InfiniteDuration() ? absl::InfiniteFuture() : turn.now() + timeout;
  if (connector.deadline == former) return;
  const uint32_t uid = std::as_const(turn.records.sessions).at(connector.session).identity.uid;
  if (former != absl::InfiniteFuture()) turn.index.deadlines.Remove(uid, former, connector.id);
  if (connector.deadline != absl::InfiniteFuture()) turn.index.deadlines.Add(uid, connector.deadline, connector.id);
}

void GiveUp(Turn& turn, ConnectorRecord& connector, Farewell farewell, Bytes private_data) {
  const ConnectionId id = std::exchange(connector.connection, ConnectionId());
  ConnectionRecord& connection = turn.records.connections.at(id);
  connection.given_up = true;
  connection.farewell = farewell;
  connection.farewell_data = std::move(private_data);
  connector.releasing = id;
  turn.Emit(FarewellOf(connection));
}

FabricRequest FarewellOf(const ConnectionRecord& connection) {
  switch (connection.farewell) {
    case Farewell::kReject:
      return FabricReject{connection.device, connection.id, connection.farewell_data};
    case Farewell::kRefuse:
      return FabricRefuse{connection.device, connection.id};
    case Farewell::kRelease:
    case Farewell::kClientEnded:
      break;
  }
  return FabricRelease{connection.device, connection.id, connection.farewell == Farewell::kClientEnded};
}

void FreeAddresses(Turn& turn, ConnectionId id) {
  ConnectionRecord& connection = turn.records.connections.at(id);
  if (!std::exchange(connection.holds_addresses, false)) return;
  turn.index.tuples.erase(TupleOf(turn.records, connection));
}

ConnectionCounts& CountsOf(Turn& turn, const ConnectorRecord& connector) {
  return turn.records.devices.at(DeviceOf(turn, connector.adapter).id).counts;
}

Side SideOf(const ConnectorRecord& connector) { return connector.listener ? Side::kPassive : Side::kActive; }

void CountFailure(Turn& turn, const ConnectorRecord& connector, NdkStatus status) {
  ++CountsOf(turn, connector).connect_failures;
  turn.tally.Fail(SideOf(connector), status);
}

void SetState(Turn& turn, ConnectorRecord& connector, ConnectorState state) {
  if (connector.state == state) return;
  connector.since = turn.now();
  if (state != ConnectorState::kAccepting) connector.accept_data.reset();
  turn.index.states.Count(turn.records, connector, -1);
  connector.state = state;
  turn.index.states.Count(turn.records, connector, 1);
}

void Die(Turn& turn, ConnectorRecord& connector, NdkStatus dead_status) {
  SetDeadline(turn, connector, absl::InfiniteDuration());
  connector.awaits_handoff = false;
  SetState(turn, connector, ConnectorState::kDead);
  connector.dead_status = dead_status;
}

void LeaveUndecided(Turn& turn, const ConnectorRecord& connector) {
  --turn.records.listeners.at(connector.listener).undecided;
  --turn.index.objects_of_uid.at(std::as_const(turn.records.sessions).at(connector.session).identity.uid).undecided;
}

ConnectorRecord* ConnectorOf(Turn& turn, ConnectionId id) {
  const auto& connections = std::as_const(turn.records.connections);
  const auto connection = connections.find(id);
  if (connection == connections.end() || connection->second.given_up) return nullptr;
  return &turn.records.connectors.at(connection->second.connector);
}

Outcome Perform(Turn& turn, const Call& call, const Disconnect& request) {
  const auto connector = FindUsable(turn, call, request.connector);
  if (!connector) return connector.refusal;
  const Device& device = DeviceOf(turn, connector->adapter);
  switch (connector->state) {
    case ConnectorState::kPeerDisconnected:
      EndConnection(turn, *connector);
      return Done();
    case ConnectorState::kEstablished:
      break;
    case ConnectorState::kDisconnecting:
      return Refuse(NdkStatus::kInvalidDeviceState, Name(request.connector), ": is disconnecting already");
    default:
      return Refuse(NdkStatus::kConnectionInvalid, Name(request.connector), ": is not connected");
  }
  if (device.client_ends_connections) {
    return Refuse(NdkStatus::kInvalidDeviceRequest, Name(request.connector), ": the data path ends connections of ",
                  device.name, "; disconnect there and call ReportConnectionEnd");
  }
  connector->awaits_handoff = false;
  SetState(turn, *connector, ConnectorState::kDisconnecting);
  connector->pending = call.id;
  SetDeadline(turn, *connector, turn.limits.disconnect_timeout);
  turn.Emit(FabricDisconnect{device.id, connector->connection});
  return Pending();
}

Outcome Perform(Turn& turn, const Call& call, const ReportConnectionEnd& request) {
  const auto connector = FindUsable(turn, call, request.connector);
  if (!connector) return connector.refusal;
  switch (connector->state) {
    case ConnectorState::kEstablished:
    case ConnectorState::kPeerDisconnected:
    case ConnectorState::kDisconnecting:
      break;
    default:
      return Refuse(NdkStatus::kConnectionInvalid, Name(request.connector), ": is not connected");
  }
  Outcome outcome = request.graceful ? Done()
                                     : Refuse(NdkStatus::kConnectionAborted, Name(request.connector),
                                              ": its client reported that the connection broke");
  outcome.provider_error = request.provider_error;
  if (connector->state != ConnectorState::kDisconnecting && !request.graceful) CountBroken(turn, *connector);
  if (!request.graceful) NoteFailure(turn, *connector, outcome);
  Complete(turn, *connector, connector->pending, std::move(outcome));
  EndConnection(turn, *connector, Farewell::kClientEnded);
  return Done();
}

bool IsBare(const Turn&, const ConnectorRecord& connector) {
  return !connector.endpoint && !connector.connection && !connector.releasing;
}

void StartClosing(Turn& turn, ConnectorRecord& connector) {
  Complete(turn, connector, connector.pending, Refuse(NdkStatus::kCancelled, Name(connector.id), ": was closed"));
  LeaveQp(turn, connector);
  const ConnectorState state = connector.state;
  if (state == ConnectorState::kRequested) LeaveUndecided(turn, connector);
  if (connector.connection) {
    const bool undecided = state == ConnectorState::kRequested || state == ConnectorState::kReplied;
    if (undecided) turn.tally.Refuse(SideOf(connector), Refusal::kClient);
    GiveUp(turn, connector, undecided ? Farewell::kReject : Farewell::kRelease);
  }
  Die(turn, connector, NdkStatus::kConnectionInvalid);
}

bool CanFinish(Turn& turn, ConnectorRecord& connector) {
  return !connector.releasing && LeaveEndpoint(turn, connector, connector.id);
}

void OnDeadline(Turn& turn, ConnectorId id) {
  ConnectorRecord& connector = turn.records.connectors.at(id);
  if (connector.state == ConnectorState::kBinding || connector.state == ConnectorState::kConnecting) {
    return OnConnectTimeout(turn, connector);
  }
  if (connector.state == ConnectorState::kEstablished) return OnHandoffTimeout(turn, connector);
  const bool disconnecting = connector.state == ConnectorState::kDisconnecting;
  if (disconnecting) {
    FreeAddresses(turn, connector.connection);
  } else {
    CountFailure(turn, connector, NdkStatus::kIoTimeout);
  }
  GiveUp(turn, connector, Farewell::kRelease);
  Die(turn, connector, disconnecting ? NdkStatus::kConnectionInvalid : NdkStatus::kIoTimeout);
  Fail(turn, connector,
       Refuse(NdkStatus::kIoTimeout, "peer ", connector.peer.ToString(), ": did not ",
              disconnecting ? "disconnect" : "complete the connection", " in time"));
}

void OnDeviceRemoved(Turn& turn, ConnectorRecord& connector) {
  const ConnectorState state = connector.state;
  if (state == ConnectorState::kIdle || state == ConnectorState::kDead) return;
  if (state == ConnectorState::kRequested) LeaveUndecided(turn, connector);
  if (connector.connection) {
    FreeAddresses(turn, connector.connection);
    GiveUp(turn, connector, Farewell::kRelease);
  }
  Die(turn, connector, NdkStatus::kDeviceRemoved);
  Fail(turn, connector, Refuse(NdkStatus::kDeviceRemoved, Name(connector.id), ": its device is gone; close it"));
  if (state == ConnectorState::kEstablished) {
    Notify(turn, connector, DisconnectEvent{connector.id, NdkStatus::kDeviceRemoved, 0});
  }
}

void Handle(Turn& turn, const FabricEstablished& report) {
  ConnectorRecord* connector = ConnectorOf(turn, report.connection);
  if (connector == nullptr) return;
  if (connector->state != ConnectorState::kAccepting && connector->state != ConnectorState::kCompleting) return;
  ConnectionCounts& counts = CountsOf(turn, *connector);
  ++(connector->listener ? counts.accepts : counts.connects);
  ++turn.tally.handshakes[static_cast<size_t>(SideOf(*connector))];
  SetState(turn, *connector, ConnectorState::kEstablished);
  connector->awaits_handoff = report.handoff.has_value();
  SetDeadline(turn, *connector, connector->awaits_handoff ? HandoffPatience(turn.limits) : absl::InfiniteDuration());
  Complete(turn, *connector, connector->pending, Done(ConnectionEstablished{connector->limits, report.handoff}));
}

void Handle(Turn& turn, const FabricFailed& report) {
  ConnectorRecord* connector = ConnectorOf(turn, report.connection);
  if (connector == nullptr) return;
  switch (connector->state) {
    case ConnectorState::kRequested:
      LeaveUndecided(turn, *connector);
      break;
    case ConnectorState::kReplied:
    case ConnectorState::kCompleting:
    case ConnectorState::kAccepting:
      break;
    default:
      return;
  }
  CountFailure(turn, *connector, report.status);
  FreeAddresses(turn, report.connection);
  GiveUp(turn, *connector, Farewell::kRelease);
  Die(turn, *connector, report.status);
  if (!report.private_data.empty()) connector->private_data = report.private_data;
  Outcome outcome = Refuse(report.status, "peer ", connector->peer.ToString(), ": gave the connection up",
                           report.explanation.empty() ? "" : ": ", report.explanation);
  outcome.provider_error = report.provider_error;
  Fail(turn, *connector, std::move(outcome));
}

void Handle(Turn& turn, const FabricDisconnected& report) {
  ConnectorRecord* connector = ConnectorOf(turn, report.connection);
  if (connector == nullptr) return;
  switch (connector->state) {
    case ConnectorState::kRequested:
    case ConnectorState::kReplied:
    case ConnectorState::kCompleting:
      return Handle(turn,
                    FabricFailed{report.connection, NdkStatus::kConnectionAborted, report.provider_error, {}, {}});
    case ConnectorState::kDisconnecting: {
      Outcome outcome = report.status == NdkStatus::kSuccess
                            ? Done()
                            : Refuse(report.status, "peer ", connector->peer.ToString(), ": did not disconnect");
      outcome.provider_error = report.provider_error;
      if (outcome.status != NdkStatus::kSuccess) NoteFailure(turn, *connector, outcome);
      Complete(turn, *connector, connector->pending, std::move(outcome));
      return EndConnection(turn, *connector);
    }
    case ConnectorState::kAccepting:
      // The peer completed and disconnected at once, and the first message was overtaken or lost.
      Handle(turn, FabricEstablished{report.connection, std::nullopt});
      break;
    case ConnectorState::kEstablished:
      break;
    default:
      return;
  }
  if (report.status != NdkStatus::kSuccess) {
    CountBroken(turn, *connector);
    Outcome broken = Refuse(report.status, "peer ", connector->peer.ToString(), ": the connection broke");
    broken.provider_error = report.provider_error;
    NoteFailure(turn, *connector, broken);
  }
  SetDeadline(turn, *connector, absl::InfiniteDuration());
  connector->awaits_handoff = false;
  SetState(turn, *connector, ConnectorState::kPeerDisconnected);
  Notify(turn, *connector, DisconnectEvent{connector->id, report.status, report.provider_error});
}

void Handle(Turn& turn, const FabricHandedOff& report) {
  ConnectorRecord* connector = ConnectorOf(turn, report.connection);
  if (connector == nullptr || !connector->awaits_handoff) return;
  connector->awaits_handoff = false;
  SetDeadline(turn, *connector, absl::InfiniteDuration());
}

void Handle(Turn& turn, const FabricReleased& report) {
  const auto found = turn.records.connections.find(report.connection);
  if (found == turn.records.connections.end() || !found->second.given_up) return;
  FreeAddresses(turn, report.connection);
  const ConnectionRecord connection = found->second;
  turn.records.connections.erase(found);
  --turn.records.devices.at(connection.device).connections;
  StepOff(turn, connection);
  ForgetDeviceIfUnused(turn, connection.device);
  const auto connector = turn.records.connectors.find(connection.connector);
  if (connector == turn.records.connectors.end() || connector->second.releasing != report.connection) return;
  connector->second.releasing = ConnectionId();
  ConnectWhenReady(turn, connector->second);
  TryFinishClose(turn, connection.connector);
}

}  // namespace rdmabroker
