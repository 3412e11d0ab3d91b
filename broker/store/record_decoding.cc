// SPDX-License-Identifier: Apache-2.0

#include "broker/store/record_codec.h"
#include "broker/store/value_codec.h"

namespace rdmabroker::store {
namespace {

void Read(const Field& field, const v1::Object& message, ObjectRecord* record) {
  if (message.session() == 0) Field(field, "session").Complain("missing");
  record->session = SessionId(message.session());
  record->adapter = AdapterId(message.adapter());
  record->last_event = EventNumber(message.last_event());
  record->successors = message.successors();
  record->closing = message.closing();
  record->close_request = RequestId(message.close_request());
  record->ready = message.ready();
  record->endpoint = EndpointId(message.endpoint());
  record->left_endpoint = message.left_endpoint();
}

AddressEvent Read(const Field& field, const wire::EndpointAddressEvent& message) {
  switch (message.endpoint_case()) {
    case wire::EndpointAddressEvent::kSharedEndpointId:
      return {SharedEndpointId(message.shared_endpoint_id()), message.present()};
    case wire::EndpointAddressEvent::kReservationId:
      return {ReservationId(message.reservation_id()), message.present()};
    case wire::EndpointAddressEvent::ENDPOINT_NOT_SET:
      break;
  }
  Field(field, "endpoint").Complain("missing");
  return {};
}

ObjectId ReadOwner(const Field& outer, const v1::Endpoint& message) {
  switch (message.owner_case()) {
    case v1::Endpoint::kAdapter:
      return AdapterId(message.adapter());
    case v1::Endpoint::kListener:
      return ListenerId(message.listener());
    case v1::Endpoint::kSharedEndpoint:
      return SharedEndpointId(message.shared_endpoint());
    case v1::Endpoint::kReservation:
      return ReservationId(message.reservation());
    case v1::Endpoint::kConnector:
      return ConnectorId(message.connector());
    case v1::Endpoint::OWNER_NOT_SET:
      break;
  }
  Field(outer, "owner").Complain("missing");
  return {};
}

// Reads the fields of a record's message by `read`, which is given the field that stands for the record.
template <typename ReadFields>
absl::Status Complaint(ReadFields read) {
  absl::Status complaint;
  read(Field(complaint));
  return complaint;
}

}  // namespace

absl::Status FromProto(const v1::Counters& message, Counters* counters) {
  return Complaint([&](const Field& record) {
    *counters = {
        .session = message.session(),
        .adapter = message.adapter(),
        .listener = message.listener(),
        .shared_endpoint = message.shared_endpoint(),
        .reservation = message.reservation(),
        .connector = message.connector(),
        .endpoint = message.endpoint(),
        .connection = message.connection(),
        .ephemeral_port = Field(record, "ephemeral_port").Narrow<uint16_t>(message.ephemeral_port()),
        .id_key = message.id_key(),
    };
  });
}

absl::Status FromProto(const v1::Device& message, DeviceRecord* record) {
  return Complaint([&](const Field& all) {
    record->device = {
        .id = DeviceId(message.id()),
        .name = message.name(),
        .info = Read(Field(all, "info"), message.info()),
        .network_namespace = message.network_namespace(),
        .port_space = Read(Field(all, "port_space"), message.port_space()),
        .addresses = ReadAll<IpAddress>(all, "addresses", message.addresses()),
        .client_ends_connections = message.client_ends_connections(),
        .keeps_qps_until_released = message.keeps_qps_until_released(),
        .unusable_reason = message.unusable_reason(),
        .mtu = message.mtu(),
    };
    record->counts = {message.connects(), message.accepts(), message.connect_failures(), message.connection_errors()};
    record->disabled = message.disabled();
    record->removed = message.removed();
    record->adapters = message.adapters();
    record->endpoints = message.endpoints();
    record->connections = message.connections();
  });
}

absl::Status FromProto(const v1::Session& message, SessionRecord* record) {
  return Complaint([&](const Field& all) {
    record->id = SessionId(message.id());
    record->identity = {message.uid(), message.gid(), message.pid()};
    Field(all, "secret").Fill(message.secret(), record->secret);
    record->stream = StreamId(message.stream());
    record->ended = message.ended();
    record->deadline = ReadTime(message.deadline());
    record->returned = message.has_returned() ? ReadTime(message.returned()) : absl::InfinitePast();
    record->last_event = EventNumber(message.last_event());
    record->dropped = EventNumber(message.dropped());
    record->acknowledged = EventNumber(message.has_acknowledged() ? message.acknowledged() : message.dropped());
    record->newest_request = RequestId(message.newest_request());
    record->adapters = message.adapters();
    record->listeners = message.listeners();
    record->shared_endpoints = message.shared_endpoints();
    record->reservations = message.reservations();
    record->connectors = message.connectors();
    record->answers_kept = message.answers_kept();
    record->address_news = Read(Field(all, "address_news"), message.address_news());
  });
}

absl::Status FromProto(const v1::Answer& message, KeptAnswer* answer) {
  return Complaint([&](const Field& all) {
    answer->id = RequestId(message.id());
    answer->request.reset();
    if (!message.request_digest().empty()) {
      Field(all, "request_digest").Fill(message.request_digest(), answer->request.emplace());
    }
    answer->outcome = Read(Field(all, "outcome"), message.outcome());
  });
}

absl::Status FromProto(const v1::Event& message, SessionEvent* event) {
  return Complaint([&](const Field& all) {
    switch (message.event_case()) {
      case v1::Event::kOutcome:
        *event = OutcomeEvent{RequestId(message.outcome().request_id()),
                              Read(Field(Field(all, "outcome"), "outcome"), message.outcome().outcome())};
        return;
      case v1::Event::kConnect:
        *event =
            ConnectEvent{ListenerId(message.connect().listener_id()), ConnectorId(message.connect().connector_id()),
                         Read(Field(Field(all, "connect"), "data"), message.connect().data()),
                         AdapterId(message.connect().adapter_id())};
        return;
      case v1::Event::kDisconnect:
        *event = DisconnectEvent{ConnectorId(message.disconnect().connector_id()),
                                 Read(Field(Field(all, "disconnect"), "status"), message.disconnect().status()),
                                 message.disconnect().provider_error()};
        return;
      case v1::Event::kAdapterRemoved:
        *event = AdapterRemovedEvent{AdapterId(message.adapter_removed().adapter_id())};
        return;
      case v1::Event::kAdapterDisabled:
        *event = AdapterDisabledEvent{AdapterId(message.adapter_disabled().adapter_id())};
        return;
      case v1::Event::kListenerAddress:
        *event =
            AddressEvent{ListenerId(message.listener_address().listener_id()), message.listener_address().present()};
        return;
      case v1::Event::kEndpointAddress:
        *event = Read(Field(all, "endpoint_address"), message.endpoint_address());
        return;
      case v1::Event::EVENT_NOT_SET:
        Field(all, "event").Complain("missing");
    }
  });
}

absl::Status FromProto(const v1::Adapter& message, AdapterRecord* record) {
  return Complaint([&](const Field& all) {
    Read(Field(all, "object"), message.object(), record);
    record->id = AdapterId(message.id());
    record->device = DeviceId(message.device());
    record->requested = Read(Field(all, "requested"), message.requested());
    record->told_disabled = message.told_disabled();
  });
}

absl::Status FromProto(const v1::Listener& message, ListenerRecord* record) {
  return Complaint([&](const Field& all) {
    Read(Field(all, "object"), message.object(), record);
    record->id = ListenerId(message.id());
    record->state = Read(Field(all, "state"), message.state());
    record->paused = message.paused();
    record->pending = RequestId(message.pending());
    record->taking = ReservationId(message.taking());
    record->undecided = message.undecided();
    record->any_adapter = message.any_adapter();
  });
}

absl::Status FromProto(const v1::SharedEndpoint& message, SharedEndpointRecord* record) {
  return Complaint([&](const Field& all) {
    Read(Field(all, "object"), message.object(), record);
    record->id = SharedEndpointId(message.id());
    record->pending = RequestId(message.pending());
    record->taking = ReservationId(message.taking());
  });
}

absl::Status FromProto(const v1::Reservation& message, ReservationRecord* record) {
  return Complaint([&](const Field& all) {
    Read(Field(all, "object"), message.object(), record);
    record->id = ReservationId(message.id());
    record->taken = message.taken();
    record->pending = RequestId(message.pending());
  });
}

absl::Status FromProto(const v1::Connector& message, ConnectorRecord* record) {
  return Complaint([&](const Field& all) {
    Read(Field(all, "object"), message.object(), record);
    record->id = ConnectorId(message.id());
    record->state = Read(Field(all, "state"), message.state());
    record->listener = ListenerId(message.listener());
    record->shared_endpoint = SharedEndpointId(message.shared_endpoint());
    record->connection = ConnectionId(message.connection());
    record->releasing = ConnectionId(message.releasing());
    record->qp = {message.qp()};
    record->local = Read(Field(all, "local"), message.local());
    record->peer = Read(Field(all, "peer"), message.peer());
    record->limits = Read(Field(all, "limits"), message.limits());
    if (message.has_rnr_retry_count()) {
      constexpr uint32_t kMost = ConnectionOptions::kForEver;
      record->options.rnr_retry_count = message.rnr_retry_count();
      if (message.rnr_retry_count() > kMost) {
        Field(all, "rnr_retry_count").Complain(message.rnr_retry_count(), "; at most ", kMost);
      }
    }
    record->private_data = ReadBytes(message.private_data());
    record->three_way = message.three_way();
    record->has_data = message.has_data();
    record->qp_attributes = ReadAll<QpAttributes>(all, "qp_attributes", message.qp_attributes());
    record->pending = RequestId(message.pending());
    if (message.has_accept_data()) record->accept_data = ReadBytes(message.accept_data());
    record->awaits_handoff = message.awaits_handoff();
    record->broken = message.broken();
    record->deadline = ReadTime(message.deadline());
    record->dead_status = Read(Field(all, "dead_status"), message.dead_status());
    record->since = message.has_since() ? ReadTime(message.since()) : absl::InfinitePast();
    if (message.has_failure()) {
      const v1::Connector::Failure& failure = message.failure();
      const Field field(all, "failure");
      record->failure = ConnectorFailure{.at = ReadTime(failure.at()),
                                         .status = Read(Field(field, "status"), failure.status()),
                                         .provider_error = failure.provider_error(),
                                         .hint = failure.hint()};
    }
    record->recovered = message.recovered();
  });
}

absl::Status FromProto(const v1::Endpoint& message, EndpointRecord* record) {
  return Complaint([&](const Field& all) {
    *record = {
        .id = EndpointId(message.id()),
        .device = DeviceId(message.device()),
        .network_namespace = message.network_namespace(),
        .port_space = Read(Field(all, "port_space"), message.port_space()),
        .use = Read(Field(all, "use"), message.use()),
        .state = Read(Field(all, "state"), message.state()),
        .address = Read(Field(all, "address"), message.address()),
        .ips = ReadAll<IpAddress>(all, "ips", message.ips()),
        .ephemeral = message.ephemeral(),
        .tries = message.tries(),
        .uid = message.uid(),
        .references = message.references(),
        .connections = message.connections(),
        .owner = ReadOwner(all, message),
    };
  });
}

absl::Status FromProto(const v1::Connection& message, ConnectionRecord* record) {
  return Complaint([&](const Field& all) {
    *record = {
        .id = ConnectionId(message.id()),
        .device = DeviceId(message.device()),
        .endpoint = EndpointId(message.endpoint()),
        .connector = ConnectorId(message.connector()),
        .given_up = message.given_up(),
        .farewell = Read(Field(all, "farewell"), message.farewell()),
        .farewell_data = ReadBytes(message.farewell_data()),
        .holds_addresses = message.holds_addresses(),
        .local = Read(Field(all, "local"), message.local()),
        .peer = Read(Field(all, "peer"), message.peer()),
    };
  });
}

}  // namespace rdmabroker::store
