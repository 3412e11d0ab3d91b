// SPDX-License-Identifier: Apache-2.0

#include <string>

#include "broker/control/translation.h"

namespace rdmabroker {
namespace {

constexpr size_t kMaxHint = 1024;  // outcome.proto, Outcome.hint.

std::string StringOf(const Bytes& bytes) { return std::string(bytes.begin(), bytes.end()); }

std::string StringOf(const IpAddress& ip) {
  return std::string(ip.bytes.begin(), ip.bytes.begin() + (ip.family == IpFamily::kIpv4 ? 4 : 16));
}

// At most that many bytes, and no half of a UTF-8 character at the end, which protobuf would not take.
std::string FirstBytes(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  size_t size = most;
  while (size > 0 && (static_cast<uint8_t>(text[size]) & 0xC0) == 0x80) --size;
  return text.substr(0, size);
}

void ToProto(const AdapterInfo& info, v1::AdapterInfo* message) {
  message->mutable_version()->set_major(info.version.major);
  message->mutable_version()->set_minor(info.version.minor);
  message->set_vendor_id(info.vendor_id);
  message->set_device_id(info.device_id);
  message->set_max_registration_size(info.max_registration_size);
  message->set_max_window_size(info.max_window_size);
  message->set_frmr_page_count(info.frmr_page_count);
  message->set_max_initiator_request_sge(info.max_initiator_request_sge);
  message->set_max_receive_request_sge(info.max_receive_request_sge);
  message->set_max_read_request_sge(info.max_read_request_sge);
  message->set_max_transfer_length(info.max_transfer_length);
  message->set_max_inline_data_size(info.max_inline_data_size);
  message->set_max_inbound_read_limit(info.max_inbound_read_limit);
  message->set_max_outbound_read_limit(info.max_outbound_read_limit);
  message->set_max_receive_queue_depth(info.max_receive_queue_depth);
  message->set_max_initiator_queue_depth(info.max_initiator_queue_depth);
  message->set_max_srq_depth(info.max_srq_depth);
  message->set_max_cq_depth(info.max_cq_depth);
  message->set_large_request_threshold(info.large_request_threshold);
  message->set_max_caller_data(info.max_caller_data);
  message->set_max_callee_data(info.max_callee_data);
  message->set_adapter_flags(info.adapter_flags);
  message->set_technology(static_cast<v1::RdmaTechnology>(info.technology));
}

void ToProto(const QpAttributes& step, v1::QpAttributes* message) {
  message->set_mask(step.mask);
  message->set_qp_state(step.qp_state);
  message->set_path_mtu(step.path_mtu);
  message->set_qkey(step.qkey);
  message->set_rq_psn(step.rq_psn);
  message->set_sq_psn(step.sq_psn);
  message->set_dest_qp_number(step.dest_qp_number);
  message->set_access_flags(step.access_flags);
  message->set_pkey_index(step.pkey_index);
  message->set_port_number(step.port_number);
  message->set_max_outbound_reads(step.max_outbound_reads);
  message->set_max_inbound_reads(step.max_inbound_reads);
  message->set_min_rnr_timer(step.min_rnr_timer);
  message->set_timeout(step.timeout);
  message->set_retry_count(step.retry_count);
  message->set_rnr_retry(step.rnr_retry);
  message->set_destination_gid(step.destination_gid.data(), step.destination_gid.size());
  message->set_flow_label(step.flow_label);
  message->set_source_gid_index(step.source_gid_index);
  message->set_hop_limit(step.hop_limit);
  message->set_traffic_class(step.traffic_class);
  message->set_destination_lid(step.destination_lid);
  message->set_service_level(step.service_level);
  message->set_source_path_bits(step.source_path_bits);
  message->set_static_rate(step.static_rate);
  message->set_is_global(step.is_global);
}

void ToProto(const ConnectionData& data, v1::ConnectionData* message) {
  ToProto(data.local, message->mutable_local());
  ToProto(data.peer, message->mutable_peer());
  ToProto(data.limits, message->mutable_limits());
  message->set_private_data(StringOf(data.private_data));
  message->set_three_way(data.three_way);
  for (const QpAttributes& step : data.qp_attributes) ToProto(step, message->add_qp_attributes());
}

struct PayloadToProto {
  v1::Outcome* message;

  void operator()(std::monostate) const {}
  void operator()(const AdapterOpened& opened) const {
    auto* payload = message->mutable_adapter_opened();
    payload->set_adapter_id(opened.adapter.value());
    ToProto(opened.info, payload->mutable_info());
    payload->set_client_ends_connections(opened.client_ends_connections);
  }
  void operator()(const ListenerCreated& created) const {
    message->mutable_listener_created()->set_listener_id(created.listener.value());
  }
  void operator()(const Listening& listening) const {
    ToProto(listening.address, message->mutable_listening()->mutable_address());
  }
  void operator()(const SharedEndpointCreated& created) const {
    auto* payload = message->mutable_shared_endpoint_created();
    payload->set_shared_endpoint_id(created.shared_endpoint.value());
    ToProto(created.address, payload->mutable_address());
  }
  void operator()(const PortReserved& reserved) const {
    auto* payload = message->mutable_port_reserved();
    payload->set_reservation_id(reserved.reservation.value());
    ToProto(reserved.address, payload->mutable_address());
  }
  void operator()(const ConnectorCreated& created) const {
    message->mutable_connector_created()->set_connector_id(created.connector.value());
  }
  void operator()(const ConnectionData& data) const { ToProto(data, message->mutable_connection_data()); }
  void operator()(const ConnectionEstablished& established) const {
    auto* payload = message->mutable_connection_established();
    ToProto(established.limits, payload->mutable_limits());
    if (established.handoff) payload->set_handoff_secret(SecretToBytes(*established.handoff));
  }
};

struct EventToProto {
  v1::SessionEvent* message;

