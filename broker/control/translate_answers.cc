// SPDX-License-Identifier: Apache-2.0

#include <string>
#include <variant>

#include "broker/control/translation.h"
#include "broker/wire/outcomes.h"
#include "dataplane/provider_error.h"

namespace rdmabroker {
namespace {

constexpr size_t kMaxHint = 1024;  // outcome.proto, Outcome.hint.

// The contract's limit, without half of a UTF-8 character at the end, which protobuf would not take.
void ShortenHint(v1::Outcome* outcome) {
  std::string* hint = outcome->mutable_hint();
  if (hint->size() <= kMaxHint) return;
  size_t size = kMaxHint;
  while (size > 0 && (static_cast<uint8_t>((*hint)[size]) & 0xC0) == 0x80) --size;
  hint->resize(size);
}

}  // namespace

void ToProto(const Outcome& outcome, v1::Outcome* message) {
  FillOutcome(outcome, message);
  ShortenHint(message);
}

void ToProto(const NumberedEvent& event, v1::SessionEvent* message) {
  message->set_number(event.number.value());
  FillEvent(event.event, message);
  if (message->has_outcome()) ShortenHint(message->mutable_outcome()->mutable_outcome());
  if (const auto* end = std::get_if<DisconnectEvent>(&event.event)) {
    message->mutable_disconnect()->set_hint(ConnectionEndText(end->status, end->provider_error));
  }
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
  message->set_kept_bytes_per_uid(limits.kept_bytes_per_uid);
  message->set_accept_on_closing_listener(limits.accept_on_closing_listener);
}

void ToProto(const DeviceRecord& record, v1::Device* message) {
  const Device& device = record.device;
  message->set_name(device.name);
  ToProto(device.info, message->mutable_info());
  for (const IpAddress& ip : device.addresses) ShowAddress(ip, message->add_addresses());
  message->set_port_space(ToProto(device.port_space));
  message->set_network_namespace(device.network_namespace);
  message->set_client_ends_connections(device.client_ends_connections);
  message->set_unusable_reason(WhyUnusable(record));
  message->set_usable(message->unusable_reason().empty());
  message->set_mtu(device.mtu);
}

v1::DeviceState ToState(const DeviceRecord& record) {
  if (!record.disabled) return v1::DEVICE_STATE_ENABLED;
  return record.adapters == 0 ? v1::DEVICE_STATE_DISABLED : v1::DEVICE_STATE_DISABLING;
}

}  // namespace rdmabroker
