// SPDX-License-Identifier: Apache-2.0

// Requests and outcomes.

#include "broker/store/value_codec.h"

namespace rdmabroker::store {
namespace {

OpenAdapter Read(const Field& field, const v1::OpenAdapter& message) {
  return {message.device(), Read(Field(field, "version"), message.version())};
}

Listen Read(const Field& field, const wire::ListenRequest& message) {
  return {ListenerId(message.listener_id()), Read(Field(field, "address"), message.address()),
          ReservationId(message.reservation_id())};
}

CreateSharedEndpoint Read(const Field& field, const wire::CreateSharedEndpointRequest& message) {
  return {AdapterId(message.adapter_id()), Read(Field(field, "address"), message.address()),
          ReservationId(message.reservation_id())};
}

ReservePort Read(const Field& field, const wire::ReservePortRequest& message) {
  return {AdapterId(message.adapter_id()), Read(Field(field, "address"), message.address())};
}

Connect Read(const Field& field, const wire::ConnectRequest& message) {
  return {
      .connector = ConnectorId(message.connector_id()),
      .qp = {message.qp_number()},
      .source = Read(Field(field, "source"), message.source()),
      .destination = Read(Field(field, "destination"), message.destination()),
      .limits = Read(Field(field, "limits"), message.limits()),
      .private_data = ReadBytes(message.private_data()),
  };
}

ConnectWithSharedEndpoint Read(const Field& field, const wire::ConnectWithSharedEndpointRequest& message) {
  return {
      .connector = ConnectorId(message.connector_id()),
      .qp = {message.qp_number()},
      .shared_endpoint = SharedEndpointId(message.shared_endpoint_id()),
      .destination = Read(Field(field, "destination"), message.destination()),
      .limits = Read(Field(field, "limits"), message.limits()),
      .private_data = ReadBytes(message.private_data()),
  };
}

Accept Read(const Field& field, const wire::AcceptRequest& message) {
  return {
      .connector = ConnectorId(message.connector_id()),
      .qp = {message.qp_number()},
      .limits = Read(Field(field, "limits"), message.limits()),
      .private_data = ReadBytes(message.private_data()),
  };
}

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

Request Read(const Field& field, const v1::Request& message) {
  switch (message.request_case()) {
    case v1::Request::kOpenAdapter:
      return Read(Field(field, "open_adapter"), message.open_adapter());
    case v1::Request::kCloseAdapter:
      return CloseAdapter{AdapterId(message.close_adapter().adapter_id())};
    case v1::Request::kCreateListener:
      return CreateListener{AdapterId(message.create_listener().adapter_id())};
    case v1::Request::kListen:
      return Read(Field(field, "listen"), message.listen());
    case v1::Request::kControlConnectEvents:
      return ControlConnectEvents{ListenerId(message.control_connect_events().listener_id()),
                                  message.control_connect_events().pause()};
    case v1::Request::kCloseListener:
      return CloseListener{ListenerId(message.close_listener().listener_id())};
    case v1::Request::kCreateSharedEndpoint:
      return Read(Field(field, "create_shared_endpoint"), message.create_shared_endpoint());
    case v1::Request::kCloseSharedEndpoint:
      return CloseSharedEndpoint{SharedEndpointId(message.close_shared_endpoint().shared_endpoint_id())};
    case v1::Request::kReservePort:
      return Read(Field(field, "reserve_port"), message.reserve_port());
    case v1::Request::kReleasePort:
      return ReleasePort{ReservationId(message.release_port().reservation_id())};
    case v1::Request::kCreateConnector:
      return CreateConnector{AdapterId(message.create_connector().adapter_id())};
    case v1::Request::kConnect:
      return Read(Field(field, "connect"), message.connect());
    case v1::Request::kConnectWithSharedEndpoint:
      return Read(Field(field, "connect_with_shared_endpoint"), message.connect_with_shared_endpoint());
    case v1::Request::kCompleteConnect:
      return CompleteConnect{ConnectorId(message.complete_connect().connector_id())};
    case v1::Request::kAccept:
      return Read(Field(field, "accept"), message.accept());
    case v1::Request::kReject:
      return Reject{ConnectorId(message.reject().connector_id()), ReadBytes(message.reject().private_data())};
    case v1::Request::kDisconnect:
      return Disconnect{ConnectorId(message.disconnect().connector_id())};
    case v1::Request::kGetConnectionData:
      return GetConnectionData{ConnectorId(message.get_connection_data().connector_id())};
    case v1::Request::kReportConnectionEnd:
      return ReportConnectionEnd{ConnectorId(message.report_connection_end().connector_id()),
                                 message.report_connection_end().graceful(),
                                 message.report_connection_end().provider_error()};
    case v1::Request::kCloseConnector:
      return CloseConnector{ConnectorId(message.close_connector().connector_id())};
    case v1::Request::REQUEST_NOT_SET:
      break;
  }
  field.Complain("missing");
  return {};
}

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