  void operator()(const OutcomeEvent& event) const {
    message->mutable_outcome()->set_request_id(event.request.value());
    ToProto(event.outcome, message->mutable_outcome()->mutable_outcome());
  }
  void operator()(const ConnectEvent& event) const {
    message->mutable_connect()->set_listener_id(event.listener.value());
    message->mutable_connect()->set_connector_id(event.connector.value());
    ToProto(event.data, message->mutable_connect()->mutable_data());
  }
  void operator()(const DisconnectEvent& event) const {
    message->mutable_disconnect()->set_connector_id(event.connector.value());
    message->mutable_disconnect()->set_status(ToProto(event.status));
    message->mutable_disconnect()->set_provider_error(event.provider_error);
  }
  void operator()(const AdapterRemovedEvent& event) const {
    message->mutable_adapter_removed()->set_adapter_id(event.adapter.value());
  }
  void operator()(const AdapterDisabledEvent& event) const {
    message->mutable_adapter_disabled()->set_adapter_id(event.adapter.value());
  }
};

}  // namespace

v1::NdkStatus ToProto(NdkStatus status) { return static_cast<v1::NdkStatus>(static_cast<uint32_t>(status)); }

v1::PortSpace ToProto(PortSpace space) {
  return space == PortSpace::kTcp ? v1::PORT_SPACE_TCP : v1::PORT_SPACE_RDMA_CM;
}

void ToProto(const ReadLimits& limits, v1::ReadLimits* message) {
  message->set_inbound(limits.inbound);
  message->set_outbound(limits.outbound);
}

void ToProto(const SocketAddress& address, v1::SocketAddress* message) {
  message->set_ip(StringOf(address.ip));
  message->set_port(address.port);
  message->set_scope_id(address.ip.scope_id);
}

void ToProto(const Outcome& outcome, v1::Outcome* message) {
  message->set_status(ToProto(outcome.status));
  message->set_provider_error(outcome.provider_error);
  message->set_retryable(outcome.retryable);
  message->set_retry_same_qp(outcome.retry_same_qp);
  message->set_hint(FirstBytes(outcome.hint, kMaxHint));
  std::visit(PayloadToProto{message}, outcome.payload);
}

void ToProto(const NumberedEvent& event, v1::SessionEvent* message) {
  message->set_number(event.number.value());
  std::visit(EventToProto{message}, event.event);
}

void ToProto(const Limits& limits, v1::Limits* message) {
  const auto milliseconds = [](absl::Duration duration) {
    return static_cast<uint32_t>(absl::ToInt64Milliseconds(duration));
  };
  message->set_sessions_per_uid(limits.sessions_per_uid);
  message->set_adapters_per_session(limits.adapters_per_session);
  message->set_listeners_per_session(limits.listeners_per_session);
  message->set_shared_endpoints_per_session(limits.shared_endpoints_per_session);
  message->set_reservations_per_session(limits.reservations_per_session);
  message->set_connectors_per_session(limits.connectors_per_session);
  message->set_answers_kept(limits.answers_kept);
  message->set_events_kept(limits.events_kept);
  message->set_backlog(limits.backlog);
  message->set_connect_timeout_ms(milliseconds(limits.connect_timeout));
  message->set_establish_timeout_ms(milliseconds(limits.establish_timeout));
  message->set_disconnect_timeout_ms(milliseconds(limits.disconnect_timeout));
  message->set_handoff_timeout_ms(milliseconds(limits.handoff_timeout));
  message->set_session_grace_ms(milliseconds(limits.session_grace));
  message->set_first_ephemeral_port(limits.first_ephemeral_port);
  message->set_last_ephemeral_port(limits.last_ephemeral_port);
  message->set_endpoints_per_uid(limits.endpoints_per_uid);
  message->set_first_unprivileged_port(limits.first_unprivileged_port);
  message->set_objects_per_uid(limits.objects_per_uid);
  message->set_accept_on_closing_listener(limits.accept_on_closing_listener);
}

void ToProto(const DeviceRecord& record, v1::Device* message) {
  const Device& device = record.device;
  message->set_name(device.name);
  ToProto(device.info, message->mutable_info());
  for (const IpAddress& ip : device.addresses) {
    v1::IpAddress* address = message->add_addresses();
    address->set_ip(StringOf(ip));
    address->set_scope_id(ip.scope_id);
  }
  message->set_port_space(ToProto(device.port_space));
  message->set_network_namespace(device.network_namespace);
  message->set_client_ends_connections(device.client_ends_connections);
  message->set_unusable_reason(WhyUnusable(record));
  message->set_usable(message->unusable_reason().empty());
}

v1::DeviceState ToState(const DeviceRecord& record) {
  if (!record.disabled) return v1::DEVICE_STATE_ENABLED;
  return record.adapters == 0 ? v1::DEVICE_STATE_DISABLED : v1::DEVICE_STATE_DISABLING;
}

}  // namespace rdmabroker
