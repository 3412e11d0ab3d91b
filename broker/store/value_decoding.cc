// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <limits>
#include <optional>

#include "broker/store/enumerations.h"
#include "broker/store/value_codec.h"

namespace rdmabroker::store {
namespace {

IpAddress ReadIp(const Field& field, const std::string& bytes, uint32_t scope_id) {
  if (bytes.size() != 4 && bytes.size() != 16) {
    field.Complain(bytes.size(), " bytes; 4 for IPv4, 16 for IPv6");
    return {};
  }
  IpAddress ip{.family = bytes.size() == 4 ? IpFamily::kIpv4 : IpFamily::kIpv6, .scope_id = scope_id};
  std::copy(bytes.begin(), bytes.end(), ip.bytes.begin());
  return ip;
}

}  // namespace

Instant ReadTime(int64_t nanoseconds) {
  if (nanoseconds == std::numeric_limits<int64_t>::min()) return absl::InfinitePast();
  if (nanoseconds == std::numeric_limits<int64_t>::max()) return absl::InfiniteFuture();
  return absl::FromUnixNanos(nanoseconds);
}

NdkStatus Read(const Field& field, wire::NdkStatus status) {
  const std::optional<NdkStatus> known = StatusFromNumber(static_cast<uint32_t>(status));
  if (!known) field.Complain(static_cast<int>(status), " is no status");
  return known.value_or(NdkStatus::kInternalError);
}

PortSpace Read(const Field& field, wire::PortSpace space) { return Read(field, kPortSpaces, space); }
AddressNews Read(const Field& field, v1::AddressNews news) { return Read(field, kAddressNews, news); }
ListenerState Read(const Field& field, v1::ListenerState state) { return Read(field, kListenerStates, state); }
ConnectorState Read(const Field& field, v1::ConnectorState state) { return Read(field, kConnectorStates, state); }
EndpointState Read(const Field& field, v1::EndpointState state) { return Read(field, kEndpointStates, state); }
EndpointUse Read(const Field& field, v1::EndpointUse use) { return Read(field, kEndpointUses, use); }
Farewell Read(const Field& field, v1::Farewell farewell) { return Read(field, kFarewells, farewell); }

Bytes ReadBytes(const std::string& bytes) { return Bytes(bytes.begin(), bytes.end()); }

IpAddress Read(const Field& field, const wire::IpAddress& message) {
  return ReadIp(Field(field, "ip"), message.ip(), message.scope_id());
}

SocketAddress Read(const Field& field, const wire::SocketAddress& message) {
  return {ReadIp(Field(field, "ip"), message.ip(), message.scope_id()),
          Field(field, "port").Narrow<uint16_t>(message.port())};
}

NdkVersion Read(const Field& field, const wire::NdkVersion& message) {
  return {Field(field, "major").Narrow<uint16_t>(message.major()),
          Field(field, "minor").Narrow<uint16_t>(message.minor())};
}

AdapterInfo Read(const Field& field, const wire::AdapterInfo& message) {
  return {
      .version = Read(Field(field, "version"), message.version()),
      .vendor_id = message.vendor_id(),
      .device_id = message.device_id(),
      .max_registration_size = message.max_registration_size(),
      .max_window_size = message.max_window_size(),
      .frmr_page_count = message.frmr_page_count(),
      .max_initiator_request_sge = message.max_initiator_request_sge(),
      .max_receive_request_sge = message.max_receive_request_sge(),
      .max_read_request_sge = message.max_read_request_sge(),
      .max_transfer_length = message.max_transfer_length(),
      .max_inline_data_size = message.max_inline_data_size(),
      .max_inbound_read_limit = message.max_inbound_read_limit(),
      .max_outbound_read_limit = message.max_outbound_read_limit(),
      .max_receive_queue_depth = message.max_receive_queue_depth(),
      .max_initiator_queue_depth = message.max_initiator_queue_depth(),
      .max_srq_depth = message.max_srq_depth(),
      .max_cq_depth = message.max_cq_depth(),
      .large_request_threshold = message.large_request_threshold(),
      .max_caller_data = message.max_caller_data(),
      .max_callee_data = message.max_callee_data(),
      .adapter_flags = message.adapter_flags(),
      .technology = Read(Field(field, "technology"), kTechnologies, message.technology()),
  };
}

ReadLimits Read(const Field&, const wire::ReadLimits& message) { return {message.inbound(), message.outbound()}; }

QpAttributes Read(const Field& field, const wire::QpAttributes& message) {
  QpAttributes step{
      .mask = message.mask(),
      .qp_state = message.qp_state(),
      .path_mtu = message.path_mtu(),
      .qkey = message.qkey(),
      .rq_psn = message.rq_psn(),
      .sq_psn = message.sq_psn(),
      .dest_qp_number = message.dest_qp_number(),
      .access_flags = message.access_flags(),
      .pkey_index = message.pkey_index(),
      .port_number = message.port_number(),
      .max_outbound_reads = message.max_outbound_reads(),
      .max_inbound_reads = message.max_inbound_reads(),
      .min_rnr_timer = message.min_rnr_timer(),
      .timeout = message.timeout(),
      .retry_count = message.retry_count(),
      .rnr_retry = message.rnr_retry(),
      .flow_label = message.flow_label(),
      .source_gid_index = message.source_gid_index(),
      .hop_limit = message.hop_limit(),
      .traffic_class = message.traffic_class(),
      .destination_lid = message.destination_lid(),
      .service_level = message.service_level(),
      .source_path_bits = message.source_path_bits(),
      .static_rate = message.static_rate(),
      .is_global = message.is_global(),
  };
  Field(field, "destination_gid").Fill(message.destination_gid(), step.destination_gid);
  return step;
}

ConnectionData Read(const Field& field, const wire::ConnectionData& message) {
  return {
      .local = Read(Field(field, "local"), message.local()),
      .peer = Read(Field(field, "peer"), message.peer()),
      .limits = Read(Field(field, "limits"), message.limits()),
      .private_data = ReadBytes(message.private_data()),
      .three_way = message.three_way(),
      .qp_attributes = ReadAll<QpAttributes>(field, "qp_attributes", message.qp_attributes()),
  };
}

}  // namespace rdmabroker::store
