// SPDX-License-Identifier: Apache-2.0

#include "broker/core/endpoints.h"
#include "broker/core/nouns.h"
#include "broker/core/objects.h"
#include "broker/core/sessions.h"

namespace rdmabroker {

Outcome Perform(Turn& turn, const Call& call, const CreateSharedEndpoint& request) {
  const auto adapter = FindUsable(turn, call, request.adapter);
  if (!adapter) return adapter.refusal;
  const auto created =
      NewObject<SharedEndpointKind>(turn, call.session, request.adapter, turn.records.counters.shared_endpoint);
  if (!created) return created.refusal;
  SharedEndpointRecord& shared_endpoint = *created;
  shared_endpoint.ready = false;
  Outcome outcome;
  if (request.reservation) {
    outcome = TakeReservation(turn, call, request.reservation, request.adapter, request.address, EndpointUse::kShared,
                              shared_endpoint.id);
  } else {
    outcome = AcquireEndpoint(turn, call.session, DeviceOf(turn, request.adapter), EndpointUse::kShared,
                              request.address, Presence::kNow, shared_endpoint.id, shared_endpoint.endpoint);
  }
  if (outcome.status != NdkStatus::kPending) {
    Remove(turn, shared_endpoint.id);
    return outcome;
  }
  if (request.reservation) {
    shared_endpoint.taking = request.reservation;
    shared_endpoint.endpoint = turn.records.reservations.at(request.reservation).endpoint;
  }
  shared_endpoint.pending = call.id;
  return outcome;
}

bool IsBare(const Turn&, const SharedEndpointRecord&) { return false; }

// Its client cannot close it before it is told of it, and so never while its CreateSharedEndpoint is pending.
void StartClosing(Turn&, SharedEndpointRecord&) {}

bool CanFinish(Turn& turn, SharedEndpointRecord& shared_endpoint) {
  return shared_endpoint.successors == 0 && LeaveEndpoint(turn, shared_endpoint, shared_endpoint.id);
}

void OnBound(Turn& turn, SharedEndpointRecord& shared_endpoint, EndpointId endpoint) {
  shared_endpoint.ready = true;
  if (shared_endpoint.taking) {
    ConsumeReservation(turn, std::exchange(shared_endpoint.taking, ReservationId()));
  }
  Complete(turn, shared_endpoint, shared_endpoint.pending,
           Done(SharedEndpointCreated{shared_endpoint.id, turn.records.endpoints.at(endpoint).address}));
}

void OnBindFailed(Turn& turn, SharedEndpointRecord& shared_endpoint, EndpointId, const Outcome& outcome) {
  if (shared_endpoint.taking) ReturnReservation(turn, std::exchange(shared_endpoint.taking, ReservationId()));
  Complete(turn, shared_endpoint, shared_endpoint.pending, outcome);
  Remove(turn, shared_endpoint.id);
}

}  // namespace rdmabroker
