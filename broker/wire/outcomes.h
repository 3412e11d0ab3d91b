// SPDX-License-Identifier: Apache-2.0

// Outcomes and events, for any message that has the fields of the contract's.

#ifndef BROKER_WIRE_OUTCOMES_H_
#define BROKER_WIRE_OUTCOMES_H_

#include <variant>

#include "broker/core/messages.h"
#include "broker/wire/values.h"

namespace rdmabroker {

template <typename Message>
struct PayloadToProto {
  Message* message;

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
    if (established.handoff) payload->set_handoff_secret(BytesToProto(*established.handoff));
  }
};

template <typename Message>
void FillOutcome(const Outcome& outcome, Message* message) {
  message->set_status(ToProto(outcome.status));
  message->set_provider_error(outcome.provider_error);
  message->set_retryable(outcome.retryable);
  message->set_retry_same_qp(outcome.retry_same_qp);
  message->set_hint(outcome.hint);
  std::visit(PayloadToProto<Message>{message}, outcome.payload);
}

template <typename Message>
struct EventToProto {
  Message* message;

  void operator()(const OutcomeEvent& event) const {
    message->mutable_outcome()->set_request_id(event.request.value());
    FillOutcome(event.outcome, message->mutable_outcome()->mutable_outcome());
  }
  void operator()(const ConnectEvent& event) const {
    message->mutable_connect()->set_listener_id(event.listener.value());
    message->mutable_connect()->set_connector_id(event.connector.value());
    message->mutable_connect()->set_adapter_id(event.adapter.value());
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
  void operator()(const AddressEvent& event) const {
    if (const auto* listener = std::get_if<ListenerId>(&event.holder)) {
      message->mutable_listener_address()->set_listener_id(listener->value());
      message->mutable_listener_address()->set_present(event.present);
      return;
    }
    auto& changed = *message->mutable_endpoint_address();
    changed.set_present(event.present);
    if (const auto* endpoint = std::get_if<SharedEndpointId>(&event.holder)) {
      changed.set_shared_endpoint_id(endpoint->value());
    } else {
      changed.set_reservation_id(std::get<ReservationId>(event.holder).value());
    }
  }
};

template <typename Message>
void FillEvent(const SessionEvent& event, Message* message) {
  std::visit(EventToProto<Message>{message}, event);
}

}  // namespace rdmabroker

#endif  // BROKER_WIRE_OUTCOMES_H_
