// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/iwarp/waiting_connect.h"

#include "broker/fabric/iwarp/records.pb.h"

namespace rdmabroker {

std::string EncodeWaiting(const FabricConnect& request) {
  iwarp::v1::WaitingConnect message;
  message.set_session(request.session.value());
  message.set_inbound_limit(request.limits.inbound);
  message.set_outbound_limit(request.limits.outbound);
  message.set_private_data(request.private_data.data(), request.private_data.size());
  message.set_any_port(request.any_port);
  return message.SerializeAsString();
}

std::optional<FabricConnect> DecodeWaiting(const std::string& record, const FabricAdoptConnection& adopted) {
  iwarp::v1::WaitingConnect message;
  if (!message.ParseFromString(record) || message.session() == 0) return std::nullopt;
  return FabricConnect{.device = adopted.device,
                       .connection = adopted.connection,
                       .endpoint = adopted.endpoint,
                       .session = SessionId(message.session()),
                       .qp = {},
                       .local = adopted.local,
                       .peer = adopted.peer,
                       .limits = {.inbound = message.inbound_limit(), .outbound = message.outbound_limit()},
                       .private_data = Bytes(message.private_data().begin(), message.private_data().end()),
                       .any_port = message.any_port()};
}

}  // namespace rdmabroker
