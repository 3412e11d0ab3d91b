// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "broker/core/connections.h"
#include "broker/core/endpoints.h"
#include "broker/core/nouns.h"
#include "broker/core/objects.h"
#include "broker/core/sessions.h"

namespace rdmabroker {

Outcome Perform(Turn& turn, const Call& call, const Accept& request) {
  const auto found = FindUsable(turn, call, request.connector);
  if (!found) return found.refusal;
  ConnectorRecord& connector = *found;
  if (connector.state != ConnectorState::kRequested) {
    const bool given_up = connector.listener && connector.state == ConnectorState::kDead;
    return Refuse(given_up ? connector.dead_status : NdkStatus::kConnectionInvalid, Name(request.connector),
                  ": no connect request waits to be accepted");
  }
  if (!turn.limits.accept_on_closing_listener && turn.records.listeners.at(connector.listener).closing) {
    LeaveUndecided(turn, connector);
    turn.tally.Refuse(Side::kPassive, Refusal::kClosing);
    GiveUp(turn, connector, Farewell::kReject);
    Die(turn, connector, NdkStatus::kConnectionAborted);
    return Refuse(NdkStatus::kConnectionAborted, Name(connector.listener),
                  ": is being closed, and accept_on_closing_listener is off");
  }
  const Device& device = DeviceOf(turn, connector.adapter);
  Outcome outcome = RefuseUnlessFree(turn, connector, request.qp);
  if (outcome.status == NdkStatus::kSuccess) {
    outcome = RefuseUnlessFits(request.private_data, device.info.max_callee_data, "Accept");
  }
  if (outcome.status != NdkStatus::kSuccess) return outcome;
  TakeQp(turn, connector, request.qp);
  LeaveUndecided(turn, connector);
  connector.limits = {std::min(request.limits.inbound, connector.limits.inbound),
                      std::min(request.limits.outbound, connector.limits.outbound)};
  SetReadLimits(connector.qp_attributes, connector.limits);
  connector.endpoint = turn.records.listeners.at(connector.listener).endpoint;
  AddReference(turn, connector.endpoint);
  connector.pending = call.id;
  SetState(turn, connector, ConnectorState::kAccepting);
  connector.options = request.options;
  connector.accept_data = request.private_data;
  SetDeadline(turn, connector, turn.limits.establish_timeout);
  EmitAccept(turn, connector);
  return Pending();
}

void EmitAccept(Turn& turn, const ConnectorRecord& connector) {
  const Identity& identity = std::as_const(turn.records.sessions).at(connector.session).identity;
  turn.Emit(FabricAccept{DeviceOf(turn, connector.adapter).id, connector.connection, connector.session, connector.qp,
                         connector.limits, *connector.accept_data, identity.pid, identity.uid, connector.options});
}

Outcome Perform(Turn& turn, const Call& call, const Reject& request) {
  const auto connector = FindUsable(turn, call, request.connector);
  if (!connector) return connector.refusal;
  const bool undecided = connector->state == ConnectorState::kRequested;
  if (!undecided && connector->state != ConnectorState::kReplied) {
    return Refuse(connector->state == ConnectorState::kDead ? connector->dead_status : NdkStatus::kConnectionInvalid,
                  Name(request.connector), ": neither a connect request nor an accepted Connect waits for a decision");
  }
  Outcome outcome =
      RefuseUnlessFits(request.private_data, DeviceOf(turn, connector->adapter).info.max_callee_data, "Reject");
  if (outcome.status != NdkStatus::kSuccess) return outcome;
  if (undecided) LeaveUndecided(turn, *connector);
  turn.tally.Refuse(SideOf(*connector), Refusal::kClient);
  GiveUp(turn, *connector, Farewell::kReject, request.private_data);
  Die(turn, *connector, NdkStatus::kConnectionInvalid);
  return outcome;
}

Outcome Perform(Turn& turn, const Call& call, const GetConnectionData& request) {
  const auto connector = FindUsable(turn, call, request.connector);
  if (!connector) return connector.refusal;
  if (!connector->has_data) {
    return Refuse(NdkStatus::kConnectionInvalid, Name(request.connector), ": its peer has not been heard of yet");
  }
  return Done(DataOf(*connector));
}

}  // namespace rdmabroker
