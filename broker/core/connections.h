// SPDX-License-Identifier: Apache-2.0

// A connector's connection at the fabric: what the active and the passive side share.

#ifndef BROKER_CORE_CONNECTIONS_H_
#define BROKER_CORE_CONNECTIONS_H_

#include "broker/core/turn.h"

namespace rdmabroker {

// What the connector's client may know of the connection.
ConnectionData DataOf(const ConnectorRecord& connector);
// Puts the limits where ibv_modify_qp takes them from: rdma_cm does not apply the smaller of both sides' itself.
void SetReadLimits(std::vector<QpAttributes>& attributes, const ReadLimits& limits);

// INVALID_PARAMETER for what is no queue pair number, CONNECTION_ACTIVE for a queue pair in use.
Outcome RefuseUnlessFree(const Turn& turn, const ConnectorRecord& connector, QpNumber qp);
void TakeQp(Turn& turn, ConnectorRecord& connector, QpNumber qp);
void LeaveQp(Turn& turn, ConnectorRecord& connector);

// INVALID_BUFFER_SIZE where the private data is longer than the device can carry.
Outcome RefuseUnlessFits(const Bytes& private_data, uint32_t limit, const char* request);

// What people are told who ask why the connector is as it is.
void NoteFailure(Turn& turn, ConnectorRecord& connector, const Outcome& outcome);
// Notes it, and completes the pending request with it, if there is one.
void Fail(Turn& turn, ConnectorRecord& connector, Outcome outcome);

// `timeout` from now; absl::InfiniteDuration() for none.
void SetDeadline(Turn& turn, ConnectorRecord& connector, absl::Duration timeout);

void GiveUp(Turn& turn, ConnectorRecord& connector, Farewell farewell, Bytes private_data = {});
// Accepts the connection, by the connector's queue pair, limits and `accept_data`, which is there.
void EmitAccept(Turn& turn, const ConnectorRecord& connector);
// What tells the fabric that the connection is given up.
FabricRequest FarewellOf(const ConnectionRecord& connection);
// The connection is over: others may have its addresses before it is released.
void FreeAddresses(Turn& turn, ConnectionId connection);

// Of the connector's device.
ConnectionCounts& CountsOf(Turn& turn, const ConnectorRecord& connector);
Side SideOf(const ConnectorRecord& connector);
// Its handshake has failed, other than by its consumer's own reject or close.
void CountFailure(Turn& turn, const ConnectorRecord& connector, NdkStatus status);

// Every change of a connector's state goes by this.
void SetState(Turn& turn, ConnectorRecord& connector, ConnectorState state);
// The connector can do nothing more; `dead_status` is what a step of the handshake that is still asked for gets.
void Die(Turn& turn, ConnectorRecord& connector, NdkStatus dead_status);
// The listener's backlog has one less to decide.
void LeaveUndecided(Turn& turn, const ConnectorRecord& connector);

// The connector that waits for this report; nothing for a connection that was given up or never was.
ConnectorRecord* ConnectorOf(Turn& turn, ConnectionId connection);

}  // namespace rdmabroker

#endif  // BROKER_CORE_CONNECTIONS_H_
