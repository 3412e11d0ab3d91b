// SPDX-License-Identifier: Apache-2.0

#include "broker/store/records_for_test.h"

#include <string>
#include <utility>

namespace rdmabroker {
namespace {

using namespace std::string_literals;

Instant At(int64_t seconds) { return absl::FromUnixSeconds(seconds) + absl::Nanoseconds(seconds); }

IpAddress Ipv4(uint8_t last) { return {.bytes = {192, 0, 2, last}}; }

IpAddress Ipv6(uint8_t last) {
  IpAddress ip = IpAddress::Any(IpFamily::kIpv6);
  ip.bytes = {0xFE, 0x80, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, last};
  ip.scope_id = 3;
  return ip;
}

SocketAddress Here(uint8_t last) { return {Ipv4(last), static_cast<uint16_t>(40000 + last)}; }
SocketAddress There(uint8_t last) { return {Ipv6(last), static_cast<uint16_t>(50000 + last)}; }

AdapterInfo Info() {
  return {.version = {3, 4},
          .vendor_id = 1,
          .device_id = 2,
          .max_registration_size = uint64_t{1} << 40,
          .max_window_size = uint64_t{1} << 41,
          .frmr_page_count = 3,
          .max_initiator_request_sge = 4,
          .max_receive_request_sge = 5,
          .max_read_request_sge = 6,
          .max_transfer_length = 7,
          .max_inline_data_size = 8,
          .max_inbound_read_limit = 9,
          .max_outbound_read_limit = 10,
          .max_receive_queue_depth = 11,
          .max_initiator_queue_depth = 12,
          .max_srq_depth = 13,
          .max_cq_depth = 14,
          .large_request_threshold = 15,
          .max_caller_data = 16,
          .max_callee_data = 17,
          .adapter_flags = 0x80000001,
          .technology = RdmaTechnology::kRoceV2};
}

QpAttributes Step() {
  return {.mask = 0xFFFFFFFF,
          .qp_state = 1,
          .path_mtu = 2,
          .qkey = 3,
          .rq_psn = 4,
          .sq_psn = 5,
          .dest_qp_number = 6,
          .access_flags = 7,
          .pkey_index = 8,
          .port_number = 9,
          .max_outbound_reads = 10,
          .max_inbound_reads = 11,
          .min_rnr_timer = 12,
          .timeout = 13,
          .retry_count = 14,
          .rnr_retry = 15,
          .destination_gid = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255},
          .flow_label = 16,
          .source_gid_index = 17,
          .hop_limit = 18,
          .traffic_class = 19,
          .destination_lid = 20,
          .service_level = 21,
          .source_path_bits = 22,
          .static_rate = 23,
          .is_global = true};
}

ConnectionData Data() { return {Here(1), There(1), {3, 4}, {0, 255, 1}, false, {Step(), QpAttributes{}}}; }

Outcome With(Payload payload) {
  return {NdkStatus::kConnectionRefused, std::move(payload), 111, true, true, "not UTF-8: \xFF, and a zero: \0."s};
}

std::vector<Payload> EveryPayload() {
  return {{},
          AdapterOpened{AdapterId(1), Info(), true},
          ListenerCreated{ListenerId(2)},
          Listening{Here(3)},
          SharedEndpointCreated{SharedEndpointId(4), There(4)},
          PortReserved{ReservationId(5), Here(5)},
          ConnectorCreated{ConnectorId(6)},
          Data(),
          ConnectionEstablished{{7, 8}, HandoffSecret{9, 10}},
          ConnectionEstablished{{7, 8}, {}}};
}

std::vector<SessionEvent> EveryEvent() {
  std::vector<SessionEvent> events = {ConnectEvent{ListenerId(1), ConnectorId(2), Data(), AdapterId(7)},
                                      DisconnectEvent{ConnectorId(3), NdkStatus::kIoTimeout, 4},
                                      AdapterRemovedEvent{AdapterId(5)},
                                      AdapterDisabledEvent{AdapterId(6)},
                                      AddressEvent{ListenerId(8), true},
                                      AddressEvent{SharedEndpointId(9), false},
                                      AddressEvent{ReservationId(10), true}};
  for (const Payload& payload : EveryPayload()) events.push_back(OutcomeEvent{RequestId(7), With(payload)});
  return events;
}

void FillObject(ObjectRecord& object) {
  object.session = SessionId(1);
  object.adapter = AdapterId(2);
  object.last_event = EventNumber(3);
  object.successors = 4;
  object.closing = true;
  object.close_request = RequestId(5);
  object.ready = false;
  object.endpoint = EndpointId(6);
  object.left_endpoint = true;
}

SessionRecord FullSession(SessionId id) {
  SessionRecord session;
  session.id = id;
  session.identity = {4000000000, 4000000001, 4194304};
  session.secret = {1, 2, 3, 255};
  session.stream = StreamId(7);
  session.ended = true;
  session.address_news = AddressNews::kOfAll;
  session.deadline = At(8);
  session.returned = At(9);
  session.dropped = EventNumber(100);
  session.acknowledged = EventNumber(103);
  for (const SessionEvent& event : EveryEvent()) session.events.push_back(event);
  session.last_event = EventNumber(100 + session.events.size());
  for (uint8_t answer = 1; answer <= 20; ++answer) {
    session.newest_request = RequestId(10 + 3 * uint64_t{answer});
    session.answers.push_back({session.newest_request, RequestDigest{answer, 255, 0, 128}, With({})});
  }
  session.adapters = 11;
  session.listeners = 12;
  session.shared_endpoints = 13;
  session.reservations = 14;
  session.connectors = 15;
  session.answers_kept = 64;
  return session;
}

ConnectorRecord FullConnector(ConnectorId id) {
  ConnectorRecord connector;
  FillObject(connector);
  connector.id = id;
  connector.state = ConnectorState::kEstablished;
  connector.listener = ListenerId(2);
  connector.shared_endpoint = SharedEndpointId(3);
  connector.connection = ConnectionId(4);
  connector.releasing = IncomingConnection(DeviceId(5), 6);
  connector.qp = {0xFFFFFF};
  connector.local = Here(7);
  connector.peer = There(8);
  connector.limits = {9, 10};
  connector.options = {.rnr_retry_count = 3};
  connector.private_data = Bytes(300, 0xA5);
  connector.three_way = false;
  connector.has_data = true;
  connector.qp_attributes = {Step(), {}, Step()};
  connector.pending = RequestId(11);
  connector.accept_data = Bytes{0, 255, 2};
  connector.awaits_handoff = true;
  connector.broken = true;
  connector.deadline = At(12);
  connector.dead_status = NdkStatus::kDeviceRemoved;
  connector.since = At(13);
  connector.failure = ConnectorFailure{At(14), NdkStatus::kConnectionRefused, 28, "\xFF: nobody listens"};
  connector.recovered = true;
  return connector;
}

}  // namespace

