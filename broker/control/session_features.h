// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_SESSION_FEATURES_H_
#define BROKER_CONTROL_SESSION_FEATURES_H_

#include <cstdint>
#include <string>
#include <variant>

#include "broker/core/messages.h"
#include "broker/core/requests.h"
#include "google/protobuf/repeated_field.h"
#include "proto/rdmabroker/v1/session.pb.h"

namespace rdmabroker {

// The contract's minor version that this broker implements; broker.proto.
inline constexpr uint32_t kApiMinor = 2;

// The features of the contract that a client has named and the broker has; session.proto, OpenSession.features.
struct Features {
  bool listener_address_events = false;  // ListenerAddressEvent.
  bool endpoint_address_events = false;  // ListenerAddressEvent and EndpointAddressEvent.
  bool requests_on_stream = false;       // RequestBatch and ReplyBatch.
};

// Reads what a client says of itself when it opens a session or returns to one. Returns its features, or why what it
// says is malformed.
std::variant<Features, Outcome> ReadFeatures(uint32_t api_minor,
                                             const google::protobuf::RepeatedPtrField<std::string>& names);

// The address events that the features ask for.
AddressNews NewsFor(const Features& features);

// Says which are in force.
void ToProto(const Features& features, v1::SessionOpened* opened);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_SESSION_FEATURES_H_
