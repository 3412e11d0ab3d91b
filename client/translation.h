// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_TRANSLATION_H_
#define CLIENT_TRANSLATION_H_

#include <optional>
#include <string_view>

#include "client/values.h"
#include "proto/rdmabroker/v1/adapter.pb.h"
#include "proto/rdmabroker/v1/address.pb.h"
#include "proto/rdmabroker/v1/connection.pb.h"
#include "proto/rdmabroker/v1/ndk_status.pb.h"
#include "proto/rdmabroker/v1/outcome.pb.h"

namespace rdmabroker::client {

// Between the wire contract's messages and this library's values. What a broker sends may be malformed: nothing here
// fails on it in another way than it says.

v1::SocketAddress ToMessage(const SocketAddress& address);
v1::ReadLimits ToMessage(const ReadLimits& limits);
v1::ConnectionOptions ToMessage(const ConnectionOptions& options);
v1::NdkVersion ToMessage(const NdkVersion& version);

// Whether a message can have the text: it is UTF-8. No broker reads, and so answers, one that has another.
bool IsUtf8(std::string_view text);

// A number that is none of NDKPI's becomes kUnsuccessful.
NdkStatus FromMessage(v1::NdkStatus status);
// Nothing for an address that is neither 4 nor 16 bytes long, and for a port above 65535.
std::optional<SocketAddress> FromMessage(const v1::SocketAddress& address);
std::optional<rdmabroker::IpAddress> FromMessage(const v1::IpAddress& address);
ReadLimits FromMessage(const v1::ReadLimits& limits);
AdapterInfo FromMessage(const v1::AdapterInfo& info);
// Malformed addresses are left out.
Device FromMessage(const v1::Device& device);
// Nothing if an address is malformed.
std::optional<ConnectionData> FromMessage(const v1::ConnectionData& data);
// Without the payload.
Outcome FromMessage(const v1::Outcome& outcome);

// What is said where the broker breaks the contract.
Outcome BrokenPromise(std::string_view what);

}  // namespace rdmabroker::client

#endif  // CLIENT_TRANSLATION_H_
