// SPDX-License-Identifier: Apache-2.0

// Requests that cannot be carried out, as a client's own or another's fault: each gets a clear error and changes
// nothing, and the broker serves on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/control/network_thread.h"
#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

using Stub = v1::Broker::Stub;
using testing::HasSubstr;

class RequestsTest : public testing::Test {
 protected:
  explicit RequestsTest(Configuration configuration = TestConfiguration())
      : daemon_(network_, {TestDevice(1)}, std::move(configuration)) {
    EXPECT_EQ(client_.Open(), NdkStatus::kSuccess);
    EXPECT_EQ(other_.Open(), NdkStatus::kSuccess);
    adapter_ = client_.OpenAdapter("fake1");
    other_adapter_ = other_.OpenAdapter("fake1");
  }

  template <typename Request>
  void ExpectRefused(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, v1::Outcome*), Request request,
                     NdkStatus status, const std::string& hint) {
    const v1::Outcome outcome = client_.Ask(method, std::move(request));
    EXPECT_EQ(NdkStatusOf(outcome), status) << outcome.DebugString();
    EXPECT_THAT(outcome.hint(), HasSubstr(hint));
  }

  NetworkThread network_;
  TestDaemon daemon_;
  TestClient client_{NewChannel(daemon_.target())};
  TestClient other_{NewChannel(daemon_.target())};
  uint64_t adapter_ = 0;
  uint64_t other_adapter_ = 0;
};

TEST_F(RequestsTest, ASessionThatIsMissingUnknownOrOnAnotherConnectionIsRefused) {
  const auto ask = [&](TestClient& client, uint64_t session) {
    v1::CreateConnectorRequest request;
    request.set_adapter_id(adapter_);
    request.mutable_header()->set_session_id(session);
    request.mutable_header()->set_request_id(1000);
    grpc::ClientContext context;
    Limit(context);
    v1::Outcome outcome;
    return NdkStatusOf(client.stub().CreateConnector(&context, request, &outcome));
  };
  EXPECT_EQ(ask(client_, 0), NdkStatus::kInvalidParameter);
  EXPECT_EQ(ask(client_, 4711), NdkStatus::kObjectNameNotFound);
  EXPECT_EQ(ask(other_, client_.session_id()), NdkStatus::kAccessDenied);
  EXPECT_EQ(ask(client_, other_.session_id()), NdkStatus::kAccessDenied);
  EXPECT_EQ(ask(client_, client_.session_id()), NdkStatus::kSuccess);
  // The header may be missing altogether.
  grpc::ClientContext context;
  Limit(context);
  v1::Outcome outcome;
  v1::CreateConnectorRequest request;
  request.set_adapter_id(adapter_);
  EXPECT_EQ(NdkStatusOf(client_.stub().CreateConnector(&context, request, &outcome)), NdkStatus::kInvalidParameter);
}

TEST_F(RequestsTest, UnknownIdsAreNotFound) {
  constexpr uint64_t kUnknown = 4711;
  v1::CloseAdapterRequest close_adapter;
  close_adapter.set_adapter_id(kUnknown);
  ExpectRefused(&Stub::CloseAdapter, close_adapter, NdkStatus::kObjectNameNotFound, "adapter 4711: unknown");
  v1::CreateListenerRequest create_listener;
  create_listener.set_adapter_id(kUnknown);
  ExpectRefused(&Stub::CreateListener, create_listener, NdkStatus::kObjectNameNotFound, "adapter 4711: unknown");
  v1::ListenRequest listen;
  listen.set_listener_id(kUnknown);
  *listen.mutable_address() = ToMessage(TestAddress(1));
  ExpectRefused(&Stub::Listen, listen, NdkStatus::kObjectNameNotFound, "listener 4711: unknown");
  v1::CloseSharedEndpointRequest close_shared;
  close_shared.set_shared_endpoint_id(kUnknown);
  ExpectRefused(&Stub::CloseSharedEndpoint, close_shared, NdkStatus::kObjectNameNotFound, "shared endpoint 4711");
  v1::ReleasePortRequest release;
  release.set_reservation_id(kUnknown);
  ExpectRefused(&Stub::ReleasePort, release, NdkStatus::kObjectNameNotFound, "reservation 4711: unknown");
  v1::GetConnectionDataRequest data;
  data.set_connector_id(kUnknown);
  ExpectRefused(&Stub::GetConnectionData, data, NdkStatus::kObjectNameNotFound, "connector 4711: unknown");
  v1::OpenAdapterRequest open;
  open.set_device("nothing");
  open.mutable_version()->set_major(2);
  ExpectRefused(&Stub::OpenAdapter, open, NdkStatus::kObjectNameNotFound, "nothing");
}

