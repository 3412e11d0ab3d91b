// SPDX-License-Identifier: Apache-2.0

// The core's records and the messages of records.proto. ToProto loses nothing. FromProto believes nothing:
// INVALID_ARGUMENT, naming the first field that cannot be, and the record is then of no use. What only the records
// together tell, BrokerCore::Restore checks.

#ifndef BROKER_STORE_RECORD_CODEC_H_
#define BROKER_STORE_RECORD_CODEC_H_

#include <cstdint>

#include "absl/status/status.h"
#include "broker/core/state.h"
#include "broker/store/records.pb.h"

namespace rdmabroker::store {

void ToProto(const Counters& counters, v1::Counters* message);
void ToProto(const DeviceRecord& record, v1::Device* message);
// Without its answers and events.
void ToProto(const SessionRecord& record, v1::Session* message);
void ToProto(const KeptAnswer& answer, v1::Answer* message);
void ToProto(const SessionEvent& event, v1::Event* message);
void ToProto(const AdapterRecord& record, v1::Adapter* message);
void ToProto(const ListenerRecord& record, v1::Listener* message);
void ToProto(const SharedEndpointRecord& record, v1::SharedEndpoint* message);
void ToProto(const ReservationRecord& record, v1::Reservation* message);
void ToProto(const ConnectorRecord& record, v1::Connector* message);
void ToProto(const EndpointRecord& record, v1::Endpoint* message);
void ToProto(const ConnectionRecord& record, v1::Connection* message);
// Nanoseconds since 1970; the ends of their range for the infinite past and future.
int64_t ToProto(Instant time);

absl::Status FromProto(const v1::Counters& message, Counters* counters);
absl::Status FromProto(const v1::Device& message, DeviceRecord* record);
absl::Status FromProto(const v1::Session& message, SessionRecord* record);
absl::Status FromProto(const v1::Answer& message, KeptAnswer* answer);
absl::Status FromProto(const v1::Event& message, SessionEvent* event);
absl::Status FromProto(const v1::Adapter& message, AdapterRecord* record);
absl::Status FromProto(const v1::Listener& message, ListenerRecord* record);
absl::Status FromProto(const v1::SharedEndpoint& message, SharedEndpointRecord* record);
absl::Status FromProto(const v1::Reservation& message, ReservationRecord* record);
absl::Status FromProto(const v1::Connector& message, ConnectorRecord* record);
absl::Status FromProto(const v1::Endpoint& message, EndpointRecord* record);
absl::Status FromProto(const v1::Connection& message, ConnectionRecord* record);
Instant ReadTime(int64_t nanoseconds);

}  // namespace rdmabroker::store

#endif  // BROKER_STORE_RECORD_CODEC_H_
