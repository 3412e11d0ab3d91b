// SPDX-License-Identifier: Apache-2.0

#include "broker/wire/values.h"

namespace rdmabroker {
namespace {

std::string IpBytes(const IpAddress& ip) {
  return std::string(ip.bytes.begin(), ip.bytes.begin() + (ip.family == IpFamily::kIpv4 ? 4 : 16));
}

}  // namespace

v1::NdkStatus ToProto(NdkStatus status) { return static_cast<v1::NdkStatus>(static_cast<uint32_t>(status)); }

v1::PortSpace ToProto(PortSpace space) {
  return space == PortSpace::kTcp ? v1::PORT_SPACE_TCP : v1::PORT_SPACE_RDMA_CM;
}

void ToProto(const IpAddress& ip, v1::IpAddress* message) {
  message->set_ip(IpBytes(ip));
  message->set_scope_id(ip.scope_id);
}

void ToProto(const SocketAddress& address, v1::SocketAddress* message) {
  message->set_ip(IpBytes(address.ip));
  message->set_port(address.port);
  message->set_scope_id(address.ip.scope_id);
}

void ToProto(const NdkVersion& version, v1::NdkVersion* message) {
  message->set_major(version.major);
  message->set_minor(version.minor);
}

void ToProto(const AdapterInfo& info, v1::AdapterInfo* message) {
  ToProto(info.version, message->mutable_version());
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

void ToProto(const ReadLimits& limits, v1::ReadLimits* message) {
  message->set_inbound(limits.inbound);
  message->set_outbound(limits.outbound);
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
  message->set_destination_gid(BytesToProto(step.destination_gid));
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
  message->set_private_data(BytesToProto(data.private_data));
  message->set_three_way(data.three_way);
  for (const QpAttributes& step : data.qp_attributes) ToProto(step, message->add_qp_attributes());
}

}  // namespace rdmabroker
