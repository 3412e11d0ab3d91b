// SPDX-License-Identifier: Apache-2.0

#include "broker/store/value_codec.h"

namespace rdmabroker::store {
namespace {

struct RequestToProto {
  v1::Request* message;

  void operator()(const OpenAdapter& request) const {
    message->mutable_open_adapter()->set_device(request.device);
    ToProto(request.version, message->mutable_open_adapter()->mutable_version());
  }
  void operator()(const CloseAdapter& request) const {
    message->mutable_close_adapter()->set_adapter_id(request.adapter.value());
  }
  void operator()(const CreateListener& request) const {
    message->mutable_create_listener()->set_adapter_id(request.adapter.value());
  }
  void operator()(const Listen& request) const {
    auto* listen = message->mutable_listen();
    listen->set_listener_id(request.listener.value());
    ToProto(request.address, listen->mutable_address());
    listen->set_reservation_id(request.reservation.value());
  }
  void operator()(const ControlConnectEvents& request) const {
    message->mutable_control_connect_events()->set_listener_id(request.listener.value());
    message->mutable_control_connect_events()->set_pause(request.pause);
  }
  void operator()(const CloseListener& request) const {
    message->mutable_close_listener()->set_listener_id(request.listener.value());
  }
  void operator()(const CreateSharedEndpoint& request) const {
    auto* create = message->mutable_create_shared_endpoint();
    create->set_adapter_id(request.adapter.value());
    ToProto(request.address, create->mutable_address());
    create->set_reservation_id(request.reservation.value());
  }
  void operator()(const CloseSharedEndpoint& request) const {
    message->mutable_close_shared_endpoint()->set_shared_endpoint_id(request.shared_endpoint.value());
  }
  void operator()(const ReservePort& request) const {
    message->mutable_reserve_port()->set_adapter_id(request.adapter.value());
    ToProto(request.address, message->mutable_reserve_port()->mutable_address());
  }
  void operator()(const ReleasePort& request) const {
    message->mutable_release_port()->set_reservation_id(request.reservation.value());
  }
  void operator()(const CreateConnector& request) const {
    message->mutable_create_connector()->set_adapter_id(request.adapter.value());
  }
  void operator()(const Connect& request) const {
    auto* connect = message->mutable_connect();
    connect->set_connector_id(request.connector.value());
    connect->set_qp_number(request.qp.value);
    ToProto(request.source, connect->mutable_source());
    ToProto(request.destination, connect->mutable_destination());
    ToProto(request.limits, connect->mutable_limits());
    connect->set_private_data(BytesToProto(request.private_data));
  }
  void operator()(const ConnectWithSharedEndpoint& request) const {
    auto* connect = message->mutable_connect_with_shared_endpoint();
    connect->set_connector_id(request.connector.value());
    connect->set_qp_number(request.qp.value);
    connect->set_shared_endpoint_id(request.shared_endpoint.value());
    ToProto(request.destination, connect->mutable_destination());
    ToProto(request.limits, connect->mutable_limits());
    connect->set_private_data(BytesToProto(request.private_data));
  }
  void operator()(const CompleteConnect& request) const {
    message->mutable_complete_connect()->set_connector_id(request.connector.value());
  }
  void operator()(const Accept& request) const {
    auto* accept = message->mutable_accept();
    accept->set_connector_id(request.connector.value());
    accept->set_qp_number(request.qp.value);
    ToProto(request.limits, accept->mutable_limits());
    accept->set_private_data(BytesToProto(request.private_data));
  }
  void operator()(const Reject& request) const {
    message->mutable_reject()->set_connector_id(request.connector.value());
    message->mutable_reject()->set_private_data(BytesToProto(request.private_data));
  }
  void operator()(const Disconnect& request) const {
    message->mutable_disconnect()->set_connector_id(request.connector.value());
  }
  void operator()(const GetConnectionData& request) const {
    message->mutable_get_connection_data()->set_connector_id(request.connector.value());
  }
  void operator()(const ReportConnectionEnd& request) const {
    auto* report = message->mutable_report_connection_end();
    report->set_connector_id(request.connector.value());
    report->set_graceful(request.graceful);
    report->set_provider_error(request.provider_error);
  }
  void operator()(const CloseConnector& request) const {
    message->mutable_close_connector()->set_connector_id(request.connector.value());
  }
};

}  // namespace

void ToProto(const Request& request, v1::Request* message) { std::visit(RequestToProto{message}, request); }

}  // namespace rdmabroker::store