TEST_F(RequestsTest, ObjectsOfAnotherSessionAreRefused) {
  const auto [listener, address] = other_.Listen(other_adapter_, TestAddress(1));
  const uint64_t connector = other_.CreateConnector(other_adapter_);
  v1::CloseAdapterRequest close_adapter;
  close_adapter.set_adapter_id(other_adapter_);
  ExpectRefused(&Stub::CloseAdapter, close_adapter, NdkStatus::kAccessDenied, "belongs to another session");
  v1::CreateConnectorRequest create;
  create.set_adapter_id(other_adapter_);
  ExpectRefused(&Stub::CreateConnector, create, NdkStatus::kAccessDenied, "belongs to another session");
  v1::CloseListenerRequest close_listener;
  close_listener.set_listener_id(listener);
  ExpectRefused(&Stub::CloseListener, close_listener, NdkStatus::kAccessDenied, "belongs to another session");
  v1::CloseConnectorRequest close_connector;
  close_connector.set_connector_id(connector);
  ExpectRefused(&Stub::CloseConnector, close_connector, NdkStatus::kAccessDenied, "belongs to another session");
  v1::RejectRequest reject;
  reject.set_connector_id(connector);
  ExpectRefused(&Stub::Reject, reject, NdkStatus::kAccessDenied, "belongs to another session");
  EXPECT_EQ(NdkStatusOf(other_.CloseListener(listener)), NdkStatus::kSuccess);
  EXPECT_EQ(NdkStatusOf(other_.CloseConnector(connector)), NdkStatus::kSuccess);
}

TEST_F(RequestsTest, ARepeatedRequestGetsTheFirstAnswerAndIsNotDoneTwice) {
  v1::CreateConnectorRequest request;
  request.set_adapter_id(adapter_);
  request.mutable_header()->set_request_id(20);
  const v1::Outcome first = client_.Ask(&Stub::CreateConnector, request);
  const v1::Outcome second = client_.Ask(&Stub::CreateConnector, request);
  EXPECT_EQ(first.DebugString(), second.DebugString());
  EXPECT_TRUE(daemon_.Eventually([](const Records& records) { return records.connectors.size() == 1; }));
  // A pending one, too: PENDING again, and one outcome.
  v1::ReservePortRequest reserve;
  reserve.set_adapter_id(adapter_);
  *reserve.mutable_address() = ToMessage(TestAddress(1));
  reserve.mutable_header()->set_request_id(21);
  EXPECT_EQ(NdkStatusOf(client_.Ask(&Stub::ReservePort, reserve)), NdkStatus::kPending);
  client_.WaitForOutcome(21);
  EXPECT_EQ(NdkStatusOf(client_.Ask(&Stub::ReservePort, reserve)), NdkStatus::kPending);
  EXPECT_TRUE(daemon_.Eventually([](const Records& records) { return records.reservations.size() == 1; }));
  EXPECT_TRUE(client_.TakeEvents().empty());
  // An error, too.
  v1::CloseAdapterRequest wrong;
  wrong.set_adapter_id(4711);
  wrong.mutable_header()->set_request_id(22);
  EXPECT_EQ(client_.Ask(&Stub::CloseAdapter, wrong).DebugString(),
            client_.Ask(&Stub::CloseAdapter, wrong).DebugString());
}

