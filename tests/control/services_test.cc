// SPDX-License-Identifier: Apache-2.0

// What is served beside the control contract itself: inspection, administration, health; and the end.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "broker/control/health_service.h"
#include "broker/fabric/fabric.h"
#include "broker/runtime/loop.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "proto/rdmabroker/v1/administration.grpc.pb.h"
#include "proto/rdmabroker/v1/inspection.grpc.pb.h"
#include "tests/control/network_thread.h"
#include "tests/control/patience.h"
#include "tests/control/temporary_folder.h"
#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

using Stub = v1::Broker::Stub;
using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// Anybody but root and this process's user.
constexpr uid_t kSomebody = 54321;
constexpr uid_t kSomebodyElse = 54322;

template <typename Service, typename Request, typename Reply>
grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel,
                  grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                  const Request& request, Reply* reply) {
  auto stub = Service::NewStub(channel);
  grpc::ClientContext context;
  Limit(context);
  return (stub.get()->*method)(&context, request, reply);
}

class InspectionTest : public testing::Test {
 protected:
  v1::ListConnectorsReply Connectors(const std::shared_ptr<grpc::Channel>& channel, uint64_t after = 0,
                                     uint32_t limit = 0) {
    v1::ListConnectorsRequest request;
    request.mutable_page()->set_after(after);
    request.mutable_page()->set_limit(limit);
    v1::ListConnectorsReply reply;
    const grpc::Status status = Call<v1::Inspection>(channel, &v1::Inspection::Stub::ListConnectors, request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply;
  }
  v1::ListAdaptersReply Adapters(const std::shared_ptr<grpc::Channel>& channel) {
    v1::ListAdaptersReply reply;
    EXPECT_TRUE(
        Call<v1::Inspection>(channel, &v1::Inspection::Stub::ListAdapters, v1::ListAdaptersRequest(), &reply).ok());
    return reply;
  }
  v1::ListSessionsReply Sessions(const std::shared_ptr<grpc::Channel>& channel) {
    v1::ListSessionsReply reply;
    EXPECT_TRUE(
        Call<v1::Inspection>(channel, &v1::Inspection::Stub::ListSessions, v1::ListSessionsRequest(), &reply).ok());
    return reply;
  }

  NetworkThread network_;
  TestDaemon daemon_{network_, {TestDevice(1), TestDevice(2)}};
};

TEST_F(InspectionTest, ShowsEveryObjectOfAConnection) {
  TestClient server(NewChannel(daemon_.target()));
  TestClient client(NewChannel(daemon_.target()));
  ASSERT_EQ(server.Open(), NdkStatus::kSuccess);
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  const uint64_t server_adapter = server.OpenAdapter("fake1");
  const uint64_t client_adapter = client.OpenAdapter("fake2");
  const auto [listener, address] = server.Listen(server_adapter, TestAddress(1));
  const TestConnection connection = ConnectClients(server, address, client, client_adapter, TestAddress(2));
  const auto channel = NewChannel(daemon_.target());

  v1::ListAdaptersReply adapters;
  ASSERT_TRUE(
      Call<v1::Inspection>(channel, &v1::Inspection::Stub::ListAdapters, v1::ListAdaptersRequest(), &adapters).ok());
  ASSERT_EQ(adapters.devices_size(), 2);
  EXPECT_EQ(adapters.devices(0).name(), "fake1");
  EXPECT_EQ(adapters.devices(1).name(), "fake2");
  EXPECT_TRUE(adapters.devices(0).usable());
  ASSERT_EQ(adapters.activities_size(), 2);
  EXPECT_EQ(adapters.activities(0).adapters(), 1u);
  EXPECT_EQ(adapters.activities(0).active_connections(), 1u);
  EXPECT_EQ(adapters.activities(0).accepts(), 1u);
  EXPECT_EQ(adapters.activities(0).connects(), 0u);
  EXPECT_EQ(adapters.activities(1).connects(), 1u);
  EXPECT_EQ(adapters.activities(1).connect_failures(), 0u);
  EXPECT_EQ(adapters.activities(1).connection_errors(), 0u);

  v1::ListListenersReply listeners;
  ASSERT_TRUE(
      Call<v1::Inspection>(channel, &v1::Inspection::Stub::ListListeners, v1::ListListenersRequest(), &listeners).ok());
  ASSERT_EQ(listeners.listeners_size(), 1);
  EXPECT_EQ(listeners.listeners(0).listener_id(), listener);
  EXPECT_EQ(listeners.listeners(0).state(), v1::LISTENER_STATE_LISTENING);
  EXPECT_EQ(listeners.listeners(0).successors(), 1u);
  EXPECT_EQ(listeners.listeners(0).undecided_connectors(), 0u);
  EXPECT_EQ(FromMessage(listeners.listeners(0).address()), address);
  ASSERT_EQ(listeners.listeners(0).answers_at_size(), 1);
  EXPECT_EQ(listeners.listeners(0).answers_at(0).ip(), listeners.listeners(0).address().ip());

  v1::ListEndpointsReply endpoints;
  ASSERT_TRUE(
      Call<v1::Inspection>(channel, &v1::Inspection::Stub::ListEndpoints, v1::ListEndpointsRequest(), &endpoints).ok());
  ASSERT_EQ(endpoints.endpoints_size(), 2);
  EXPECT_EQ(endpoints.endpoints(0).endpoint_id(), listeners.listeners(0).endpoint_id());
  EXPECT_EQ(endpoints.endpoints(0).use(), v1::ENDPOINT_USE_LISTENER);
  EXPECT_EQ(endpoints.endpoints(0).state(), v1::ENDPOINT_STATE_BOUND);
  EXPECT_EQ(endpoints.endpoints(0).references(), 2u);
  EXPECT_EQ(endpoints.endpoints(0).connections(), 1u);
  EXPECT_EQ(endpoints.endpoints(0).session_id(), server.session_id());
  EXPECT_EQ(endpoints.endpoints(0).device(), "fake1");
  EXPECT_EQ(endpoints.endpoints(1).use(), v1::ENDPOINT_USE_DEDICATED);
  EXPECT_EQ(endpoints.endpoints(1).references(), 1u);

  const v1::ListConnectorsReply connectors = Connectors(channel);
  ASSERT_EQ(connectors.connectors_size(), 2);
  EXPECT_EQ(connectors.next(), 0u);
  for (const v1::ConnectorInfo& row : connectors.connectors()) {
    const bool active = row.connector_id() == connection.active;
    EXPECT_EQ(row.state(), v1::CONNECTOR_STATE_ESTABLISHED);
    EXPECT_EQ(row.listener_id(), active ? 0 : listener);
    EXPECT_EQ(row.session_id(), active ? client.session_id() : server.session_id());
    EXPECT_EQ(FromMessage(active ? row.peer() : row.local()), address);
    EXPECT_TRUE(row.has_limits());
    EXPECT_NE(row.qp_number(), 0u);
    EXPECT_EQ(row.dead_status(), v1::STATUS_SUCCESS);
    EXPECT_EQ(row.pid(), ::getpid());
  }
  const v1::ListSessionsReply sessions = Sessions(channel);
  ASSERT_EQ(sessions.sessions_size(), 2);
  EXPECT_EQ(sessions.sessions(0).state(), v1::SESSION_STATE_OPEN);
  EXPECT_EQ(sessions.sessions(0).pid(), ::getpid());
  EXPECT_EQ(sessions.sessions(0).listeners(), 1u);
  EXPECT_EQ(sessions.sessions(1).connectors(), 1u);
}

TEST_F(InspectionTest, ShowsSharedEndpointsAndTheirConnectors) {
  TestClient server(NewChannel(daemon_.target()));
  TestClient client(NewChannel(daemon_.target()));
  ASSERT_EQ(server.Open(), NdkStatus::kSuccess);
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  const auto [listener, address] = server.Listen(server.OpenAdapter("fake2"), TestAddress(2));
  const uint64_t adapter = client.OpenAdapter("fake1");
  std::vector<v1::SharedEndpointCreated> made;
  v1::CreateSharedEndpointRequest create;
  create.set_adapter_id(adapter);
  *create.mutable_address() = ToMessage(TestAddress(1));
  for (int i = 0; i < 2; ++i) {
    made.push_back(client.Finish(&Stub::CreateSharedEndpoint, create).shared_endpoint_created());
  }
  v1::ConnectWithSharedEndpointRequest connect;
  connect.set_connector_id(client.CreateConnector(adapter));
  connect.set_qp_number(2);
  connect.set_shared_endpoint_id(made[1].shared_endpoint_id());
  *connect.mutable_destination() = ToMessage(address);
  EXPECT_EQ(NdkStatusOf(client.Ask(&Stub::ConnectWithSharedEndpoint, connect)), NdkStatus::kPending);
  server.WaitForConnect();
  v1::CloseSharedEndpointRequest close;
  close.set_shared_endpoint_id(made[1].shared_endpoint_id());
  EXPECT_EQ(NdkStatusOf(client.Ask(&Stub::CloseSharedEndpoint, close)), NdkStatus::kPending);

  const auto channel = NewChannel(daemon_.target());
  v1::ListEndpointsReply endpoints;
  ASSERT_TRUE(
      Call<v1::Inspection>(channel, &v1::Inspection::Stub::ListEndpoints, v1::ListEndpointsRequest(), &endpoints).ok());
  v1::ListSharedEndpointsRequest request;
  request.mutable_page()->set_limit(1);
  for (size_t i = 0; i < made.size(); ++i) {
    v1::ListSharedEndpointsReply reply;
    ASSERT_TRUE(Call<v1::Inspection>(channel, &v1::Inspection::Stub::ListSharedEndpoints, request, &reply).ok());
    ASSERT_EQ(reply.shared_endpoints_size(), 1);
    const v1::SharedEndpointInfo& row = reply.shared_endpoints(0);
    EXPECT_EQ(row.shared_endpoint_id(), made[i].shared_endpoint_id());
    EXPECT_EQ(row.session_id(), client.session_id());
    EXPECT_EQ(row.adapter_id(), adapter);
    EXPECT_EQ(row.device(), "fake1");
    EXPECT_EQ(FromMessage(row.address()), FromMessage(made[i].address()));
    EXPECT_EQ(row.successors(), i);
    EXPECT_EQ(row.closing(), i == 1);
    const auto endpoint = std::find_if(endpoints.endpoints().begin(), endpoints.endpoints().end(),
                                       [&](const auto& e) { return e.endpoint_id() == row.endpoint_id(); });
    ASSERT_NE(endpoint, endpoints.endpoints().end());
    EXPECT_EQ(endpoint->use(), v1::ENDPOINT_USE_SHARED);
    EXPECT_EQ(reply.next(), i == 0 ? made[0].shared_endpoint_id() : 0);
    request.mutable_page()->set_after(reply.next());
  }
}

TEST_F(InspectionTest, ShowsReservationsUntilTheyAreReleased) {
  TestClient client(NewChannel(daemon_.target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  const uint64_t adapter = client.OpenAdapter("fake1");
  std::vector<v1::PortReserved> made;
  v1::ReservePortRequest reserve;
  reserve.set_adapter_id(adapter);
  *reserve.mutable_address() = ToMessage(TestAddress(1));
  for (int i = 0; i < 2; ++i) made.push_back(client.Finish(&Stub::ReservePort, reserve).port_reserved());
  const auto channel = NewChannel(daemon_.target());
  const auto list = [&] {
    v1::ListReservationsReply reply;
    EXPECT_TRUE(
        Call<v1::Inspection>(channel, &v1::Inspection::Stub::ListReservations, v1::ListReservationsRequest(), &reply)
            .ok());
    return reply;
  };
  const v1::ListReservationsReply both = list();
  ASSERT_EQ(both.reservations_size(), 2);
  EXPECT_EQ(both.next(), 0u);
  for (int i = 0; i < 2; ++i) {
    const v1::ReservationInfo& row = both.reservations(i);
    const v1::PortReserved& reserved = made[static_cast<size_t>(i)];
    EXPECT_EQ(row.reservation_id(), reserved.reservation_id());
    EXPECT_EQ(row.session_id(), client.session_id());
    EXPECT_EQ(row.adapter_id(), adapter);
    EXPECT_EQ(row.device(), "fake1");
    EXPECT_EQ(FromMessage(row.address()), FromMessage(reserved.address()));
    EXPECT_NE(row.endpoint_id(), 0u);
    EXPECT_FALSE(row.closing());
  }
  v1::ReleasePortRequest release;
  release.set_reservation_id(made[0].reservation_id());
  EXPECT_EQ(NdkStatusOf(client.Finish(&Stub::ReleasePort, release)), NdkStatus::kSuccess);
  const v1::ListReservationsReply rest = list();
  ASSERT_EQ(rest.reservations_size(), 1);
  EXPECT_EQ(rest.reservations(0).reservation_id(), made[1].reservation_id());
}

TEST_F(InspectionTest, PagesHaveEveryRowOnceInOrder) {
  TestClient client(NewChannel(daemon_.target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  const uint64_t adapter = client.OpenAdapter("fake1");
  std::vector<uint64_t> made;
  for (int i = 0; i < 205; ++i) made.push_back(client.CreateConnector(adapter));
  const auto channel = NewChannel(daemon_.target());
  for (const uint32_t limit : {0u, 1u, 7u, 205u, 1000u}) {
    std::vector<uint64_t> seen;
    uint64_t after = 0;
    do {
      const v1::ListConnectorsReply reply = Connectors(channel, after, limit);
      EXPECT_LE(reply.connectors_size(), limit == 0 ? 100 : static_cast<int>(limit));
      for (const v1::ConnectorInfo& row : reply.connectors()) seen.push_back(row.connector_id());
      after = reply.next();
    } while (after != 0 && seen.size() <= made.size());
    EXPECT_EQ(seen, made) << limit;
  }
  EXPECT_EQ(Connectors(channel, made.back()).connectors_size(), 0);
  EXPECT_EQ(Connectors(channel, UINT64_MAX).connectors_size(), 0);
  v1::ListConnectorsRequest request;
  request.mutable_page()->set_limit(1001);
  v1::ListConnectorsReply reply;
  const grpc::Status status = Call<v1::Inspection>(channel, &v1::Inspection::Stub::ListConnectors, request, &reply);
  EXPECT_EQ(NdkStatusOf(status), NdkStatus::kInvalidParameter);
  EXPECT_EQ(DetailOf(status)->hint(), "page.limit: 1001; at most 1000");
}

TEST_F(InspectionTest, ACallerSeesItsOwnUsersObjectsOnlyAndRootSeesAll) {
  const auto somebody = ChannelAs(kSomebody, daemon_.control_path());
  const auto somebody_else = ChannelAs(kSomebodyElse, daemon_.control_path());
  if (!somebody || !somebody_else) GTEST_SKIP() << "needs a root that may become other users";
  TestClient one(somebody);
  TestClient other(somebody_else);
  ASSERT_EQ(one.Open(), NdkStatus::kSuccess);
  ASSERT_EQ(other.Open(), NdkStatus::kSuccess);
  const uint64_t connector = one.CreateConnector(one.OpenAdapter("fake1"));
  const uint64_t others = other.CreateConnector(other.OpenAdapter("fake1"));
  ASSERT_EQ(Connectors(somebody).connectors_size(), 1);
  EXPECT_EQ(Connectors(somebody).connectors(0).connector_id(), connector);
  ASSERT_EQ(Connectors(somebody_else).connectors_size(), 1);
  EXPECT_EQ(Connectors(somebody_else).connectors(0).connector_id(), others);
  EXPECT_EQ(Connectors(NewChannel(daemon_.target())).connectors_size(), 2);
  ASSERT_EQ(Sessions(somebody).sessions_size(), 1);
  EXPECT_EQ(Sessions(somebody).sessions(0).uid(), kSomebody);
  EXPECT_EQ(Sessions(somebody).sessions(0).gid(), kSomebody);
  EXPECT_EQ(Sessions(NewChannel(daemon_.target())).sessions_size(), 2);
  EXPECT_EQ(Adapters(somebody).devices_size(), 2) << "devices are everybody's";
  // Another user's objects cannot be used.
  v1::CloseConnectorRequest close;
  close.set_connector_id(connector);
  EXPECT_EQ(NdkStatusOf(other.Ask(&Stub::CloseConnector, close)), NdkStatus::kObjectNameNotFound);
}

// setuid(2) changes a whole process; here one of its connections is another user's.
TEST_F(InspectionTest, AProcessThatHasChangedItsUserKeepsItsSessionToEndWhatItHas) {
  const auto as_somebody = ChannelAs(kSomebody, daemon_.control_path());
  if (!as_somebody) GTEST_SKIP() << "needs a root that may become other users";
  TestClient client(NewChannel(daemon_.target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  const uint64_t adapter = client.OpenAdapter("fake1");
  const uint64_t connector = client.CreateConnector(adapter);
  TestClient changed(as_somebody);
  ASSERT_EQ(changed.Resume(client, 0), NdkStatus::kSuccess);
  v1::CreateListenerRequest create;
  create.set_adapter_id(adapter);
  EXPECT_EQ(NdkStatusOf(changed.Ask(&Stub::CreateListener, create)), NdkStatus::kAccessDenied);
  EXPECT_EQ(NdkStatusOf(changed.CloseConnector(connector)), NdkStatus::kSuccess);
  TestClient own(as_somebody);
  ASSERT_EQ(own.Open(), NdkStatus::kSuccess);
  EXPECT_NE(own.CreateConnector(own.OpenAdapter("fake1")), 0u);
}

TEST_F(InspectionTest, WhatOthersDoOnAnAdapterIsToldToNoUser) {
  const auto somebody = ChannelAs(kSomebody, daemon_.control_path());
  if (!somebody) GTEST_SKIP() << "needs a root that may become other users";
  const v1::ListAdaptersReply before = Adapters(somebody);
  TestClient server(NewChannel(daemon_.target()));
  TestClient client(NewChannel(daemon_.target()));
  ASSERT_EQ(server.Open(), NdkStatus::kSuccess);
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  const auto [listener, address] = server.Listen(server.OpenAdapter("fake1"), TestAddress(1));
  ConnectClients(server, address, client, client.OpenAdapter("fake2"), TestAddress(2));
  EXPECT_EQ(Adapters(somebody).SerializeAsString(), before.SerializeAsString());
  ASSERT_EQ(before.activities_size(), 2);
  EXPECT_TRUE(before.activities(0).withheld());
  EXPECT_EQ(before.activities(0).state(), v1::DEVICE_STATE_ENABLED);
  const v1::ListAdaptersReply all = Adapters(NewChannel(daemon_.target()));
  EXPECT_FALSE(all.activities(0).withheld());
  EXPECT_EQ(all.activities(0).active_connections(), 1u);
}

TEST_F(InspectionTest, OneUsersLimitsAreNotAnothers) {
  Configuration configuration = TestConfiguration();
  configuration.limits.sessions_per_uid = 1;
  configuration.connections_per_uid = 1;
  TestDaemon daemon(network_, {TestDevice(3)}, configuration);
  const auto somebody = ChannelAs(kSomebody, daemon.control_path());
  const auto somebody_else = ChannelAs(kSomebodyElse, daemon.control_path());
  if (!somebody || !somebody_else) GTEST_SKIP() << "needs a root that may become other users";
  TestClient one(somebody);
  TestClient second(somebody);
  TestClient other(somebody_else);
  EXPECT_EQ(one.Open(), NdkStatus::kSuccess);
  EXPECT_EQ(second.Open(), NdkStatus::kInsufficientResources);
  EXPECT_EQ(other.Open(), NdkStatus::kSuccess);
}

class AdministrationTest : public InspectionTest {
 protected:
  grpc::Status EndSession(const std::shared_ptr<grpc::Channel>& channel, uint64_t session) {
    v1::EndSessionRequest request;
    request.set_session_id(session);
    v1::EndSessionReply reply;
    return Call<v1::Administration>(channel, &v1::Administration::Stub::EndSession, request, &reply);
  }
  grpc::Status Disable(const std::shared_ptr<grpc::Channel>& channel, const std::string& device,
                       v1::DisableAdapterReply* reply) {
    v1::DisableAdapterRequest request;
    request.set_device(device);
    return Call<v1::Administration>(channel, &v1::Administration::Stub::DisableAdapter, request, reply);
  }
  grpc::Status Enable(const std::shared_ptr<grpc::Channel>& channel, const std::string& device) {
    v1::EnableAdapterRequest request;
    request.set_device(device);
    v1::EnableAdapterReply reply;
    return Call<v1::Administration>(channel, &v1::Administration::Stub::EnableAdapter, request, &reply);
  }
};

TEST_F(AdministrationTest, AnAdministratorEndsASessionAndEverythingItHas) {
  TestClient client(NewChannel(daemon_.target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  client.Listen(client.OpenAdapter("fake1"), TestAddress(1));
  const auto channel = NewChannel(daemon_.target());
  EXPECT_EQ(NdkStatusOf(EndSession(channel, 0)), NdkStatus::kInvalidParameter);
  EXPECT_EQ(NdkStatusOf(EndSession(channel, 4711)), NdkStatus::kObjectNameNotFound);
  EXPECT_TRUE(EndSession(channel, client.session_id()).ok());
  EXPECT_EQ(NdkStatusOf(client.WaitForEnd()), NdkStatus::kRequestAborted);
  EXPECT_TRUE(
      daemon_.Eventually([](const Records& records) { return records.sessions.empty() && records.endpoints.empty(); }));
  EXPECT_EQ(NdkStatusOf(EndSession(channel, client.session_id())), NdkStatus::kObjectNameNotFound);
  TestClient again(NewChannel(daemon_.target()));
  EXPECT_EQ(again.Resume(client, 0), NdkStatus::kAccessDenied);
}

TEST_F(AdministrationTest, ADisabledDeviceIsNotOpenedUntilItIsEnabled) {
  TestClient client(NewChannel(daemon_.target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  const uint64_t adapter = client.OpenAdapter("fake1");
  const auto channel = NewChannel(daemon_.target());
  v1::DisableAdapterReply reply;
  EXPECT_EQ(NdkStatusOf(Disable(channel, "", &reply)), NdkStatus::kInvalidParameter);
  EXPECT_EQ(NdkStatusOf(Disable(channel, "fake9", &reply)), NdkStatus::kObjectNameNotFound);
  EXPECT_EQ(NdkStatusOf(Disable(channel, std::string(64, 'a'), &reply)), NdkStatus::kInvalidParameter);
  EXPECT_EQ(NdkStatusOf(Enable(channel, "")), NdkStatus::kInvalidParameter);
  EXPECT_EQ(NdkStatusOf(Enable(channel, "fake9")), NdkStatus::kObjectNameNotFound);
  EXPECT_TRUE(Disable(channel, "fake1", &reply).ok());
  EXPECT_EQ(reply.state(), v1::DEVICE_STATE_DISABLING);
  EXPECT_EQ(reply.adapters(), 1u);
  const v1::SessionEvent event = client.WaitFor([](const v1::SessionEvent& one) { return one.has_adapter_disabled(); });
  EXPECT_EQ(event.adapter_disabled().adapter_id(), adapter);
  v1::OpenAdapterRequest open;
  open.set_device("fake1");
  open.mutable_version()->set_major(2);
  const v1::Outcome refused = client.Ask(&v1::Broker::Stub::OpenAdapter, open);
  EXPECT_EQ(refused.status(), v1::NDIS_STATUS_ADAPTER_NOT_READY);
  EXPECT_NE(refused.hint().find("disabled by an administrator"), std::string::npos) << refused.hint();
  EXPECT_NE(client.OpenAdapter("fake2"), 0u) << "the other device is as before";
  EXPECT_TRUE(Enable(channel, "fake1").ok());
  EXPECT_NE(client.OpenAdapter("fake1"), 0u);
}

TEST_F(AdministrationTest, SomebodyElseDisablesNothing) {
  const auto somebody = ChannelAs(kSomebody, daemon_.control_path());
  if (!somebody) GTEST_SKIP() << "needs a root that may become other users";
  v1::DisableAdapterReply reply;
  EXPECT_EQ(NdkStatusOf(Disable(somebody, "fake1", &reply)), NdkStatus::kAccessDenied);
  EXPECT_EQ(NdkStatusOf(Disable(somebody, "fake9", &reply)), NdkStatus::kAccessDenied);
  EXPECT_EQ(NdkStatusOf(Enable(somebody, "fake1")), NdkStatus::kAccessDenied);
  EXPECT_EQ(NdkStatusOf(Enable(somebody, "")), NdkStatus::kAccessDenied) << "nor learns what is wrong";
}

TEST_F(AdministrationTest, SomebodyElseEndsNoSessionNotEvenTheOwn) {
  const auto somebody = ChannelAs(kSomebody, daemon_.control_path());
  if (!somebody) GTEST_SKIP() << "needs a root that may become other users";
  TestClient client(somebody);
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  EXPECT_EQ(NdkStatusOf(EndSession(somebody, client.session_id())), NdkStatus::kAccessDenied);
  EXPECT_EQ(NdkStatusOf(EndSession(somebody, 4711)), NdkStatus::kAccessDenied);
  EXPECT_NE(client.OpenAdapter("fake1"), 0u);
}

class HealthTest : public testing::Test {
 protected:
  NetworkThread network_;
  TestDaemon daemon_{network_};
};

TEST_F(HealthTest, TellsTheStateOfTheServicesItKnows) {
  const auto channel = NewChannel(daemon_.target());
  for (const char* service : {"", "rdmabroker.v1.Broker"}) {
    HealthCheckRequest request;
    request.set_service(service);
    HealthCheckResponse response;
    EXPECT_TRUE(Call<Health>(channel, &Health::Stub::Check, request, &response).ok());
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  }
  HealthCheckRequest request;
  request.set_service("rdmabroker.v1.Broke");
  HealthCheckResponse response;
  EXPECT_EQ(Call<Health>(channel, &Health::Stub::Check, request, &response).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(HealthTest, WhoWatchesIsToldOfTheStopAndNeedNotLeaveFirst) {
  auto stub = Health::NewStub(NewChannel(daemon_.target()));
  const auto watch = [&](const char* service, grpc::ClientContext& context) {
    Limit(context);
    HealthCheckRequest request;
    request.set_service(service);
    return stub->Watch(&context, request);
  };
  grpc::ClientContext contexts[3];
  auto known = watch("", contexts[0]);
  auto unknown = watch("nothing", contexts[1]);
  auto leaving = watch("", contexts[2]);
  HealthCheckResponse response;
  ASSERT_TRUE(known->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  ASSERT_TRUE(unknown->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  ASSERT_TRUE(leaving->Read(&response));
  contexts[2].TryCancel();
  leaving->Finish();
  daemon_.Stop();
  ASSERT_TRUE(known->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(known->Read(&response));
  EXPECT_EQ(known->Finish().error_message(), "the broker is stopping");
}

// One Watch call, which its owner's end cancels.
class HealthWatch {
 public:
  explicit HealthWatch(const std::shared_ptr<grpc::Channel>& channel) {
    Limit(context_);
    stream_ = Health::NewStub(channel)->Watch(&context_, {});
  }
  ~HealthWatch() {
    context_.TryCancel();
    (void)End();
  }
  HealthWatch(const HealthWatch&) = delete;
  HealthWatch& operator=(const HealthWatch&) = delete;

  bool Begins() { return stream_->Read(&answer_) && answer_.status() == HealthCheckResponse::SERVING; }
  grpc::Status End() {
    while (!ended_ && stream_->Read(&answer_)) {
    }
    if (!ended_) ended_ = stream_->Finish();
    return *ended_;
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> stream_;
  HealthCheckResponse answer_;
  std::optional<grpc::Status> ended_;
};

TEST_F(HealthTest, MoreWatchesThanAUserMayHaveAreRefused) {
  // Of one connection, which has no more than 128.
  constexpr size_t kWatches = 64;
  std::shared_ptr<grpc::Channel> channel;
  std::vector<std::unique_ptr<HealthWatch>> watches;
  while (watches.size() < HealthService::kBounds.of_caller) {
    if (watches.size() % kWatches == 0) channel = NewChannel(daemon_.target());
    watches.push_back(std::make_unique<HealthWatch>(channel));
    ASSERT_TRUE(watches.back()->Begins()) << watches.size();
  }
  const grpc::Status refused = HealthWatch(channel).End();
  EXPECT_EQ(NdkStatusOf(refused), NdkStatus::kInsufficientResources) << refused.error_message();
  watches.pop_back();
  // The broker hears of its end some time later.
  EXPECT_TRUE(Becomes([&] { return HealthWatch(channel).Begins(); }));
}

class ShutdownTest : public testing::Test {
 protected:
  NetworkThread network_;
};

TEST_F(ShutdownTest, SessionsAreToldToReturnAndNewOnesOpenWhenABrokerIsBack) {
  TestDaemon daemon(network_);
  TestClient client(NewChannel(daemon.target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  daemon.Stop();
  const grpc::Status end = client.WaitForEnd();
  EXPECT_EQ(NdkStatusOf(end), NdkStatus::kConnectionDisconnected) << end.error_message();
  ASSERT_TRUE(DetailOf(end));
  EXPECT_TRUE(DetailOf(end)->retryable()) << "another process may go on with the session";
  daemon.Start();
  TestClient again(NewChannel(daemon.target()));
  EXPECT_EQ(again.Resume(client, 0), NdkStatus::kAccessDenied);
  TestClient next(NewChannel(daemon.target()));
  EXPECT_EQ(next.Open(), NdkStatus::kSuccess);
}

TEST_F(ShutdownTest, ADaemonThatNeverRanCanGo) {
  TemporaryFolder folder;
  Configuration configuration = TestConfiguration();
  configuration.socket_directory = folder.path();
  for (int i = 0; i < 2; ++i) {
    auto server = StartAlone(configuration);
    ASSERT_TRUE(server.ok()) << server.status();
  }
}

TEST_F(ShutdownTest, ASecondDaemonInTheFolderOfARunningOneIsRefused) {
  TestDaemon daemon(network_);
  Configuration configuration = TestConfiguration();
  configuration.socket_directory = daemon.folder();
  const auto second = StartAlone(configuration);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  TestClient client(NewChannel(daemon.target()));
  EXPECT_EQ(client.Open(), NdkStatus::kSuccess);
}

// Has handshakes for so many looks.
class BusyFabric final : public Fabric {
 public:
  explicit BusyFabric(int looks) : looks_left_(looks) {}
  void Start(ReportSink) override {}
  void Perform(const FabricRequest&) override {}
  void MakeWay() override { makes_way_ = true; }
  bool HasHandshakes() const override {
    EXPECT_TRUE(makes_way_) << "others may begin meanwhile";
    return looks_left_ > 0 && looks_left_-- > 0;
  }

 private:
  bool makes_way_ = false;
  mutable int looks_left_;
};

// How long a server takes to stop whose fabric has handshakes for so many looks.
absl::Duration StopsWithin(absl::Duration patience, int looks) {
  TemporaryFolder folder;
  Configuration configuration = TestConfiguration();
  configuration.socket_directory = folder.path();
  const auto server = StartAlone(configuration);
  EXPECT_TRUE(server.ok()) << server.status();
  if (!server.ok()) return absl::ZeroDuration();
  std::vector<std::unique_ptr<Fabric>> fabrics;
  fabrics.push_back(std::make_unique<BusyFabric>(looks));
  (*server)->Recover(std::move(fabrics));
  const Instant began = Loop::Now();
  (*server)->Stop(patience);
  (*server)->Run();
  return Loop::Now() - began;
}

TEST_F(ShutdownTest, AHandshakeThatNobodyEndsIsWaitedForNoLongerThanTheStopsPatience) {
  constexpr absl::Duration kPatience = absl::Milliseconds(300);
  EXPECT_GE(StopsWithin(kPatience, std::numeric_limits<int>::max()), kPatience);
}

TEST_F(ShutdownTest, ADaemonStopsWithItsLastHandshake) {
  constexpr absl::Duration kPatience = absl::Minutes(1);
  EXPECT_LT(StopsWithin(kPatience, 3), kPatience);
}

// gRPC ends the process where operations meet a queue that has been shut down.
TEST_F(ShutdownTest, FiftyBusyDaemonsStopInOrder) {
  for (int round = 0; round < 50; ++round) {
    TestDaemon daemon(network_);
    std::vector<std::unique_ptr<TestClient>> clients;
    for (int i = 0; i < 4; ++i) {
      clients.push_back(std::make_unique<TestClient>(NewChannel(daemon.target())));
      ASSERT_EQ(clients.back()->Open(), NdkStatus::kSuccess) << round;
    }
    std::vector<std::thread> busy;
    for (const auto& client : clients) {
      busy.emplace_back([&client] {
        v1::OpenAdapterRequest request;
        request.set_device("nothing");
        request.mutable_version()->set_major(2);
        // Until the daemon answers no more, or the session has lost its stream.
        while (NdkStatusOf(client->Ask(&Stub::OpenAdapter, request)) == NdkStatus::kObjectNameNotFound) {
        }
      });
    }
    // They are under way.
    EXPECT_TRUE(daemon.Eventually([&](const Records& records) {
      return std::all_of(records.sessions.begin(), records.sessions.end(),
                         [](const auto& session) { return session.second.newest_request.value() > 2; });
    }));
    daemon.Stop();
    for (std::thread& thread : busy) thread.join();
  }
}

}  // namespace
}  // namespace rdmabroker
