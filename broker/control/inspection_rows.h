// SPDX-License-Identifier: Apache-2.0

// The rows of the inspection: whose they are, and what is in them.

#ifndef BROKER_CONTROL_INSPECTION_ROWS_H_
#define BROKER_CONTROL_INSPECTION_ROWS_H_

#include <map>
#include <string>

#include "broker/core/index.h"
#include "broker/core/state.h"
#include "proto/rdmabroker/v1/inspection.pb.h"

namespace rdmabroker {

// Whose a record is. 0 for an endpoint that outlives what it was made for: a connector that has moved to another
// address may be gone before its former one is unbound.
SessionId SessionOf(const Records& records, const EndpointRecord& endpoint);
inline SessionId SessionOf(const Records&, const ObjectRecord& object) { return object.session; }

// What it is on.
const DeviceRecord& DeviceOf(const Records& records, const EndpointRecord& endpoint);
const DeviceRecord& DeviceOf(const Records& records, const ObjectRecord& object);

void Fill(const Records& records, const SessionRecord& session, v1::SessionInfo* row);
void Fill(const Records& records, const EndpointRecord& endpoint, v1::EndpointInfo* row);
void Fill(const Records& records, const ListenerRecord& listener, v1::ListenerInfo* row);
void Fill(const Records& records, const SharedEndpointRecord& shared_endpoint, v1::SharedEndpointInfo* row);
void Fill(const Records& records, const ReservationRecord& reservation, v1::ReservationInfo* row);
void Fill(const Records& records, const ConnectorRecord& connector, v1::ConnectorInfo* row);
// With the numbers of all users where `counted`.
void Fill(const StateCounts& states, const DeviceRecord& device, bool counted, v1::DeviceActivity* activity);
void Fill(const StateCounts& states, const DeviceRecord& device, bool counted, v1::AdapterRow* row);

// The devices that are not removed, in order of their names.
std::map<std::string, const DeviceRecord*> DevicesThere(const Records& records);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_INSPECTION_ROWS_H_