TEST_F(RequestsTest, AnIdOfAnotherRequestTooOldOrZeroIsRefused) {
  v1::CreateConnectorRequest request;
  request.set_adapter_id(adapter_);
  request.mutable_header()->set_request_id(500);
  EXPECT_EQ(NdkStatusOf(client_.Ask(&Stub::CreateConnector, request)), NdkStatus::kSuccess);
  v1::CreateListenerRequest another;
  another.set_adapter_id(adapter_);
  another.mutable_header()->set_request_id(500);
  ExpectRefused(&Stub::CreateListener, another, NdkStatus::kInvalidParameter, "request_id: 500 was another request's");
  another.mutable_header()->set_request_id(500 - 64);
  ExpectRefused(&Stub::CreateListener, another, NdkStatus::kInvalidParameter, "request_id: 436 is more than 64 behind");
  another.mutable_header()->set_request_id(500 - 63);
  EXPECT_EQ(NdkStatusOf(client_.Ask(&Stub::CreateListener, another)), NdkStatus::kSuccess);
  grpc::ClientContext context;
  Limit(context);
  v1::Outcome outcome;
  another.mutable_header()->set_session_id(client_.session_id());
  another.mutable_header()->set_request_id(0);
  EXPECT_EQ(NdkStatusOf(client_.stub().CreateListener(&context, another, &outcome)), NdkStatus::kInvalidParameter);
}

// Fields beyond their form never reach the core; the translation's test has a row for each of them.
TEST_F(RequestsTest, MalformedFieldsChangeNothing) {
  v1::ReservePortRequest reserve;
  reserve.set_adapter_id(adapter_);
  reserve.mutable_address()->set_ip("123");
  ExpectRefused(&Stub::ReservePort, reserve, NdkStatus::kInvalidParameter, "address.ip: 3 bytes");
  v1::OpenAdapterRequest open;
  open.set_device(std::string(60000, 'x'));
  open.mutable_version()->set_major(2);
  ExpectRefused(&Stub::OpenAdapter, open, NdkStatus::kInvalidParameter, "device: longer than 63 bytes");
  EXPECT_TRUE(daemon_.Eventually(
      [](const Records& records) { return records.reservations.empty() && records.adapters.size() == 2; }));
  // A malformed request uses its id up as little as its number of events.
  EXPECT_NE(client_.CreateConnector(adapter_), 0u);
}

TEST_F(RequestsTest, AMessageBeyondTheLimitIsRefusedAndTheConnectionServesOn) {
  v1::RejectRequest reject;
  reject.set_connector_id(1);
  reject.set_private_data(std::string(70000, 'x'));
  reject.mutable_header()->set_session_id(client_.session_id());
  reject.mutable_header()->set_request_id(900);
  grpc::ClientContext context;
  Limit(context);
  v1::Outcome outcome;
  const grpc::Status status = client_.stub().Reject(&context, reject, &outcome);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << status.error_message();
  EXPECT_NE(client_.CreateConnector(adapter_), 0u);
}

// However much it says when it is decompressed, nobody decompresses it.
TEST_F(RequestsTest, ACompressedMessageIsRefusedAndTheConnectionServesOn) {
  v1::RejectRequest reject;
  reject.set_connector_id(1);
  reject.set_private_data(std::string(10 << 20, 'x'));
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context;
    Limit(context);
    context.set_compression_algorithm(algorithm);
    v1::Outcome outcome;
    const grpc::Status status = client_.stub().Reject(&context, reject, &outcome);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
  }
  EXPECT_NE(client_.CreateConnector(adapter_), 0u);
}

TEST_F(RequestsTest, TextThatIsNoUtf8IsRefusedAndTheConnectionServesOn) {
  v1::OpenAdapterRequest open;
  open.set_device("\xff\xfe");
  open.mutable_version()->set_major(2);
  EXPECT_NE(NdkStatusOf(client_.Ask(&Stub::OpenAdapter, open)), NdkStatus::kSuccess);
  EXPECT_NE(client_.CreateConnector(adapter_), 0u);
}

TEST_F(RequestsTest, AnAddressThatIsNotTheAdaptersIsRefused) {
  v1::ReservePortRequest reserve;
  reserve.set_adapter_id(adapter_);
  *reserve.mutable_address() = ToMessage(TestAddress(9, 4420));
  ExpectRefused(&Stub::ReservePort, reserve, NdkStatus::kInvalidAddress, "192.0.2.9:4420: not an address of fake1");
  v1::CreateSharedEndpointRequest shared;
  shared.set_adapter_id(adapter_);
  *shared.mutable_address() = ToMessage({IpAddress::Any(IpFamily::kIpv4), 4420});
  ExpectRefused(&Stub::CreateSharedEndpoint, shared, NdkStatus::kInvalidAddress, "0.0.0.0:4420: a wildcard");
}

