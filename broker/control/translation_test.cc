// SPDX-License-Identifier: Apache-2.0

#include "broker/control/translation.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "broker/core/limits.h"
#include "dataplane/provider_error.h"
#include "proto/rdmabroker/v1/broker.pb.h"

namespace rdmabroker {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

template <typename Proto>
Proto FromText(const std::string& text) {
  Proto message;
  EXPECT_TRUE(TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

SocketAddress Address(const char* text) { return *SocketAddress::Parse(text); }

// A request of the wire with every field set, and what it is in the core.
struct Row {
  std::string rpc;
  std::shared_ptr<const Message> message;
  std::function<Translated(const Message&)> translate;
  Request expected;
};

template <typename Proto>
Row MakeRow(const std::string& rpc, const std::string& text, Request expected) {
  return {rpc, std::make_shared<Proto>(FromText<Proto>(text)),
          [](const Message& message) { return FromProto(static_cast<const Proto&>(message)); }, std::move(expected)};
}

constexpr char kSource[] = R"(ip: "\300\000\002\001" port: 4791)";
constexpr char kDestination[] = R"(ip: "\376\200\0\0\0\0\0\0\0\0\0\0\0\0\0\002" port: 65535 scope_id: 3)";

std::vector<Row> Rows() {
  const std::string source = std::string("{ ") + kSource + " } ";
  const std::string destination = std::string("{ ") + kDestination + " } ";
  const SocketAddress from = Address("192.0.2.1:4791");
  const SocketAddress to = Address("[fe80::2%3]:65535");
  return {
      MakeRow<v1::OpenAdapterRequest>("OpenAdapter", R"(device: "iwarp0" version { major: 2 minor: 65535 })",
                                      OpenAdapter{"iwarp0", {2, 65535}}),
      MakeRow<v1::CloseAdapterRequest>("CloseAdapter", "adapter_id: 5", CloseAdapter{AdapterId(5)}),
      MakeRow<v1::CreateListenerRequest>("CreateListener", "adapter_id: 5", CreateListener{AdapterId(5)}),
      MakeRow<v1::ListenRequest>(
          "Listen", "listener_id: 6 reservation_id: 7 await_address: true any_adapter: true address " + source,
          Listen{ListenerId(6), from, ReservationId(7), true, true}),
      MakeRow<v1::ControlConnectEventsRequest>("ControlConnectEvents", "listener_id: 6 pause: true",
                                               ControlConnectEvents{ListenerId(6), true}),
      MakeRow<v1::CloseListenerRequest>("CloseListener", "listener_id: 6", CloseListener{ListenerId(6)}),
      MakeRow<v1::CreateSharedEndpointRequest>("CreateSharedEndpoint",
                                               "adapter_id: 5 reservation_id: 7 address " + source,
                                               CreateSharedEndpoint{AdapterId(5), from, ReservationId(7)}),
      MakeRow<v1::CloseSharedEndpointRequest>("CloseSharedEndpoint", "shared_endpoint_id: 8",
                                              CloseSharedEndpoint{SharedEndpointId(8)}),
      MakeRow<v1::ReservePortRequest>("ReservePort", "adapter_id: 5 address " + source,
                                      ReservePort{AdapterId(5), from}),
      MakeRow<v1::ReleasePortRequest>("ReleasePort", "reservation_id: 7", ReleasePort{ReservationId(7)}),
      MakeRow<v1::CreateConnectorRequest>("CreateConnector", "adapter_id: 5", CreateConnector{AdapterId(5)}),
      MakeRow<v1::ConnectRequest>(
          "Connect",
          "connector_id: 9 qp_number: 17 limits { inbound: 1 outbound: 2 } private_data: '\\000\\377' "
          "options { rnr_retry_count: 0 } source " +
              source + "destination " + destination,
          Connect{ConnectorId(9), {17}, from, to, {1, 2}, {0, 255}, {0}}),
      MakeRow<v1::ConnectWithSharedEndpointRequest>(
          "ConnectWithSharedEndpoint",
          "connector_id: 9 qp_number: 17 shared_endpoint_id: 8 limits { inbound: 1 outbound: 2 } private_data: 'x' "
          "options { rnr_retry_count: 3 } destination " +
              destination,
          ConnectWithSharedEndpoint{ConnectorId(9), {17}, SharedEndpointId(8), to, {1, 2}, {'x'}, {3}}),
      MakeRow<v1::CompleteConnectRequest>("CompleteConnect", "connector_id: 9", CompleteConnect{ConnectorId(9)}),
      MakeRow<v1::AcceptRequest>("Accept",
                                 "connector_id: 9 qp_number: 17 limits { inbound: 1 outbound: 2 } private_data: 'x' "
                                 "options { rnr_retry_count: 6 }",
                                 Accept{ConnectorId(9), {17}, {1, 2}, {'x'}, {6}}),
      MakeRow<v1::RejectRequest>("Reject", "connector_id: 9 private_data: 'x'", Reject{ConnectorId(9), {'x'}}),
      MakeRow<v1::DisconnectRequest>("Disconnect", "connector_id: 9", Disconnect{ConnectorId(9)}),
      MakeRow<v1::GetConnectionDataRequest>("GetConnectionData", "connector_id: 9", GetConnectionData{ConnectorId(9)}),
      MakeRow<v1::ReportConnectionEndRequest>("ReportConnectionEnd",
                                              "connector_id: 9 graceful: true provider_error: 104",
                                              ReportConnectionEnd{ConnectorId(9), true, 104}),
      MakeRow<v1::CloseConnectorRequest>("CloseConnector", "connector_id: 9", CloseConnector{ConnectorId(9)}),
  };
}

TEST(RequestsFromTheWire, AreTheCoresFieldByField) {
  for (const Row& row : Rows()) {
    const Translated translated = row.translate(*row.message);
    ASSERT_TRUE(std::holds_alternative<Request>(translated)) << row.rpc << ": " << std::get<Outcome>(translated).hint;
    EXPECT_TRUE(std::get<Request>(translated) == row.expected) << row.rpc;
  }
}

// The request that `message` is, as one of a batch.
v1::BatchedRequest InBatch(const Message& message) {
  v1::BatchedRequest item;
  const auto* const kinds = v1::BatchedRequest::descriptor()->FindOneofByName("request");
  for (int i = 0; i < kinds->field_count(); ++i) {
    if (kinds->field(i)->message_type() != message.GetDescriptor()) continue;
    item.GetReflection()->MutableMessage(&item, kinds->field(i))->CopyFrom(message);
  }
  return item;
}

TEST(RequestsFromTheWire, AreTheSameInABatch) {
  for (const Row& row : Rows()) {
    const v1::BatchedRequest item = InBatch(*row.message);
    EXPECT_EQ(NameOf(item), row.rpc);
    const Translated translated = FromProto(item);
    ASSERT_TRUE(std::holds_alternative<Request>(translated)) << row.rpc << ": " << std::get<Outcome>(translated).hint;
    EXPECT_TRUE(std::get<Request>(translated) == row.expected) << row.rpc;
  }
  EXPECT_EQ(NameOf({}), "unknown");
}

TEST(RequestsFromTheWire, HaveNoHeaderInABatch) {
  for (const Row& row : Rows()) {
    const std::unique_ptr<Message> message(row.message->New());
    message->CopyFrom(*row.message);
    message->GetReflection()->MutableMessage(message.get(), message->GetDescriptor()->FindFieldByName("header"));
    const Translated translated = FromProto(InBatch(*message));
    ASSERT_TRUE(std::holds_alternative<Outcome>(translated)) << row.rpc;
    EXPECT_EQ(std::get<Outcome>(translated).status, NdkStatus::kInvalidParameter) << row.rpc;
  }
}

// The mechanical check: each RPC has a row, each kind of the core's requests is one row's, and nobody else's.
TEST(RequestsFromTheWire, MirrorTheCoresRequests) {
  std::set<std::string> rpcs;
  std::set<size_t> kinds;
  for (const Row& row : Rows()) {
    EXPECT_TRUE(rpcs.insert(row.rpc).second) << row.rpc;
    EXPECT_TRUE(kinds.insert(row.expected.index()).second) << row.rpc;
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Request::variant>);
  const auto* service = v1::OpenAdapterRequest::descriptor()->file()->pool()->FindServiceByName("rdmabroker.v1.Broker");
  ASSERT_NE(service, nullptr);
  std::set<std::string> served;
  for (int i = 0; i < service->method_count(); ++i) served.insert(service->method(i)->name());
  served.erase("Session");
  EXPECT_EQ(rpcs, served);
}

// Whatever is cleared, the request becomes another one or a malformed one: no field is overlooked.
void ExpectEveryFieldCounts(const Row& row, Message* whole, Message* part, const std::string& path) {
  const auto* reflection = part->GetReflection();
  for (int i = 0; i < part->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = part->GetDescriptor()->field(i);
    const std::string name = path + field->name();
    // The header is the service's; `join` is refused.
    if (name == "header" || name == "join") continue;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      ASSERT_TRUE(reflection->HasField(*part, field)) << row.rpc << " " << name;
      ExpectEveryFieldCounts(row, whole, reflection->MutableMessage(part, field), name + ".");
    }
    const std::unique_ptr<Message> saved(part->New());
    saved->CopyFrom(*part);
    reflection->ClearField(part, field);
    const Translated translated = row.translate(*whole);
    const auto* request = std::get_if<Request>(&translated);
    // No limits are limits of 0, and no scope is the scope 0, which the rows do not have everywhere; an interface's
    // name is not read.
    const bool had_it = saved->SerializeAsString() != part->SerializeAsString();
    const bool same = request != nullptr && *request == row.expected;
    EXPECT_EQ(same, !had_it) << row.rpc << " " << name;
    EXPECT_TRUE(had_it || field->name() == "scope_id" || field->name() == "interface") << row.rpc << " " << name;
    part->CopyFrom(*saved);
  }
}

TEST(RequestsFromTheWire, CountInEveryField) {
  for (const Row& row : Rows()) {
    const std::unique_ptr<Message> message(row.message->New());
    message->CopyFrom(*row.message);
    ExpectEveryFieldCounts(row, message.get(), message.get(), "");
  }
}

TEST(RequestsFromTheWire, AReservationStandsForAnAddress) {
  EXPECT_TRUE(std::get<Request>(FromProto(FromText<v1::ListenRequest>("listener_id: 6 reservation_id: 7"))) ==
              Request(Listen{ListenerId(6), {}, ReservationId(7)}));
  EXPECT_TRUE(
      std::get<Request>(FromProto(FromText<v1::CreateSharedEndpointRequest>("adapter_id: 5 reservation_id: 7"))) ==
      Request(CreateSharedEndpoint{AdapterId(5), {}, ReservationId(7)}));
}

TEST(RequestsFromTheWire, NoLimitsAskForAsManyReadsAsTheAdapterHas) {
  const auto asked = [](const std::string& limits) {
    return std::get<Accept>(std::get<Request>(FromProto(FromText<v1::AcceptRequest>("connector_id: 9 " + limits))))
        .limits;
  };
  EXPECT_EQ(asked(""), (ReadLimits{UINT32_MAX, UINT32_MAX}));
  EXPECT_EQ(asked("limits {}"), ReadLimits());
}

struct MalformedRow {
  std::function<Translated()> translate;
  const char* hint;
  NdkStatus status = NdkStatus::kInvalidParameter;
};

template <typename Proto>
MalformedRow Malformed(const std::string& text, const char* hint) {
  return {[text] { return FromProto(FromText<Proto>(text)); }, hint};
}

// A reservation request with this address.
MalformedRow BadAddress(const std::string& text, const char* hint) {
  return Malformed<v1::ReservePortRequest>("adapter_id: 5 address { " + text + " }", hint);
}

// More private data than any adapter carries.
template <typename Proto>
MalformedRow TooMuchData(const std::string& text) {
  MalformedRow row = Malformed<Proto>(text + " private_data: '" + std::string(513, 'x') + "'",
                                      "private_data: 513 bytes; no adapter carries more than 512");
  row.status = NdkStatus::kInvalidBufferSize;
  return row;
}

std::vector<MalformedRow> MalformedRows() {
  const std::string source = std::string("source { ") + kSource + " } ";
  const std::string destination = std::string("destination { ") + kDestination + " } ";
  return {
      TooMuchData<v1::ConnectRequest>("connector_id: 9 " + source + destination),
      TooMuchData<v1::ConnectWithSharedEndpointRequest>("connector_id: 9 shared_endpoint_id: 8 " + destination),
      TooMuchData<v1::AcceptRequest>("connector_id: 9"),
      TooMuchData<v1::RejectRequest>("connector_id: 9"),
      Malformed<v1::OpenAdapterRequest>("version { major: 2 }", "device: missing"),
      Malformed<v1::OpenAdapterRequest>("version { major: 2 } device: '" + std::string(64, 'x') + "'",
                                        "device: longer than 63 bytes"),
      Malformed<v1::OpenAdapterRequest>("device: 'x'", "version: missing"),
      Malformed<v1::OpenAdapterRequest>("device: 'x' version { major: 65536 }", "version: a number above 65535"),
      Malformed<v1::OpenAdapterRequest>("device: 'x' version { minor: 65536 }", "version: a number above 65535"),
      Malformed<v1::CloseAdapterRequest>("", "adapter_id: missing"),
      Malformed<v1::CreateListenerRequest>("", "adapter_id: missing"),
      Malformed<v1::ListenRequest>(std::string("address { ") + kSource + " }", "listener_id: missing"),
      Malformed<v1::ListenRequest>("listener_id: 6", "address: missing"),
      Malformed<v1::ListenRequest>("listener_id: 6 reservation_id: 7 address {}",
                                   "address.ip: 0 bytes; 4 for IPv4, 16 for IPv6"),
      Malformed<v1::ControlConnectEventsRequest>("pause: true", "listener_id: missing"),
      Malformed<v1::CloseListenerRequest>("", "listener_id: missing"),
      Malformed<v1::CreateSharedEndpointRequest>(std::string("address { ") + kSource + " }", "adapter_id: missing"),
      Malformed<v1::CreateSharedEndpointRequest>("adapter_id: 5", "address: missing"),
      Malformed<v1::CloseSharedEndpointRequest>("", "shared_endpoint_id: missing"),
      Malformed<v1::ReservePortRequest>("adapter_id: 5", "address: missing"),
      Malformed<v1::ReservePortRequest>(std::string("address { ") + kSource + " }", "adapter_id: missing"),
      Malformed<v1::ReleasePortRequest>("", "reservation_id: missing"),
      Malformed<v1::CreateConnectorRequest>("", "adapter_id: missing"),
      Malformed<v1::ConnectRequest>(source + destination, "connector_id: missing"),
      Malformed<v1::ConnectRequest>("connector_id: 9 source {} " + destination,
                                    "source.ip: 0 bytes; 4 for IPv4, 16 for IPv6"),
      Malformed<v1::ConnectRequest>("connector_id: 9 " + source, "destination: missing"),
      Malformed<v1::ConnectRequest>("connector_id: 9 " + source + "destination { ip: '12345' }",
                                    "destination.ip: 5 bytes; 4 for IPv4, 16 for IPv6"),
      Malformed<v1::ConnectWithSharedEndpointRequest>("shared_endpoint_id: 8 " + destination, "connector_id: missing"),
      Malformed<v1::ConnectWithSharedEndpointRequest>("connector_id: 9 " + destination, "shared_endpoint_id: missing"),
      Malformed<v1::ConnectWithSharedEndpointRequest>("connector_id: 9 shared_endpoint_id: 8", "destination: missing"),
      Malformed<v1::CompleteConnectRequest>("", "connector_id: missing"),
      Malformed<v1::AcceptRequest>("", "connector_id: missing"),
      Malformed<v1::AcceptRequest>("connector_id: 9 options { rnr_retry_count: 8 }",
                                   "options.rnr_retry_count: 8; 0 to 7, where 7 is for ever"),
      Malformed<v1::RejectRequest>("", "connector_id: missing"),
      Malformed<v1::DisconnectRequest>("", "connector_id: missing"),
      Malformed<v1::GetConnectionDataRequest>("", "connector_id: missing"),
      Malformed<v1::ReportConnectionEndRequest>("graceful: true", "connector_id: missing"),
      Malformed<v1::CloseConnectorRequest>("", "connector_id: missing"),
      BadAddress("", "address.ip: 0 bytes; 4 for IPv4, 16 for IPv6"),
      BadAddress("ip: '123'", "address.ip: 3 bytes; 4 for IPv4, 16 for IPv6"),
      BadAddress("ip: '12345678901234567'", "address.ip: 17 bytes; 4 for IPv4, 16 for IPv6"),
      BadAddress("ip: '" + std::string(60000, 'x') + "'", "address.ip: 60000 bytes; 4 for IPv4, 16 for IPv6"),
      BadAddress("ip: '1234' port: 65536", "address.port: above 65535"),
      BadAddress("ip: '1234' port: 4294967295", "address.port: above 65535"),
      BadAddress("ip: '1234' scope_id: 1", "address.scope_id: only a link-local IPv6 address has one"),
      BadAddress("ip: '1234567890123456' scope_id: 1", "address.scope_id: only a link-local IPv6 address has one"),
      BadAddress(R"(ip: "\0\0\0\0\0\0\0\0\0\0\377\377\300\000\002\001")",
                 "address.ip: an IPv4-mapped address; send the IPv4 address"),
      {[] { return FromProto(v1::BatchedRequest()); }, "request: missing, or of a kind newer than this broker",
       NdkStatus::kNotSupported},
      {[] { return FromProto(FromText<v1::ListenRequest>("listener_id: 6 join: true")); },
       "join: this broker has no feature \"listen-join\"", NdkStatus::kNotSupported},
  };
}

TEST(MalformedRequests, AreRefusedWithTheNameOfTheField) {
  for (const MalformedRow& row : MalformedRows()) {
    const Translated translated = row.translate();
    ASSERT_TRUE(std::holds_alternative<Outcome>(translated)) << row.hint;
    EXPECT_EQ(std::get<Outcome>(translated).status, row.status) << row.hint;
    EXPECT_EQ(std::get<Outcome>(translated).hint, row.hint);
  }
}

TEST(Addresses, OfBothFamiliesCrossTheWire) {
  for (const char* text : {"0.0.0.0:0", "192.0.2.1:65535", "[::]:0", "[2001:db8::1]:4420", "[fe80::1%7]:1"}) {
    v1::ReservePortRequest request;
    request.set_adapter_id(5);
    ToProto(Address(text), request.mutable_address());
    request.mutable_address()->set_interface("nobodys0");  // As from a row: it is not read.
    const Translated translated = FromProto(request);
    ASSERT_TRUE(std::holds_alternative<Request>(translated)) << text;
    EXPECT_EQ(std::get<ReservePort>(std::get<Request>(translated)).address.ToString(), text);
  }
}

TEST(Addresses, AConnectWithoutASourceHasTheWildcard) {
  v1::ConnectRequest request;
  request.set_connector_id(1);
  ToProto(Address("[2001:db8::1]:4420"), request.mutable_destination());
  const Translated translated = FromProto(request);
  ASSERT_TRUE(std::holds_alternative<Request>(translated));
  EXPECT_TRUE(std::get<Connect>(std::get<Request>(translated)).source.ip.IsAny());
}

// --- Answers ---

constexpr char kInfoText[] = R"(info { version { major: 2 minor: 3 } vendor_id: 4 device_id: 5 max_registration_size: 6
    max_window_size: 7 frmr_page_count: 8 max_initiator_request_sge: 9 max_receive_request_sge: 10
    max_read_request_sge: 11 max_transfer_length: 12 max_inline_data_size: 13 max_inbound_read_limit: 14
    max_outbound_read_limit: 15 max_receive_queue_depth: 16 max_initiator_queue_depth: 17 max_srq_depth: 18
    max_cq_depth: 19 large_request_threshold: 20 max_caller_data: 21 max_callee_data: 22 adapter_flags: 23
    technology: RDMA_TECHNOLOGY_ROCE_V2 } )";

