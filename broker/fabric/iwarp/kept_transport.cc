// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/iwarp/kept_transport.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "broker/fabric/iwarp/records.pb.h"
#include "dataplane/iwarp/wire/connection_state.h"

namespace rdmabroker {

std::string TransportName(ConnectionId connection) { return absl::StrCat(kTransportNames, connection.value(), "."); }

std::string EncodeTransport(const KeptTransport& transport) {
  iwarp::v1::Transport message;
  message.set_handoff_secret(transport.secret.data(), transport.secret.size());
  message.set_connection_state(transport.state);
  return message.SerializeAsString();
}

std::optional<KeptTransport> DecodeTransport(const std::string& record) {
  iwarp::v1::Transport message;
  KeptTransport transport;
  if (!message.ParseFromString(record) || message.handoff_secret().size() != transport.secret.size()) {
    return std::nullopt;
  }
  if (!iwarp::DecodeConnectionState(message.connection_state()).ok()) return std::nullopt;
  std::copy(message.handoff_secret().begin(), message.handoff_secret().end(), transport.secret.begin());
  transport.state = std::move(*message.mutable_connection_state());
  return transport;
}

}  // namespace rdmabroker