TEST_F(RequestsTest, APortInUseIsRefused) {
  const auto [listener, address] = other_.Listen(other_adapter_, TestAddress(1, 4420));
  v1::ReservePortRequest reserve;
  reserve.set_adapter_id(adapter_);
  *reserve.mutable_address() = ToMessage(address);
  ExpectRefused(&Stub::ReservePort, reserve, NdkStatus::kSharingViolation, "192.0.2.1:4420: in use by a client");
  // By somebody outside the broker: only the fabric can tell.
  network_.Do([](FakeNetwork& network) { EXPECT_TRUE(network.Occupy({1, PortSpace::kRdmaCm, TestAddress(1, 4421)})); });
  *reserve.mutable_address() = ToMessage(TestAddress(1, 4421));
  const v1::Outcome outcome = client_.Finish(&Stub::ReservePort, reserve);
  EXPECT_EQ(NdkStatusOf(outcome), NdkStatus::kSharingViolation);
  EXPECT_THAT(outcome.hint(), HasSubstr("in use by a process outside the broker"));
  EXPECT_EQ(NdkStatusOf(other_.CloseListener(listener)), NdkStatus::kSuccess);
}

TEST_F(RequestsTest, AConnectWithoutASourceLeavesFromWhereTheRouteDoes) {
  const auto [listener, address] = other_.Listen(other_adapter_, TestAddress(1));
  v1::ConnectRequest connect;
  connect.set_connector_id(client_.CreateConnector(adapter_));
  connect.set_qp_number(900);
  *connect.mutable_destination() = ToMessage(address);
  EXPECT_EQ(NdkStatusOf(client_.Ask(&Stub::Connect, connect)), NdkStatus::kPending);
  EXPECT_EQ(FromMessage(other_.WaitForConnect().data().peer()).ip, TestAddress(1).ip);
  // Of a family that the network has no route for.
  connect.set_connector_id(client_.CreateConnector(adapter_));
  connect.set_qp_number(901);
  *connect.mutable_destination() = ToMessage(*SocketAddress::Parse("[2001:db8::9]:1"));
  ExpectRefused(&Stub::Connect, connect, NdkStatus::kNetworkUnreachable, "[2001:db8::9]:1: no source by route");
}

TEST_F(RequestsTest, PrivateDataThatIsTooLongLeavesTheConnectorAsItWas) {
  const auto [listener, address] = other_.Listen(other_adapter_, TestAddress(1));
  const uint64_t connector = client_.CreateConnector(adapter_);
  v1::ConnectRequest connect;
  connect.set_connector_id(connector);
  connect.set_qp_number(900);
  *connect.mutable_source() = ToMessage(TestAddress(1));
  *connect.mutable_destination() = ToMessage(address);
  connect.set_private_data(std::string(57, 'x'));
  ExpectRefused(&Stub::Connect, connect, NdkStatus::kInvalidBufferSize, "57");
  connect.set_private_data(std::string(56, 'x'));
  EXPECT_EQ(NdkStatusOf(client_.Ask(&Stub::Connect, connect)), NdkStatus::kPending);
  const v1::ConnectEvent event = other_.WaitForConnect();
  EXPECT_EQ(event.data().private_data(), std::string(56, 'x'));
  v1::AcceptRequest accept;
  accept.set_connector_id(event.connector_id());
  accept.set_qp_number(901);
  accept.set_private_data(std::string(149, 'x'));
  EXPECT_EQ(NdkStatusOf(other_.Ask(&Stub::Accept, accept)), NdkStatus::kInvalidBufferSize);
  accept.set_private_data(std::string(148, 'x'));
  EXPECT_EQ(NdkStatusOf(other_.Ask(&Stub::Accept, accept)), NdkStatus::kPending);
}

