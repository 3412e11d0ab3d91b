// SPDX-License-Identifier: Apache-2.0

// What each kind of object does: its client's requests, and the steps of its close, which objects.h runs.
//
//   Perform       a request of the object's owner
//   IsBare        nothing at the fabric, no successor and no request holds the object: its close can end at once
//   StartClosing  the first thing that a close does: cancels what is pending and gives connections up
//   CanFinish     nothing stands in the way of the close's end any more; may let go of the endpoint and say no
//   OnBound, OnBindFailed   the endpoint that the object waits for

#ifndef BROKER_CORE_NOUNS_H_
#define BROKER_CORE_NOUNS_H_

#include "broker/core/turn.h"

namespace rdmabroker {

// --- adapters.cc ---
Outcome Perform(Turn& turn, const Call& call, const OpenAdapter& request);
bool IsBare(const Turn& turn, const AdapterRecord& adapter);
void StartClosing(Turn& turn, AdapterRecord& adapter);
bool CanFinish(Turn& turn, AdapterRecord& adapter);
// The last thing that the close of an adapter does.
void LeaveDevice(Turn& turn, const AdapterRecord& adapter);
// After a removed device has lost an adapter, an endpoint or a connection.
void ForgetDeviceIfUnused(Turn& turn, DeviceId device);
void Handle(Turn& turn, const DeviceChanged& report);
void Handle(Turn& turn, const DeviceRemoved& report);
void Handle(Turn& turn, const DisableDevice& event);
void Handle(Turn& turn, const EnableDevice& event);

// --- listeners.cc ---
Outcome Perform(Turn& turn, const Call& call, const CreateListener& request);
Outcome Perform(Turn& turn, const Call& call, const Listen& request);
Outcome Perform(Turn& turn, const Call& call, const ControlConnectEvents& request);
bool IsBare(const Turn& turn, const ListenerRecord& listener);
void StartClosing(Turn& turn, ListenerRecord& listener);
bool CanFinish(Turn& turn, ListenerRecord& listener);
void OnBound(Turn& turn, ListenerRecord& listener, EndpointId endpoint);
void OnBindFailed(Turn& turn, ListenerRecord& listener, EndpointId endpoint, const Outcome& outcome);
void Handle(Turn& turn, const FabricConnectRequested& report);

// --- shared_endpoints.cc ---
Outcome Perform(Turn& turn, const Call& call, const CreateSharedEndpoint& request);
bool IsBare(const Turn& turn, const SharedEndpointRecord& shared_endpoint);
void StartClosing(Turn& turn, SharedEndpointRecord& shared_endpoint);
bool CanFinish(Turn& turn, SharedEndpointRecord& shared_endpoint);
void OnBound(Turn& turn, SharedEndpointRecord& shared_endpoint, EndpointId endpoint);
void OnBindFailed(Turn& turn, SharedEndpointRecord& shared_endpoint, EndpointId endpoint, const Outcome& outcome);

// --- reservations.cc ---
Outcome Perform(Turn& turn, const Call& call, const ReservePort& request);
Outcome Perform(Turn& turn, const Call& call, const ReleasePort& request);
bool IsBare(const Turn& turn, const ReservationRecord& reservation);
void StartClosing(Turn& turn, ReservationRecord& reservation);
bool CanFinish(Turn& turn, ReservationRecord& reservation);
void OnBound(Turn& turn, ReservationRecord& reservation, EndpointId endpoint);
void OnBindFailed(Turn& turn, ReservationRecord& reservation, EndpointId endpoint, const Outcome& outcome);
// Starts to turn the caller's reservation into `owner`'s endpoint. PENDING, or why not: OBJECT_NAME_NOT_FOUND,
// ACCESS_DENIED, INVALID_PARAMETER_MIX where it is another adapter's or address's, INVALID_DEVICE_STATE where it is
// taken.
Outcome TakeReservation(Turn& turn, const Call& call, ReservationId reservation, AdapterId adapter,
                        const SocketAddress& address, EndpointUse use, ObjectId owner);
// The endpoint is the taker's now: the reservation is no more.
void ConsumeReservation(Turn& turn, ReservationId reservation);
// The taker could not have it: the reservation is as it was.
void ReturnReservation(Turn& turn, ReservationId reservation);

// --- connect.cc: the active side ---
Outcome Perform(Turn& turn, const Call& call, const CreateConnector& request);
Outcome Perform(Turn& turn, const Call& call, const Connect& request);
Outcome Perform(Turn& turn, const Call& call, const ConnectWithSharedEndpoint& request);
Outcome Perform(Turn& turn, const Call& call, const CompleteConnect& request);
void OnBound(Turn& turn, ConnectorRecord& connector, EndpointId endpoint);
void OnBindFailed(Turn& turn, ConnectorRecord& connector, EndpointId endpoint, const Outcome& outcome);
// Goes on with a connector that waits: it connects once its address is bound and its earlier try is released, for that
// one has the queue pair until then, and perhaps the addresses.
void ConnectWhenReady(Turn& turn, ConnectorRecord& connector);
// The peer has not answered within the limit.
void OnConnectTimeout(Turn& turn, ConnectorRecord& connector);
void Handle(Turn& turn, const FabricReplied& report);
void Handle(Turn& turn, const FabricConnectFailed& report);

// --- accept.cc: the passive side, and Reject and GetConnectionData of both ---
Outcome Perform(Turn& turn, const Call& call, const Accept& request);
Outcome Perform(Turn& turn, const Call& call, const Reject& request);
Outcome Perform(Turn& turn, const Call& call, const GetConnectionData& request);

// --- connections.cc: from established to closed ---
Outcome Perform(Turn& turn, const Call& call, const Disconnect& request);
Outcome Perform(Turn& turn, const Call& call, const ReportConnectionEnd& request);
bool IsBare(const Turn& turn, const ConnectorRecord& connector);
void StartClosing(Turn& turn, ConnectorRecord& connector);
bool CanFinish(Turn& turn, ConnectorRecord& connector);
void OnDeadline(Turn& turn, ConnectorId connector);
void OnDeviceRemoved(Turn& turn, ConnectorRecord& connector);
void Handle(Turn& turn, const FabricEstablished& report);
void Handle(Turn& turn, const FabricFailed& report);
void Handle(Turn& turn, const FabricDisconnected& report);
void Handle(Turn& turn, const FabricHandedOff& report);
void Handle(Turn& turn, const FabricReleased& report);

}  // namespace rdmabroker

#endif  // BROKER_CORE_NOUNS_H_
