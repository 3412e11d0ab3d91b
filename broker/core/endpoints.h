// SPDX-License-Identifier: Apache-2.0

// Endpoints: which local addresses are taken, by whom, and for how long. An endpoint is there as long as something
// refers to it or a connection at the fabric still stands on it; then it is unbound, and when the fabric says so the
// address is free.

#ifndef BROKER_CORE_ENDPOINTS_H_
#define BROKER_CORE_ENDPOINTS_H_

#include <cstdint>

#include "broker/core/turn.h"

namespace rdmabroker {

bool HasAddress(const Device& device, const IpAddress& ip);

// Whether the device must have the address.
enum class Presence : uint8_t { kNow, kAwaited };

// Starts to bind `address` for the session's `owner`, with one reference, and puts the endpoint's id into `endpoint`.
// Port 0 takes a free one of the ephemeral range. `owner` is told by OnBound or OnBindFailed. An address that is
// awaited is held against others, and bound once the device has it. Not PENDING: INVALID_ADDRESS, ACCESS_DENIED,
// INSUFFICIENT_RESOURCES, SHARING_VIOLATION or TOO_MANY_ADDRESSES, and nothing has changed.
Outcome AcquireEndpoint(Turn& turn, SessionId session, const Device& device, EndpointUse use,
                        const SocketAddress& address, Presence presence, ObjectId owner, EndpointId& endpoint);

// Starts to turn a bound, reserved endpoint into `owner`'s, with the reference that its reservation had. The new owner
// is told by OnBound or OnBindFailed; after a failure it gives the endpoint back with GiveBackEndpoint.
void RepurposeEndpoint(Turn& turn, EndpointId endpoint, EndpointUse use, ObjectId owner);

void GiveBackEndpoint(Turn& turn, EndpointId endpoint, ReservationId owner);

// The closing object's part in its endpoint ends. True when nothing is left to wait for: it has none, others refer to
// it, or it is unbound.
bool LeaveEndpoint(Turn& turn, ObjectRecord& object, const ObjectId& id);

void AddReference(Turn& turn, EndpointId endpoint);
// May start to unbind it, for which the owner's close waits by LeaveEndpoint.
void DropReference(Turn& turn, EndpointId endpoint);
// A connection at the fabric stands on the endpoint: its address is not free before the connection is released.
void StandOn(Turn& turn, ConnectionRecord& connection, EndpointId endpoint);
void StepOff(Turn& turn, const ConnectionRecord& connection);

// The adapter of the listener's session by which it answers on the device: its own, or, where it may be at any, the
// first of them that is not being closed. 0: none.
AdapterId AdapterAt(const Turn& turn, const ListenerRecord& listener, DeviceId device);
// Where the listener is to be: on the device where it is (`now`), its own adapter's, or where it may be at any adapter
// another of the same kind, whichever has the address; its own adapter's where none has.
DeviceId DeviceFor(const Turn& turn, const ListenerRecord& listener, const IpAddress& ip, DeviceId now);

// The device's addresses have changed, or it is gone. Endpoints but connectors' own follow: to all of a family, or to
// the one that they name, on this device, and to it where they may be at any adapter.
void FollowAddresses(Turn& turn, DeviceId device);
// The session has another adapter, or one less.
void FollowToAdapters(Turn& turn, SessionId session);

void Handle(Turn& turn, const FabricBound& report);
void Handle(Turn& turn, const FabricBindFailed& report);
void Handle(Turn& turn, const FabricUnbound& report);

}  // namespace rdmabroker

#endif  // BROKER_CORE_ENDPOINTS_H_
