// SPDX-License-Identifier: Apache-2.0

#include "broker/core/recovery.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "broker/core/connections.h"
#include "broker/core/endpoints.h"
#include "broker/core/objects.h"
#include "broker/core/sessions.h"

namespace rdmabroker {
namespace {

// In the order of the ids, so that it is one order.
template <typename Id, typename Record>
std::vector<Id> IdsOf(const Table<Id, Record>& table) {
  std::vector<Id> ids;
  ids.reserve(table.size());
  for (const auto& [id, record] : table) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

// What came while there was no broker is not late: it has the time left that it had at the last event on record. Nobody
// knows how long the broker lived on without one.
void MoveDeadlines(Turn& turn) {
  const auto connectors = turn.index.deadlines.connectors;
  for (const auto& [uid, waiting] : connectors) {
    for (const auto& [deadline, id] : waiting) {
      SetDeadline(turn, turn.records.connectors.at(id), deadline - turn.before);
    }
  }
}

void Adopt(Turn& turn, const EndpointRecord& endpoint) {
  if (endpoint.state == EndpointState::kBinding) return;
  const bool turns = endpoint.state == EndpointState::kRepurposing;
  turn.Emit(FabricAdoptEndpoint{endpoint.device, endpoint.id, turns ? EndpointUse::kReserved : endpoint.use,
                                endpoint.ips, endpoint.address.port});
}

// Of a device that is gone nothing can be asked for but to give back.
void AskAgain(Turn& turn, const EndpointRecord& endpoint) {
  const bool asks = endpoint.state == EndpointState::kBinding || endpoint.state == EndpointState::kRepurposing;
  if (asks && std::as_const(turn.records.devices).at(endpoint.device).removed) {
    return Handle(turn, FabricBindFailed{endpoint.id, NdkStatus::kDeviceRemoved});
  }
  switch (endpoint.state) {
    case EndpointState::kBinding:
      return turn.Emit(FabricBind{endpoint.device, endpoint.id, endpoint.use, endpoint.ips, endpoint.address.port});
    case EndpointState::kBound:
      return;
    case EndpointState::kRepurposing:
      return turn.Emit(FabricRepurpose{endpoint.device, endpoint.id, endpoint.use});
    case EndpointState::kUnbinding:
      return turn.Emit(FabricUnbind{endpoint.device, endpoint.id});
  }
}

AdoptedStage StageOf(ConnectorState state) {
  switch (state) {
    case ConnectorState::kRequested:
    case ConnectorState::kAccepting:
      return AdoptedStage::kRequested;
    case ConnectorState::kReplied:
    case ConnectorState::kCompleting:
      return AdoptedStage::kReplied;
    case ConnectorState::kEstablished:
    case ConnectorState::kPeerDisconnected:
    case ConnectorState::kDisconnecting:
      return AdoptedStage::kEstablished;
    case ConnectorState::kIdle:
    case ConnectorState::kBinding:
    case ConnectorState::kConnecting:
    case ConnectorState::kDead:
      break;  // Without a connection, but for kConnecting.
  }
  return AdoptedStage::kConnecting;
}

void Adopt(Turn& turn, const ConnectionRecord& connection) {
  const AdoptedStage stage = connection.given_up
                                 ? AdoptedStage::kOver
                                 : StageOf(std::as_const(turn.records.connectors).at(connection.connector).state);
  if (!connection.given_up) turn.records.connectors.at(connection.connector).recovered = true;
  turn.Emit(FabricAdoptConnection{connection.device, connection.id, connection.endpoint, stage, connection.local,
                                  connection.peer});
}

// The peer's request is accepted again with the data that the client gave. Where that was not recorded nobody can tell
// what the peer has been told.
void AcceptAgain(Turn& turn, ConnectorRecord& connector) {
  if (connector.accept_data) return EmitAccept(turn, connector);
  GiveUp(turn, connector, Farewell::kRelease);
  Die(turn, connector, NdkStatus::kConnectionAborted);
  Fail(turn, connector,
       Refuse(NdkStatus::kConnectionAborted, Name(connector.id),
              ": the broker was started again while it was accepted; have the peer connect again"));
}

void AskAgain(Turn& turn, const ConnectionRecord& connection) {
  if (connection.given_up) return turn.Emit(FarewellOf(connection));
  ConnectorRecord& connector = turn.records.connectors.at(connection.connector);
  switch (connector.state) {
    case ConnectorState::kCompleting:
      return turn.Emit(FabricComplete{connection.device, connection.id, connector.limits});
    case ConnectorState::kAccepting:
      return AcceptAgain(turn, connector);
    case ConnectorState::kDisconnecting:
      return turn.Emit(FabricDisconnect{connection.device, connection.id});
    default:
      return;
  }
}

}  // namespace

void Handle(Turn& turn, const Recover&) {
  const Records& records = turn.records;
  for (const SessionId id : IdsOf(records.sessions)) {
    if (!records.sessions.at(id).ended) LoseStream(turn, turn.records.sessions.at(id));
  }
  const std::vector<EndpointId> endpoints = IdsOf(records.endpoints);
  const std::vector<ConnectionId> connections = IdsOf(records.connections);
  MoveDeadlines(turn);
  for (const EndpointId id : endpoints) Adopt(turn, records.endpoints.at(id));
  for (const ConnectionId id : connections) Adopt(turn, records.connections.at(id));
  // What ends by it may take others with it.
  for (const EndpointId id : endpoints) {
    if (records.endpoints.contains(id)) AskAgain(turn, records.endpoints.at(id));
  }
  for (const ConnectionId id : connections) AskAgain(turn, records.connections.at(id));
  for (const DeviceId id : IdsOf(records.devices)) turn.Emit(FabricAdopted{id});
}

}  // namespace rdmabroker