AdapterInfo NumberedInfo() {
  return {{2, 3}, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, RdmaTechnology::kRoceV2};
}

constexpr char kDataText[] = R"(local { ip: "\300\000\002\001" port: 1 } peer { ip: "\300\000\002\002" port: 2 }
    limits { inbound: 3 outbound: 4 } private_data: "\005\000" three_way: true
    qp_attributes { mask: 1 qp_state: 2 path_mtu: 3 qkey: 4 rq_psn: 5 sq_psn: 6 dest_qp_number: 7 access_flags: 8
        pkey_index: 9 port_number: 10 max_outbound_reads: 11 max_inbound_reads: 12 min_rnr_timer: 13 timeout: 14
        retry_count: 15 rnr_retry: 16 destination_gid: "abcdefghijklmnop" flow_label: 18 source_gid_index: 19
        hop_limit: 20 traffic_class: 21 destination_lid: 22 service_level: 23 source_path_bits: 24 static_rate: 25
        is_global: true }
    qp_attributes { mask: 9 destination_gid: "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" } )";

ConnectionData NumberedData() {
  ConnectionData data{Address("192.0.2.1:1"), Address("192.0.2.2:2"), {3, 4}, {5, 0}, true, {}};
  QpAttributes step{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  for (size_t i = 0; i < step.destination_gid.size(); ++i) step.destination_gid[i] = static_cast<uint8_t>('a' + i);
  step.flow_label = 18;
  step.source_gid_index = 19;
  step.hop_limit = 20;
  step.traffic_class = 21;
  step.destination_lid = 22;
  step.service_level = 23;
  step.source_path_bits = 24;
  step.static_rate = 25;
  step.is_global = true;
  data.qp_attributes = {step, QpAttributes{.mask = 9}};
  return data;
}

HandoffSecret SecretOf(const char* text) {
  HandoffSecret secret = {};
  EXPECT_TRUE(SecretFromBytes(std::string(text), &secret));
  return secret;
}

struct PayloadRow {
  Payload payload;
  std::string text;
};

std::vector<PayloadRow> PayloadRows() {
  return {
      {std::monostate(), ""},
      {AdapterOpened{AdapterId(5), NumberedInfo(), true},
       std::string("adapter_opened { adapter_id: 5 client_ends_connections: true ") + kInfoText + "}"},
      {ListenerCreated{ListenerId(6)}, "listener_created { listener_id: 6 }"},
      {Listening{Address("0.0.0.0:7")}, R"(listening { address { ip: "\0\0\0\0" port: 7 } })"},
      {SharedEndpointCreated{SharedEndpointId(8), Address("192.0.2.1:4791")},
       std::string("shared_endpoint_created { shared_endpoint_id: 8 address { ") + kSource + " } }"},
      {PortReserved{ReservationId(7), Address("[fe80::2%3]:65535")},
       std::string("port_reserved { reservation_id: 7 address { ") + kDestination + " } }"},
      {ConnectorCreated{ConnectorId(9)}, "connector_created { connector_id: 9 }"},
      {NumberedData(), std::string("connection_data { ") + kDataText + "}"},
      {ConnectionEstablished{{1, 2}, std::nullopt}, "connection_established { limits { inbound: 1 outbound: 2 } }"},
      {ConnectionEstablished{{1, 2}, SecretOf("0123456789abcdef")},
       "connection_established { limits { inbound: 1 outbound: 2 } handoff_secret: '0123456789abcdef' }"},
  };
}

TEST(OutcomesForTheWire, CarryEveryKindOfPayload) {
  std::set<size_t> kinds;
  for (const PayloadRow& row : PayloadRows()) {
    kinds.insert(row.payload.index());
    v1::Outcome message;
    ToProto(Outcome{.payload = row.payload}, &message);
    EXPECT_EQ(message.DebugString(), FromText<v1::Outcome>(row.text).DebugString());
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Payload::variant>);
  // And the wire has no kind that the core has not: std::monostate is "not set".
  EXPECT_EQ(static_cast<size_t>(v1::Outcome::descriptor()->oneof_decl(0)->field_count()) + 1, kinds.size());
}

TEST(OutcomesForTheWire, CarryStatusErrorAndHint) {
  v1::Outcome message;
  ToProto(Outcome{.status = NdkStatus::kSharingViolation,
                  .provider_error = 98,
                  .retryable = true,
                  .retry_same_qp = true,
                  .hint = "address: in use"},
          &message);
  EXPECT_EQ(message.DebugString(),
            FromText<v1::Outcome>("status: STATUS_SHARING_VIOLATION provider_error: 98 retryable: true "
                                  "retry_same_qp: true hint: 'address: in use'")
                .DebugString());
}

TEST(OutcomesForTheWire, EndLongHintsBetweenCharacters) {
  for (size_t ascii = 1000; ascii < 1030; ++ascii) {
    const std::string hint = std::string(ascii, 'x') + "\u20AC\u20AC\u20AC\u20AC\u20AC\u20AC\u20AC\u20AC\u20AC";
    v1::Outcome message;
    ToProto(Outcome{.status = NdkStatus::kUnsuccessful, .hint = hint}, &message);
    EXPECT_LE(message.hint().size(), 1024u);
    EXPECT_GT(message.hint().size(), 1021u) << ascii;
    EXPECT_EQ(hint.compare(0, message.hint().size(), message.hint()), 0);
    // Whole characters: a euro sign has three bytes.
    const size_t euros = message.hint().size() - std::min(ascii, message.hint().size());
    EXPECT_EQ(euros % 3, 0u) << ascii;
  }
}

TEST(EventsForTheWire, CarryEveryKindOfEvent) {
  const std::vector<std::pair<SessionEvent, std::string>> rows = {
      {OutcomeEvent{RequestId(4), {.status = NdkStatus::kCancelled}},
       "outcome { request_id: 4 outcome { status: STATUS_CANCELLED } }"},
      {ConnectEvent{ListenerId(6), ConnectorId(9), NumberedData(), AdapterId(5)},
       std::string("connect { adapter_id: 5 listener_id: 6 connector_id: 9 data { ") + kDataText + "} }"},
      {DisconnectEvent{ConnectorId(9), NdkStatus::kConnectionAborted, 104},
       absl::StrCat("disconnect { connector_id: 9 status: STATUS_CONNECTION_ABORTED provider_error: 104 hint: \"",
                    ConnectionEndText(NdkStatus::kConnectionAborted, 104), "\" }")},
      {AdapterRemovedEvent{AdapterId(5)}, "adapter_removed { adapter_id: 5 }"},
      {AdapterDisabledEvent{AdapterId(6)}, "adapter_disabled { adapter_id: 6 }"},
      {AddressEvent{ListenerId(7), true}, "listener_address { listener_id: 7 present: true }"},
      {AddressEvent{SharedEndpointId(8), true}, "endpoint_address { shared_endpoint_id: 8 present: true }"},
      {AddressEvent{ReservationId(9), false}, "endpoint_address { reservation_id: 9 }"},
  };
  std::set<size_t> kinds;
  std::set<int> cases;
  for (const auto& [event, text] : rows) {
    kinds.insert(event.index());
    v1::SessionEvent message;
    ToProto(NumberedEvent{SessionId(1), StreamId(2), EventNumber(3), event}, &message);
    cases.insert(message.event_case());
    EXPECT_EQ(message.DebugString(), FromText<v1::SessionEvent>("number: 3 " + text).DebugString());
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<SessionEvent::variant>);
  EXPECT_EQ(static_cast<size_t>(v1::SessionEvent::descriptor()->oneof_decl(0)->field_count()), cases.size());
}

TEST(LimitsForTheWire, AreTheCoresFieldByField) {
  const Limits limits{.sessions_per_uid = 1,
                      .endpoints_per_uid = 17,
                      .objects_per_uid = 19,
                      .kept_bytes_per_uid = uint64_t{1} << 32,
                      .adapters_per_session = 2,
                      .listeners_per_session = 3,
                      .shared_endpoints_per_session = 4,
                      .reservations_per_session = 5,
                      .connectors_per_session = 6,
                      .answers_kept = 7,
                      .events_kept = 8,
                      .backlog = 9,
                      .connect_timeout = absl::Milliseconds(10),
                      .establish_timeout = absl::Milliseconds(11),
                      .disconnect_timeout = absl::Milliseconds(12),
                      .handoff_timeout = absl::Milliseconds(13),
                      .session_grace = absl::Milliseconds(14),
                      .accept_on_closing_listener = true,
                      .first_unprivileged_port = 18,
                      .first_ephemeral_port = 15,
                      .last_ephemeral_port = 16};
  v1::Limits message;
  ToProto(limits, &message);
  EXPECT_EQ(
      message.DebugString(),
      FromText<v1::Limits>(
          "sessions_per_uid: 1 adapters_per_session: 2 listeners_per_session: 3 shared_endpoints_per_session: 4 "
          "reservations_per_session: 5 connectors_per_session: 6 answers_kept: 7 events_kept: 8 backlog: 9 "
          "connect_timeout_ms: 10 establish_timeout_ms: 11 disconnect_timeout_ms: 12 handoff_timeout_ms: 13 "
          "session_grace_ms: 14 first_ephemeral_port: 15 last_ephemeral_port: 16 "
          "endpoints_per_uid: 17 first_unprivileged_port: 18 objects_per_uid: 19 accept_on_closing_listener: true "
          "kept_bytes_per_uid: 4294967296")
          .DebugString());
  for (int i = 0; i < v1::Limits::descriptor()->field_count(); ++i) {
    const FieldDescriptor* field = v1::Limits::descriptor()->field(i);
    EXPECT_TRUE(message.GetReflection()->HasField(message, field)) << field->name();
  }
}

TEST(DevicesForTheWire, AreTheFabricsFieldByField) {
  DeviceRecord record;
  Device& device = record.device;
  device.name = "iwarp0";
  device.info = NumberedInfo();
  device.network_namespace = 4026531840;
  device.port_space = PortSpace::kTcp;
  device.addresses = {*IpAddress::Parse("192.0.2.1"), *IpAddress::Parse("fe80::1%1"),
                      *IpAddress::Parse("fe80::1%4294967295")};
  device.client_ends_connections = true;
  device.mtu = 1024;
  v1::Device message;
  ToProto(record, &message);
  const std::string text = std::string(R"(name: "iwarp0" addresses { ip: "\300\000\002\001" }
      addresses { ip: "\376\200\0\0\0\0\0\0\0\0\0\0\0\0\0\001" scope_id: 1 interface: "lo" }
      addresses { ip: "\376\200\0\0\0\0\0\0\0\0\0\0\0\0\0\001" scope_id: 4294967295 } port_space: PORT_SPACE_TCP
      network_namespace: 4026531840 client_ends_connections: true usable: true mtu: 1024 )") +
                           kInfoText;
  EXPECT_EQ(message.DebugString(), FromText<v1::Device>(text).DebugString());
  device.unusable_reason = "its cable is out";
  ToProto(record, &message);
  EXPECT_FALSE(message.usable());
  EXPECT_EQ(message.unusable_reason(), "its cable is out");
  EXPECT_EQ(ToState(record), v1::DEVICE_STATE_ENABLED);
  record.disabled = true;
  ToProto(record, &message);
  EXPECT_FALSE(message.usable());
  EXPECT_EQ(message.unusable_reason().substr(0, 28), "disabled by an administrator");
  EXPECT_EQ(ToState(record), v1::DEVICE_STATE_DISABLED);
  record.adapters = 1;
  EXPECT_EQ(ToState(record), v1::DEVICE_STATE_DISABLING);
  EXPECT_EQ(ToProto(PortSpace::kRdmaCm), v1::PORT_SPACE_RDMA_CM);
}

TEST(StatusesForTheWire, KeepTheirNames) {
  const auto* statuses = v1::NdkStatus_descriptor();
  for (int i = 0; i < statuses->value_count(); ++i) {
    EXPECT_EQ(ToProto(*StatusFromName(statuses->value(i)->name())), statuses->value(i)->number());
  }
}

TEST(Secrets, AreExactlySixteenBytes) {
  SessionSecret secret = {};
  for (const size_t size : {0, 1, 15, 17, 1000}) EXPECT_FALSE(SecretFromBytes(std::string(size, 'x'), &secret));
  const std::string bytes(
      "0123\0\xff"
      "6789abcdef",
      16);
  ASSERT_TRUE(SecretFromBytes(bytes, &secret));
  EXPECT_EQ(BytesToProto(secret), bytes);
}

}  // namespace
}  // namespace rdmabroker