Records FullRecords() {
  Records records;
  DeviceRecord& device = records.devices[DeviceId(1)];
  device.device = {DeviceId(1),        "mlx5_0", Info(), 4026531840,         PortSpace::kTcp,
                   {Ipv4(1), Ipv6(2)}, true,     true,   "its link is \xFF", 4096};
  device.counts = {1, 2, 3, 4};
  device.disabled = device.removed = true;
  device.adapters = 5;
  device.endpoints = 6;
  device.connections = 7;
  for (const uint64_t id : {1, 2}) records.sessions[SessionId(id)] = FullSession(SessionId(id));
  AdapterRecord& adapter = records.adapters[AdapterId(2)];
  FillObject(adapter);
  adapter.id = AdapterId(2);
  adapter.device = DeviceId(1);
  adapter.requested = {65535, 65534};
  adapter.told_disabled = true;
  ListenerRecord& listener = records.listeners[ListenerId(3)];
  FillObject(listener);
  listener.id = ListenerId(3);
  listener.state = ListenerState::kListening;
  listener.paused = true;
  listener.pending = RequestId(1);
  listener.taking = ReservationId(2);
  listener.undecided = 3;
  listener.any_adapter = true;
  SharedEndpointRecord& shared_endpoint = records.shared_endpoints[SharedEndpointId(4)];
  FillObject(shared_endpoint);
  shared_endpoint.id = SharedEndpointId(4);
  shared_endpoint.pending = RequestId(1);
  shared_endpoint.taking = ReservationId(2);
  ReservationRecord& reservation = records.reservations[ReservationId(5)];
  FillObject(reservation);
  reservation.id = ReservationId(5);
  reservation.taken = true;
  reservation.pending = RequestId(1);
  for (const uint64_t id : {6, 256}) records.connectors[ConnectorId(id)] = FullConnector(ConnectorId(id));
  const ObjectId owners[] = {AdapterId(1), ListenerId(2), SharedEndpointId(3), ReservationId(4), ConnectorId(5)};
  for (uint64_t id = 1; id <= std::size(owners); ++id) {
    records.endpoints[EndpointId(id)] = {EndpointId(id),
                                         DeviceId(1),
                                         4026531840,
                                         PortSpace::kTcp,
                                         EndpointUse::kReserved,
                                         EndpointState::kRepurposing,
                                         Here(1),
                                         {Ipv4(1), Ipv6(2)},
                                         true,
                                         1,
                                         2,
                                         3,
                                         4,
                                         owners[id - 1]};
  }
  const ConnectionId incoming = IncomingConnection(DeviceId(1), 8);
  for (const ConnectionId id : {ConnectionId(7), incoming}) {
    records.connections[id] = {id,       DeviceId(1), EndpointId(2), ConnectorId(3), true, Farewell::kReject,
                               {0, 255}, true,        Here(1),       There(2)};
  }
  records.counters = {1, 2, 3, 4, 5, 6, 7, uint64_t{1} << 63, 65535, (uint64_t{1} << 63) + 1};
  records.now = At(9);
  records.lineage = uint64_t{1} << 63;
  return records;
}

}  // namespace rdmabroker
