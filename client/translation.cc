// SPDX-License-Identifier: Apache-2.0

#include "client/translation.h"

#include <algorithm>

namespace rdmabroker::client {
namespace {

// Outcome.hint's own limit; more would be the broker's fault and the consumer's memory.
constexpr size_t kMaxHint = 1024;

std::optional<rdmabroker::IpAddress> FromBytes(const std::string& bytes, uint32_t scope_id) {
  rdmabroker::IpAddress ip;
  if (bytes.size() != 4 && bytes.size() != 16) return std::nullopt;
  ip.family = bytes.size() == 4 ? IpFamily::kIpv4 : IpFamily::kIpv6;
  std::copy(bytes.begin(), bytes.end(), ip.bytes.begin());
  ip.scope_id = scope_id;
  return ip;
}

}  // namespace

v1::SocketAddress ToMessage(const SocketAddress& address) {
  v1::SocketAddress message;
  const size_t length = address.ip.family == IpFamily::kIpv4 ? 4 : 16;
  message.set_ip(std::string(address.ip.bytes.begin(), address.ip.bytes.begin() + static_cast<ptrdiff_t>(length)));
  message.set_port(address.port);
  message.set_scope_id(address.ip.scope_id);
  return message;
}

v1::ReadLimits ToMessage(const ReadLimits& limits) {
  v1::ReadLimits message;
  message.set_inbound(limits.inbound);
  message.set_outbound(limits.outbound);
  return message;
}

v1::ConnectionOptions ToMessage(const ConnectionOptions& options) {
  v1::ConnectionOptions message;
  message.set_rnr_retry_count(options.rnr_retry_count);
  return message;
}

v1::NdkVersion ToMessage(const NdkVersion& version) {
  v1::NdkVersion message;
  message.set_major(version.major);
  message.set_minor(version.minor);
  return message;
}

NdkStatus FromMessage(v1::NdkStatus status) {
  const auto number = static_cast<uint32_t>(static_cast<int32_t>(status));
  return StatusFromNumber(number).value_or(NdkStatus::kUnsuccessful);
}

std::optional<rdmabroker::IpAddress> FromMessage(const v1::IpAddress& address) {
  return FromBytes(address.ip(), address.scope_id());
}

std::optional<SocketAddress> FromMessage(const v1::SocketAddress& address) {
  const auto ip = FromBytes(address.ip(), address.scope_id());
  if (!ip.has_value() || address.port() > UINT16_MAX) return std::nullopt;
  return SocketAddress{*ip, static_cast<uint16_t>(address.port())};
}

ReadLimits FromMessage(const v1::ReadLimits& limits) {
  return {.inbound = limits.inbound(), .outbound = limits.outbound()};
}

AdapterInfo FromMessage(const v1::AdapterInfo& info) {
  return {
      .version = {static_cast<uint16_t>(info.version().major()), static_cast<uint16_t>(info.version().minor())},
      .vendor_id = info.vendor_id(),
      .device_id = info.device_id(),
      .max_registration_size = info.max_registration_size(),
      .max_window_size = info.max_window_size(),
      .frmr_page_count = info.frmr_page_count(),
      .max_initiator_request_sge = info.max_initiator_request_sge(),
      .max_receive_request_sge = info.max_receive_request_sge(),
      .max_read_request_sge = info.max_read_request_sge(),
      .max_transfer_length = info.max_transfer_length(),
      .max_inline_data_size = info.max_inline_data_size(),
      .max_inbound_read_limit = info.max_inbound_read_limit(),
      .max_outbound_read_limit = info.max_outbound_read_limit(),
      .max_receive_queue_depth = info.max_receive_queue_depth(),
      .max_initiator_queue_depth = info.max_initiator_queue_depth(),
      .max_srq_depth = info.max_srq_depth(),
      .max_cq_depth = info.max_cq_depth(),
      .large_request_threshold = info.large_request_threshold(),
      .max_caller_data = info.max_caller_data(),
      .max_callee_data = info.max_callee_data(),
      .adapter_flags = info.adapter_flags(),
      .technology = static_cast<RdmaTechnology>(info.technology()),
  };
}

Device FromMessage(const v1::Device& device) {
  Device result = {
      .name = device.name(),
      .info = FromMessage(device.info()),
      .port_space = static_cast<PortSpace>(device.port_space()),
      .network_namespace = device.network_namespace(),
      .client_ends_connections = device.client_ends_connections(),
      .usable = device.usable(),
      .unusable_reason = device.unusable_reason(),
      .mtu = device.mtu(),
  };
  for (const v1::IpAddress& address : device.addresses()) {
    if (const auto ip = FromMessage(address); ip.has_value()) result.addresses.push_back(*ip);
  }
  return result;
}

std::optional<ConnectionData> FromMessage(const v1::ConnectionData& data) {
  const auto local = FromMessage(data.local());
  const auto peer = FromMessage(data.peer());
  if (!local.has_value() || !peer.has_value()) return std::nullopt;
  return ConnectionData{
      .local = *local,
      .peer = *peer,
      .limits = FromMessage(data.limits()),
      .private_data = data.private_data(),
      .three_way = data.three_way(),
  };
}

Outcome FromMessage(const v1::Outcome& outcome) {
  return {
      .status = FromMessage(outcome.status()),
      .provider_error = outcome.provider_error(),
      .retryable = outcome.retryable(),
      .retry_same_qp = outcome.retry_same_qp(),
      .hint = outcome.hint().substr(0, kMaxHint),
  };
}

// By RFC 3629, so no surrogates, none beyond U+10FFFF, and none that is written with more bytes than it needs.
bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const auto lead = static_cast<unsigned char>(text.front());
    const size_t bytes = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4 || text.size() < bytes) return false;
    char32_t code = lead & (0xff >> bytes);
    for (const char each : text.substr(1, bytes - 1)) {
      const auto byte = static_cast<unsigned char>(each);
      if ((byte & 0xc0) != 0x80) return false;
      code = code << 6 | (byte & 0x3f);
    }
    const bool longer_than_needed = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
    if (longer_than_needed || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

Outcome BrokenPromise(std::string_view what) {
  return {.status = NdkStatus::kInternalError,
          .hint = "the broker's answer " + std::string(what) + "; client and broker do not fit together"};
}

}  // namespace rdmabroker::client
