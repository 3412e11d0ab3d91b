// SPDX-License-Identifier: Apache-2.0

#include "broker/core/overloaded.h"
#include "broker/store/record_codec.h"
#include "broker/store/value_codec.h"
#include "broker/wire/outcomes.h"

namespace rdmabroker::store {
namespace {

void ToProto(const ObjectRecord& record, v1::Object* message) {
  message->set_session(record.session.value());
  message->set_adapter(record.adapter.value());
  message->set_last_event(record.last_event.value());
  message->set_successors(record.successors);
  message->set_closing(record.closing);
  message->set_close_request(record.close_request.value());
  message->set_ready(record.ready);
  message->set_endpoint(record.endpoint.value());
  message->set_left_endpoint(record.left_endpoint);
}

}  // namespace

void ToProto(const Counters& counters, v1::Counters* message) {
  message->set_session(counters.session);
  message->set_adapter(counters.adapter);
  message->set_listener(counters.listener);
  message->set_shared_endpoint(counters.shared_endpoint);
  message->set_reservation(counters.reservation);
  message->set_connector(counters.connector);
  message->set_endpoint(counters.endpoint);
  message->set_connection(counters.connection);
  message->set_ephemeral_port(counters.ephemeral_port);
  message->set_id_key(counters.id_key);
}

void ToProto(const DeviceRecord& record, v1::Device* message) {
  const Device& device = record.device;
  message->set_id(device.id.value());
  message->set_name(device.name);
  ToProto(device.info, message->mutable_info());
  message->set_network_namespace(device.network_namespace);
  message->set_port_space(ToProto(device.port_space));
  for (const IpAddress& ip : device.addresses) ToProto(ip, message->add_addresses());
  message->set_client_ends_connections(device.client_ends_connections);
  message->set_keeps_qps_until_released(device.keeps_qps_until_released);
  message->set_unusable_reason(device.unusable_reason);
  message->set_mtu(device.mtu);
  message->set_connects(record.counts.connects);
  message->set_accepts(record.counts.accepts);
  message->set_connect_failures(record.counts.connect_failures);
  message->set_connection_errors(record.counts.connection_errors);
  message->set_disabled(record.disabled);
  message->set_removed(record.removed);
  message->set_adapters(record.adapters);
  message->set_endpoints(record.endpoints);
  message->set_connections(record.connections);
}

void ToProto(const SessionRecord& record, v1::Session* message) {
  message->set_id(record.id.value());
  message->set_uid(record.identity.uid);
  message->set_gid(record.identity.gid);
  message->set_pid(record.identity.pid);
  message->set_secret(BytesToProto(record.secret));
  message->set_stream(record.stream.value());
  message->set_ended(record.ended);
  message->set_deadline(ToProto(record.deadline));
  if (record.returned != absl::InfinitePast()) message->set_returned(ToProto(record.returned));
  message->set_last_event(record.last_event.value());
  message->set_dropped(record.dropped.value());
  message->set_acknowledged(record.acknowledged.value());
  message->set_newest_request(record.newest_request.value());
  message->set_adapters(record.adapters);
  message->set_listeners(record.listeners);
  message->set_shared_endpoints(record.shared_endpoints);
  message->set_reservations(record.reservations);
  message->set_connectors(record.connectors);
  message->set_answers_kept(record.answers_kept);
  message->set_address_news(ToProto(record.address_news));
}

void ToProto(const KeptAnswer& answer, v1::Answer* message) {
  message->set_id(answer.id.value());
  if (answer.request) message->set_request_digest(BytesToProto(*answer.request));
  FillOutcome(answer.outcome, message->mutable_outcome());
}

void ToProto(const SessionEvent& event, v1::Event* message) { FillEvent(event, message); }

void ToProto(const AdapterRecord& record, v1::Adapter* message) {
  message->set_id(record.id.value());
  ToProto(record, message->mutable_object());
  message->set_device(record.device.value());
  ToProto(record.requested, message->mutable_requested());
  message->set_told_disabled(record.told_disabled);
}

void ToProto(const ListenerRecord& record, v1::Listener* message) {
  message->set_id(record.id.value());
  ToProto(record, message->mutable_object());
  message->set_state(ToProto(record.state));
  message->set_paused(record.paused);
  message->set_pending(record.pending.value());
  message->set_taking(record.taking.value());
  message->set_undecided(record.undecided);
  message->set_any_adapter(record.any_adapter);
}

void ToProto(const SharedEndpointRecord& record, v1::SharedEndpoint* message) {
  message->set_id(record.id.value());
  ToProto(record, message->mutable_object());
  message->set_pending(record.pending.value());
  message->set_taking(record.taking.value());
}

void ToProto(const ReservationRecord& record, v1::Reservation* message) {
  message->set_id(record.id.value());
  ToProto(record, message->mutable_object());
  message->set_taken(record.taken);
  message->set_pending(record.pending.value());
}

void ToProto(const ConnectorRecord& record, v1::Connector* message) {
  message->set_id(record.id.value());
  ToProto(record, message->mutable_object());
  message->set_state(ToProto(record.state));
  message->set_listener(record.listener.value());
  message->set_shared_endpoint(record.shared_endpoint.value());
  message->set_connection(record.connection.value());
  message->set_releasing(record.releasing.value());
  message->set_qp(record.qp.value);
  ToProto(record.local, message->mutable_local());
  ToProto(record.peer, message->mutable_peer());
  ToProto(record.limits, message->mutable_limits());
  message->set_rnr_retry_count(record.options.rnr_retry_count);
  message->set_private_data(BytesToProto(record.private_data));
  message->set_three_way(record.three_way);
  message->set_has_data(record.has_data);
  for (const QpAttributes& step : record.qp_attributes) ToProto(step, message->add_qp_attributes());
  message->set_pending(record.pending.value());
  if (record.accept_data) message->set_accept_data(BytesToProto(*record.accept_data));
  message->set_awaits_handoff(record.awaits_handoff);
  message->set_broken(record.broken);
  message->set_deadline(ToProto(record.deadline));
  message->set_dead_status(ToProto(record.dead_status));
  message->set_since(ToProto(record.since));
  if (record.failure) {
    v1::Connector::Failure* failure = message->mutable_failure();
    failure->set_at(ToProto(record.failure->at));
    failure->set_status(ToProto(record.failure->status));
    failure->set_provider_error(record.failure->provider_error);
    failure->set_hint(record.failure->hint);
  }
  message->set_recovered(record.recovered);
}

void ToProto(const EndpointRecord& record, v1::Endpoint* message) {
  message->set_id(record.id.value());
  message->set_device(record.device.value());
  message->set_network_namespace(record.network_namespace);
  message->set_port_space(ToProto(record.port_space));
  message->set_use(ToProto(record.use));
  message->set_state(ToProto(record.state));
  ToProto(record.address, message->mutable_address());
  for (const IpAddress& ip : record.ips) ToProto(ip, message->add_ips());
  message->set_ephemeral(record.ephemeral);
  message->set_tries(record.tries);
  message->set_uid(record.uid);
  message->set_references(record.references);
  message->set_connections(record.connections);
  std::visit(Overloaded{
                 [&](AdapterId id) { message->set_adapter(id.value()); },
                 [&](ListenerId id) { message->set_listener(id.value()); },
                 [&](SharedEndpointId id) { message->set_shared_endpoint(id.value()); },
                 [&](ReservationId id) { message->set_reservation(id.value()); },
                 [&](ConnectorId id) { message->set_connector(id.value()); },
             },
             record.owner);
}

void ToProto(const ConnectionRecord& record, v1::Connection* message) {
  message->set_id(record.id.value());
  message->set_device(record.device.value());
  message->set_endpoint(record.endpoint.value());
  message->set_connector(record.connector.value());
  message->set_given_up(record.given_up);
  message->set_farewell(ToProto(record.farewell));
  message->set_farewell_data(BytesToProto(record.farewell_data));
  message->set_holds_addresses(record.holds_addresses);
  ToProto(record.local, message->mutable_local());
  ToProto(record.peer, message->mutable_peer());
}

}  // namespace rdmabroker::store
