// SPDX-License-Identifier: Apache-2.0

// What the core's records consist of, as it is stored, but for what the contract has messages for
// (broker/wire/values.h). ToProto loses nothing; Read believes nothing, complains about what cannot be, and then
// returns something of no use.

#ifndef BROKER_STORE_VALUE_CODEC_H_
#define BROKER_STORE_VALUE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "broker/core/messages.h"
#include "broker/core/state.h"
#include "broker/store/field.h"
#include "broker/store/records.pb.h"
#include "broker/wire/values.h"

namespace rdmabroker::store {

// The contract's messages; `v1` are the store's own.
namespace wire = rdmabroker::v1;

// --- value_encoding.cc ---
int64_t ToProto(Instant time);
v1::AddressNews ToProto(AddressNews news);
v1::ListenerState ToProto(ListenerState state);
v1::ConnectorState ToProto(ConnectorState state);
v1::EndpointState ToProto(EndpointState state);
v1::EndpointUse ToProto(EndpointUse use);
v1::Farewell ToProto(Farewell farewell);

// --- value_decoding.cc ---
Instant ReadTime(int64_t nanoseconds);
NdkStatus Read(const Field& field, wire::NdkStatus status);
PortSpace Read(const Field& field, wire::PortSpace space);
AddressNews Read(const Field& field, v1::AddressNews news);
ListenerState Read(const Field& field, v1::ListenerState state);
ConnectorState Read(const Field& field, v1::ConnectorState state);
EndpointState Read(const Field& field, v1::EndpointState state);
EndpointUse Read(const Field& field, v1::EndpointUse use);
Farewell Read(const Field& field, v1::Farewell farewell);
Bytes ReadBytes(const std::string& bytes);
IpAddress Read(const Field& field, const wire::IpAddress& message);
SocketAddress Read(const Field& field, const wire::SocketAddress& message);
NdkVersion Read(const Field& field, const wire::NdkVersion& message);
AdapterInfo Read(const Field& field, const wire::AdapterInfo& message);
ReadLimits Read(const Field& field, const wire::ReadLimits& message);
QpAttributes Read(const Field& field, const wire::QpAttributes& message);
ConnectionData Read(const Field& field, const wire::ConnectionData& message);

// Each of `messages`, the values of the repeated field `name`.
template <typename Value, typename Messages>
std::vector<Value> ReadAll(const Field& outer, const char* name, const Messages& messages) {
  std::vector<Value> values;
  values.reserve(static_cast<size_t>(messages.size()));
  for (int i = 0; i < messages.size(); ++i) values.push_back(Read(Field(outer, name, i), messages[i]));
  return values;
}

// --- outcome_decoding.cc ---
Outcome Read(const Field& field, const v1::Outcome& message);

}  // namespace rdmabroker::store

#endif  // BROKER_STORE_VALUE_CODEC_H_
