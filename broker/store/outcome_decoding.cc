// SPDX-License-Identifier: Apache-2.0

#include "broker/store/value_codec.h"

namespace rdmabroker::store {
namespace {

AdapterOpened Read(const Field& field, const wire::AdapterOpened& message) {
  return {AdapterId(message.adapter_id()), Read(Field(field, "info"), message.info()),
          message.client_ends_connections()};
}

ConnectionEstablished Read(const Field& field, const wire::ConnectionEstablished& message) {
  ConnectionEstablished established{.limits = Read(Field(field, "limits"), message.limits())};
  if (message.handoff_secret().empty()) return established;
  Field(field, "handoff_secret").Fill(message.handoff_secret(), established.handoff.emplace());
  return established;
}

Payload ReadPayload(const Field& outer, const v1::Outcome& message) {
  switch (message.payload_case()) {
    case v1::Outcome::kAdapterOpened:
      return Read(Field(outer, "adapter_opened"), message.adapter_opened());
    case v1::Outcome::kListenerCreated:
      return ListenerCreated{ListenerId(message.listener_created().listener_id())};
    case v1::Outcome::kListening:
      return Listening{Read(Field(Field(outer, "listening"), "address"), message.listening().address())};
    case v1::Outcome::kSharedEndpointCreated: {
      const auto& created = message.shared_endpoint_created();
      return SharedEndpointCreated{SharedEndpointId(created.shared_endpoint_id()),
                                   Read(Field(Field(outer, "shared_endpoint_created"), "address"), created.address())};
    }
    case v1::Outcome::kPortReserved: {
      const auto& reserved = message.port_reserved();
      return PortReserved{ReservationId(reserved.reservation_id()),
                          Read(Field(Field(outer, "port_reserved"), "address"), reserved.address())};
    }
    case v1::Outcome::kConnectorCreated:
      return ConnectorCreated{ConnectorId(message.connector_created().connector_id())};
    case v1::Outcome::kConnectionData:
      return Read(Field(outer, "connection_data"), message.connection_data());
    case v1::Outcome::kConnectionEstablished:
      return Read(Field(outer, "connection_established"), message.connection_established());
    case v1::Outcome::PAYLOAD_NOT_SET:
      break;
  }
  return {};
}

}  // namespace

Outcome Read(const Field& field, const v1::Outcome& message) {
  return {
      .status = Read(Field(field, "status"), message.status()),
      .payload = ReadPayload(field, message),
      .provider_error = message.provider_error(),
      .retryable = message.retryable(),
      .retry_same_qp = message.retry_same_qp(),
      .hint = message.hint(),
  };
}

}  // namespace rdmabroker::store