TEST_F(RequestsTest, QueuePairsAndConnectorsInTheWrongStateAreRefused) {
  const auto [listener, address] = other_.Listen(other_adapter_, TestAddress(1));
  const uint64_t connector = client_.CreateConnector(adapter_);
  v1::CompleteConnectRequest complete;
  complete.set_connector_id(connector);
  ExpectRefused(&Stub::CompleteConnect, complete, NdkStatus::kConnectionInvalid, "connector");
  v1::AcceptRequest accept;
  accept.set_connector_id(connector);
  accept.set_qp_number(800);
  ExpectRefused(&Stub::Accept, accept, NdkStatus::kConnectionInvalid, "connector");
  v1::DisconnectRequest disconnect;
  disconnect.set_connector_id(connector);
  ExpectRefused(&Stub::Disconnect, disconnect, NdkStatus::kConnectionInvalid, "connector");
  v1::ReportConnectionEndRequest report;
  report.set_connector_id(connector);
  ExpectRefused(&Stub::ReportConnectionEnd, report, NdkStatus::kConnectionInvalid, "connector");

  client_.StartConnect(connector, 800, TestAddress(1), address);
  other_.WaitForConnect();
  v1::ConnectRequest connect;
  connect.set_connector_id(connector);
  connect.set_qp_number(801);
  *connect.mutable_source() = ToMessage(TestAddress(1));
  *connect.mutable_destination() = ToMessage(address);
  ExpectRefused(&Stub::Connect, connect, NdkStatus::kConnectionActive, "is connecting or connected already");
  connect.set_connector_id(client_.CreateConnector(adapter_));
  connect.set_qp_number(800);
  ExpectRefused(&Stub::Connect, connect, NdkStatus::kConnectionActive, "800");
  for (const uint32_t number : {0u, 0x1000000u, 0xFFFFFFFFu}) {
    connect.set_qp_number(number);
    ExpectRefused(&Stub::Connect, connect, NdkStatus::kInvalidParameter, "qp_number");
  }
  connect.set_qp_number(801);
  connect.mutable_destination()->set_port(0);
  ExpectRefused(&Stub::Connect, connect, NdkStatus::kInvalidParameter, "destination");
}

class LimitedRequestsTest : public RequestsTest {
 protected:
  LimitedRequestsTest() : RequestsTest(Limited()) {}
  static Configuration Limited() {
    Configuration configuration = TestConfiguration();
    configuration.limits.adapters_per_session = 1;
    configuration.limits.listeners_per_session = 1;
    configuration.limits.shared_endpoints_per_session = 1;
    configuration.limits.reservations_per_session = 1;
    configuration.limits.connectors_per_session = 1;
    return configuration;
  }
};

TEST_F(LimitedRequestsTest, MoreObjectsThanASessionMayHaveAreRefused) {
  v1::OpenAdapterRequest open;
  open.set_device("fake1");
  open.mutable_version()->set_major(2);
  ExpectRefused(&Stub::OpenAdapter, open, NdkStatus::kInsufficientResources, "1");
  v1::CreateListenerRequest create_listener;
  create_listener.set_adapter_id(adapter_);
  EXPECT_EQ(NdkStatusOf(client_.Ask(&Stub::CreateListener, create_listener)), NdkStatus::kSuccess);
  ExpectRefused(&Stub::CreateListener, create_listener, NdkStatus::kInsufficientResources, "1");
  v1::CreateSharedEndpointRequest shared;
  shared.set_adapter_id(adapter_);
  *shared.mutable_address() = ToMessage(TestAddress(1));
  EXPECT_EQ(NdkStatusOf(client_.Finish(&Stub::CreateSharedEndpoint, shared)), NdkStatus::kSuccess);
  ExpectRefused(&Stub::CreateSharedEndpoint, shared, NdkStatus::kInsufficientResources, "1");
  v1::ReservePortRequest reserve;
  reserve.set_adapter_id(adapter_);
  *reserve.mutable_address() = ToMessage(TestAddress(1));
  EXPECT_EQ(NdkStatusOf(client_.Finish(&Stub::ReservePort, reserve)), NdkStatus::kSuccess);
  ExpectRefused(&Stub::ReservePort, reserve, NdkStatus::kInsufficientResources, "1");
  const uint64_t connector = client_.CreateConnector(adapter_);
  v1::CreateConnectorRequest create;
  create.set_adapter_id(adapter_);
  ExpectRefused(&Stub::CreateConnector, create, NdkStatus::kInsufficientResources, "1");
  EXPECT_EQ(NdkStatusOf(client_.CloseConnector(connector)), NdkStatus::kSuccess);
  EXPECT_NE(client_.CreateConnector(adapter_), 0u);
  // Another session has its own.
  EXPECT_NE(other_.CreateConnector(other_adapter_), 0u);
}

}  // namespace
}  // namespace rdmabroker
