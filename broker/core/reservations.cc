// SPDX-License-Identifier: Apache-2.0

#include "broker/core/endpoints.h"
#include "broker/core/nouns.h"
#include "broker/core/objects.h"
#include "broker/core/sessions.h"

namespace rdmabroker {

Outcome Perform(Turn& turn, const Call& call, const ReservePort& request) {
  const auto adapter = FindUsable(turn, call, request.adapter);
  if (!adapter) return adapter.refusal;
  const auto reservation =
      NewObject<ReservationKind>(turn, call.session, request.adapter, turn.records.counters.reservation);
  if (!reservation) return reservation.refusal;
  reservation->ready = false;
  Outcome outcome = AcquireEndpoint(turn, call.session, DeviceOf(turn, request.adapter), EndpointUse::kReserved,
                                    request.address, Presence::kNow, reservation->id, reservation->endpoint);
  if (outcome.status == NdkStatus::kPending) {
    reservation->pending = call.id;
  } else {
    Remove(turn, reservation->id);
  }
  return outcome;
}

Outcome Perform(Turn& turn, const Call& call, const ReleasePort& request) {
  const auto reservation = FindOwned(turn, call, request.reservation);
  if (!reservation) return reservation.refusal;
  if (reservation->taken) {
    return Refuse(NdkStatus::kInvalidDeviceState, Name(request.reservation),
                  ": a Listen or CreateSharedEndpoint is taking it over; wait for its outcome");
  }
  return Close(turn, call, request.reservation);
}

bool IsBare(const Turn&, const ReservationRecord&) { return false; }

// Its client cannot release it before it is told of it, and so never while its ReservePort is pending.
void StartClosing(Turn&, ReservationRecord&) {}

bool CanFinish(Turn& turn, ReservationRecord& reservation) {
  return !reservation.taken && LeaveEndpoint(turn, reservation, reservation.id);
}

void OnBound(Turn& turn, ReservationRecord& reservation, EndpointId endpoint) {
  reservation.ready = true;
  Complete(turn, reservation, reservation.pending,
           Done(PortReserved{reservation.id, turn.records.endpoints.at(endpoint).address}));
}

void OnBindFailed(Turn& turn, ReservationRecord& reservation, EndpointId, const Outcome& outcome) {
  Complete(turn, reservation, reservation.pending, outcome);
  Remove(turn, reservation.id);
}

Outcome TakeReservation(Turn& turn, const Call& call, ReservationId id, AdapterId adapter, const SocketAddress& address,
                        EndpointUse use, ObjectId owner) {
  const auto reservation = FindUsable(turn, call, id);
  if (!reservation) return reservation.refusal;
  if (reservation->adapter != adapter) {
    return Refuse(NdkStatus::kInvalidParameterMix, Name(id), ": is ", Name(reservation->adapter), "'s, not ",
                  Name(adapter), "'s");
  }
  const EndpointRecord& endpoint = turn.records.endpoints.at(reservation->endpoint);
  if (address != SocketAddress() && address != endpoint.address) {
    return Refuse(NdkStatus::kInvalidParameterMix, "address ", address.ToString(), ": ", Name(id), " holds ",
                  endpoint.address.ToString(), "; name that, or no address");
  }
  if (use == EndpointUse::kShared && endpoint.address.ip.IsAny()) {
    return Refuse(NdkStatus::kInvalidAddress, Name(id), ": holds a wildcard, which a shared endpoint cannot have");
  }
  if (reservation->taken) {
    return Refuse(NdkStatus::kInvalidDeviceState, Name(id), ": is being taken over already");
  }
  reservation->taken = true;
  RepurposeEndpoint(turn, reservation->endpoint, use, owner);
  return Pending();
}

void ConsumeReservation(Turn& turn, ReservationId id) { Remove(turn, id); }

void ReturnReservation(Turn& turn, ReservationId id) {
  ReservationRecord& reservation = turn.records.reservations.at(id);
  reservation.taken = false;
  GiveBackEndpoint(turn, reservation.endpoint, id);
  TryFinishClose(turn, id);
}

}  // namespace rdmabroker
