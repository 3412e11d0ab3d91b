// SPDX-License-Identifier: Apache-2.0

// The core's values as the contract's messages (proto/rdmabroker/v1), which lose nothing of them.

#ifndef BROKER_WIRE_VALUES_H_
#define BROKER_WIRE_VALUES_H_

#include <string>

#include "broker/core/messages.h"
#include "proto/rdmabroker/v1/adapter.pb.h"
#include "proto/rdmabroker/v1/address.pb.h"
#include "proto/rdmabroker/v1/connection.pb.h"
#include "proto/rdmabroker/v1/ndk_status.pb.h"

namespace rdmabroker {

v1::NdkStatus ToProto(NdkStatus status);
v1::PortSpace ToProto(PortSpace space);
void ToProto(const IpAddress& ip, v1::IpAddress* message);
void ToProto(const SocketAddress& address, v1::SocketAddress* message);
void ToProto(const NdkVersion& version, v1::NdkVersion* message);
void ToProto(const AdapterInfo& info, v1::AdapterInfo* message);
void ToProto(const ReadLimits& limits, v1::ReadLimits* message);
void ToProto(const QpAttributes& step, v1::QpAttributes* message);
void ToProto(const ConnectionData& data, v1::ConnectionData* message);

// Of an array or a vector of bytes.
template <typename ByteSequence>
std::string BytesToProto(const ByteSequence& bytes) {
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace rdmabroker

#endif  // BROKER_WIRE_VALUES_H_
