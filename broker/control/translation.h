// SPDX-License-Identifier: Apache-2.0

// Between the wire's messages and the core's values. What comes from the wire is checked for form here: what the proto
// says of a field and the core cannot see any more. Failures are INVALID_PARAMETER outcomes that name the field.

#ifndef BROKER_CONTROL_TRANSLATION_H_
#define BROKER_CONTROL_TRANSLATION_H_

#include <variant>

#include "absl/strings/string_view.h"
#include "broker/core/limits.h"
#include "broker/core/messages.h"
#include "broker/core/state.h"
#include "broker/wire/values.h"
#include "dataplane/ndk/socket_address.h"
#include "proto/rdmabroker/v1/adapter.pb.h"
#include "proto/rdmabroker/v1/address.pb.h"
#include "proto/rdmabroker/v1/connection.pb.h"
#include "proto/rdmabroker/v1/inspection.pb.h"
#include "proto/rdmabroker/v1/outcome.pb.h"
#include "proto/rdmabroker/v1/requests.pb.h"
#include "proto/rdmabroker/v1/session.pb.h"

namespace rdmabroker {

// The request, or why it is malformed.
using Translated = std::variant<Request, Outcome>;

Translated FromProto(const v1::OpenAdapterRequest& request);
Translated FromProto(const v1::CloseAdapterRequest& request);
Translated FromProto(const v1::CreateListenerRequest& request);
Translated FromProto(const v1::ListenRequest& request);
Translated FromProto(const v1::ControlConnectEventsRequest& request);
Translated FromProto(const v1::CloseListenerRequest& request);
Translated FromProto(const v1::CreateSharedEndpointRequest& request);
Translated FromProto(const v1::CloseSharedEndpointRequest& request);
Translated FromProto(const v1::ReservePortRequest& request);
Translated FromProto(const v1::ReleasePortRequest& request);
Translated FromProto(const v1::CreateConnectorRequest& request);
Translated FromProto(const v1::ConnectRequest& request);
Translated FromProto(const v1::ConnectWithSharedEndpointRequest& request);
Translated FromProto(const v1::CompleteConnectRequest& request);
Translated FromProto(const v1::AcceptRequest& request);
Translated FromProto(const v1::RejectRequest& request);
Translated FromProto(const v1::DisconnectRequest& request);
Translated FromProto(const v1::GetConnectionDataRequest& request);
Translated FromProto(const v1::ReportConnectionEndRequest& request);
Translated FromProto(const v1::CloseConnectorRequest& request);
// Whichever of them it is.
Translated FromProto(const v1::BatchedRequest& request);
// Its name in the contract; "unknown" for one of a newer kind.
absl::string_view NameOf(const v1::BatchedRequest& request);

void ToProto(const Outcome& outcome, v1::Outcome* message);
void ToProto(const NumberedEvent& event, v1::SessionEvent* message);
void ToProto(const Limits& limits, v1::Limits* message);
void ToProto(const DeviceRecord& record, v1::Device* message);

// An address for people, with the name that its interface has now.
template <typename Address, typename Message>
void ShowAddress(const Address& address, Message* message) {
  ToProto(address, message);
  if (message->scope_id() != 0) message->set_interface(InterfaceName(message->scope_id()));
}
v1::DeviceState ToState(const DeviceRecord& record);

// 16 bytes, or nothing.
template <typename Secret>
bool SecretFromBytes(const std::string& bytes, Secret* secret) {
  if (bytes.size() != secret->size()) return false;
  std::copy(bytes.begin(), bytes.end(), secret->begin());
  return true;
}

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_TRANSLATION_H_
