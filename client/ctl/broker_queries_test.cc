// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/broker_queries.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <memory>
#include <string>

#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "proto/rdmabroker/v1/outcome.pb.h"
#include "proto/rdmabroker/v1/rpc_status.pb.h"

namespace rdmabroker::ctl {
namespace {

using testing::HasSubstr;

constexpr uint64_t kConnectors = 2500;  // Three pages.

class FakeInspection final : public v1::Inspection::Service {
 public:
  grpc::Status ListAdapters(grpc::ServerContext*, const v1::ListAdaptersRequest*,
                            v1::ListAdaptersReply* reply) override {
    v1::Device& device = *reply->add_devices();
    device.set_name("iwarp0\x1b[2J");
    device.set_usable(true);
    device.mutable_info()->set_technology(v1::RDMA_TECHNOLOGY_ROCE_V2);
    device.set_port_space(v1::PORT_SPACE_RDMA_CM);
    device.add_addresses()->set_ip(std::string("\xc0\x00\x02\x01", 4));
    device.add_addresses()->set_ip("bad");
    reply->add_activities();
    if (disabling.empty()) return grpc::Status::OK;
    reply->add_devices()->set_name("siw0");
    *reply->add_activities() = disabling.front();
    if (disabling.size() > 1) disabling.pop_front();
    return grpc::Status::OK;
  }
  grpc::Status ListConnectors(grpc::ServerContext*, const v1::ListConnectorsRequest* request,
                              v1::ListConnectorsReply* reply) override {
    EXPECT_LE(request->page().limit(), 1000u);
    uint64_t id = request->page().after();
    for (uint32_t i = 0; i < request->page().limit() && id < kConnectors; ++i) {
      v1::ConnectorInfo& info = *reply->add_connectors();
      info.set_connector_id(++id);
      info.set_state(v1::CONNECTOR_STATE_PEER_DISCONNECTED);
    }
    if (id < kConnectors) reply->set_next(id);
    return grpc::Status::OK;
  }
  grpc::Status ListListeners(grpc::ServerContext*, const v1::ListListenersRequest*,
                             v1::ListListenersReply* reply) override {
    reply->set_next(1);  // For ever.
    return grpc::Status::OK;
  }
  grpc::Status ListSessions(grpc::ServerContext*, const v1::ListSessionsRequest*, v1::ListSessionsReply*) override {
    v1::Outcome outcome;
    outcome.set_status(v1::STATUS_ACCESS_DENIED);
    outcome.set_hint("not for you");
    v1::RpcStatus details;
    details.add_details()->PackFrom(outcome);
    return grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "no", details.SerializeAsString());
  }

  // What siw0 is, from one look to the next; the last stays.
  std::deque<v1::DeviceActivity> disabling;
};

class FakeAdministration final : public v1::Administration::Service {
 public:
  grpc::Status EndSession(grpc::ServerContext*, const v1::EndSessionRequest* request, v1::EndSessionReply*) override {
    ended = request->session_id();
    return grpc::Status::OK;
  }
  grpc::Status DisableAdapter(grpc::ServerContext*, const v1::DisableAdapterRequest* request,
                              v1::DisableAdapterReply* reply) override {
    disabled = request->device();
    reply->set_state(v1::DEVICE_STATE_DISABLING);
    reply->set_adapters(2);
    return grpc::Status::OK;
  }
  grpc::Status EnableAdapter(grpc::ServerContext*, const v1::EnableAdapterRequest* request,
                             v1::EnableAdapterReply*) override {
    enabled = request->device();
    return grpc::Status::OK;
  }
  uint64_t ended = 0;
  std::string disabled;
  std::string enabled;
};

class FakeHealth final : public grpc::health::v1::Health::Service {
 public:
  grpc::Status Check(grpc::ServerContext*, const grpc::health::v1::HealthCheckRequest*,
                     grpc::health::v1::HealthCheckResponse* reply) override {
    reply->set_status(status);
    return grpc::Status::OK;
  }
  grpc::health::v1::HealthCheckResponse::ServingStatus status = grpc::health::v1::HealthCheckResponse::SERVING;
};

// Serves on a control socket of its own.
class FakeBroker {
 public:
  explicit FakeBroker(v1::Inspection::Service* inspection) {
    char name[] = "/tmp/broker-queries-XXXXXX";
    folder_ = ::mkdtemp(name);
    socket = folder_ + "/control.sock";
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
    builder.RegisterService(inspection);
    builder.RegisterService(&administration);
    builder.RegisterService(&health);
    server_ = builder.BuildAndStart();
  }
  ~FakeBroker() {
    server_->Shutdown();
    ::unlink(socket.c_str());
    ::rmdir(folder_.c_str());
  }
  FakeBroker(const FakeBroker&) = delete;
  FakeBroker& operator=(const FakeBroker&) = delete;

  std::string socket;
  FakeAdministration administration;
  FakeHealth health;

 private:
  std::string folder_;
  std::unique_ptr<grpc::Server> server_;
};

class BrokerQueriesTest : public testing::Test {
 protected:
  FakeInspection inspection;

 private:
  FakeBroker broker_{&inspection};

 protected:
  const std::string& socket = broker_.socket;
  FakeAdministration& administration = broker_.administration;
  FakeHealth& health = broker_.health;
};

// Answers each list with the reply that the test has written for it.
class WrittenInspection final : public v1::Inspection::Service {
 public:
  std::string text;

  grpc::Status ListAdapters(grpc::ServerContext*, const v1::ListAdaptersRequest*, v1::ListAdaptersReply* r) override {
    return Fill(r);
  }
  grpc::Status ListSessions(grpc::ServerContext*, const v1::ListSessionsRequest*, v1::ListSessionsReply* r) override {
    return Fill(r);
  }
  grpc::Status ListEndpoints(grpc::ServerContext*, const v1::ListEndpointsRequest*,
                             v1::ListEndpointsReply* r) override {
    return Fill(r);
  }
  grpc::Status ListListeners(grpc::ServerContext*, const v1::ListListenersRequest*,
                             v1::ListListenersReply* r) override {
    return Fill(r);
  }
  grpc::Status ListSharedEndpoints(grpc::ServerContext*, const v1::ListSharedEndpointsRequest*,
                                   v1::ListSharedEndpointsReply* r) override {
    return Fill(r);
  }
  grpc::Status ListReservations(grpc::ServerContext*, const v1::ListReservationsRequest*,
                                v1::ListReservationsReply* r) override {
    return Fill(r);
  }
  grpc::Status ListConnectors(grpc::ServerContext*, const v1::ListConnectorsRequest*,
                              v1::ListConnectorsReply* r) override {
    return Fill(r);
  }

 private:
  grpc::Status Fill(google::protobuf::Message* reply) const {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, reply)) << text;
    return grpc::Status::OK;
  }
};

struct TableRow {
  const char* list;
  const char* reply;
  const char* table;
};

// Every column differs from its neighbours, so that none can stand in another's place.
const TableRow kTables[] = {
    {"adapters",
     R"(devices { name: "siw0" usable: false unusable_reason: "no address" port_space: PORT_SPACE_TCP
          info { technology: RDMA_TECHNOLOGY_IWARP }
          addresses { ip: "\300\000\002\001" }
          addresses { ip: "\376\200\0\0\0\0\0\0\0\0\0\0\0\0\0\001" scope_id: 2 interface: "et" } }
        activities { adapters: 1 active_connections: 2 connects: 3 accepts: 4 connect_failures: 5
          connection_errors: 6 state: DEVICE_STATE_DISABLING }
        devices { name: "siw1" port_space: PORT_SPACE_TCP info { technology: RDMA_TECHNOLOGY_IWARP } mtu: 1024 }
        activities { withheld: true state: DEVICE_STATE_ENABLED })",
     "NAME  TECHNOLOGY  PORTS  USABLE  ADDRESSES             STATE      OPEN  ACTIVE  CONNECTS  ACCEPTS  FAILED  "
     "BROKEN  MTU   WHY NOT\n"
     "siw0  iwarp       tcp    no      192.0.2.1,fe80::1%et  disabling  1     2       3         4        5       "
     "6       -     no address\n"
     "siw1  iwarp       tcp    no                            enabled    -     -       -         -        -       "
     "-       1024\n"},
    {"sessions",
     R"(sessions { session_id: 1 uid: 2 gid: 3 pid: 4 state: SESSION_STATE_AWAY adapters: 5 listeners: 6
          shared_endpoints: 7 reservations: 8 connectors: 9 unacknowledged_events: 10 }
        sessions { session_id: 11 })",
     "SESSION  STATE        UID  GID  PID  ADAPTERS  LISTENERS  SHARED  RESERVED  CONNECTORS  UNACKNOWLEDGED\n"
     "1        away         2    3    4    5         6          7       8         9           10\n"
     "11       unspecified  0    0    -    0         0          0       0         0           0\n"},
    {"endpoints",
     R"(endpoints { endpoint_id: 1 session_id: 2 device: "siw0" network_namespace: 3 port_space: PORT_SPACE_RDMA_CM
          address { ip: "\300\000\002\001" port: 4420 } use: ENDPOINT_USE_SHARED references: 4 connections: 5
          state: ENDPOINT_STATE_UNBINDING }
        endpoints { endpoint_id: 6 address { ip: "bad" } }
        endpoints { endpoint_id: 7
          address { ip: "\376\200\0\0\0\0\0\0\0\0\0\0\0\0\0\001" port: 1 scope_id: 2 interface: "eth0" } }
        endpoints { endpoint_id: 8
          address { ip: "\376\200\0\0\0\0\0\0\0\0\0\0\0\0\0\001" port: 1 scope_id: 2 } })",
     "ENDPOINT  ADDRESS           USE          STATE        REFERENCES  CONNECTIONS  DEVICE  PORTS        SESSION\n"
     "1         192.0.2.1:4420    shared       unbinding    4           5            siw0    rdma-cm      2\n"
     "6         malformed         unspecified  unspecified  0           0                    unspecified  -\n"
     "7         [fe80::1%eth0]:1  unspecified  unspecified  0           0                    unspecified  -\n"
     "8         [fe80::1%2]:1     unspecified  unspecified  0           0                    unspecified  -\n"},
    {"listeners",
     R"(listeners { listener_id: 1 session_id: 2 adapter_id: 3 device: "siw0" state: LISTENER_STATE_LISTENING
          address { ip: "\300\000\002\001" port: 4420 } endpoint_id: 4 undecided_connectors: 5 successors: 6
          paused: true answers_at { ip: "\300\000\002\001" } answers_at { ip: "\300\000\002\002" } }
        listeners { listener_id: 7 session_id: 8 adapter_id: 9 device: "siw1" state: LISTENER_STATE_CREATED
          closing: true })",
     "LISTENER  ADDRESS         STATE      UNDECIDED  SUCCESSORS  PAUSED  CLOSING  DEVICE  ENDPOINT  ADAPTER  SESSION  "
     "ANSWERS AT\n"
     "1         192.0.2.1:4420  listening  5          6           yes     no       siw0    4         3        2        "
     "192.0.2.1,192.0.2.2\n"
     "7         -               created    0          0           no      yes      siw1    -         9        8\n"},
    {"shared-endpoints",
     R"(shared_endpoints { shared_endpoint_id: 1 session_id: 2 adapter_id: 3 device: "siw0"
          address { ip: "\300\000\002\001" port: 4420 } endpoint_id: 4 successors: 5 closing: true })",
     "SHARED ENDPOINT  ADDRESS         SUCCESSORS  CLOSING  DEVICE  ENDPOINT  ADAPTER  SESSION\n"
     "1                192.0.2.1:4420  5           yes      siw0    4         3        2\n"},
    {"reservations",
     R"(reservations { reservation_id: 1 session_id: 2 adapter_id: 3 device: "siw0"
          address { ip: "\300\000\002\001" port: 4420 } endpoint_id: 4 closing: true })",
     "RESERVATION  ADDRESS         CLOSING  DEVICE  ENDPOINT  ADAPTER  SESSION\n"
     "1            192.0.2.1:4420  yes      siw0    4         3        2\n"},
    {"connectors",
     R"(connectors { connector_id: 1 session_id: 2 adapter_id: 3 device: "siw0" state: CONNECTOR_STATE_ESTABLISHED
          listener_id: 4 endpoint_id: 5 local { ip: "\300\000\002\001" port: 4420 }
          peer { ip: "\300\000\002\002" port: 50000 } qp_number: 6 limits { inbound: 7 outbound: 8 } closing: true
          path_mtu: 4096 }
        connectors { connector_id: 9 session_id: 10 adapter_id: 11 device: "siw1" state: CONNECTOR_STATE_DEAD
          shared_endpoint_id: 12 dead_status: STATUS_IO_TIMEOUT })",
     "CONNECTOR  LOCAL           PEER             STATE        READS IN/OUT  QP  LISTENER  SHARED  CLOSING  DEVICE  "
     "ENDPOINT  ADAPTER  SESSION  MTU\n"
     "1          192.0.2.1:4420  192.0.2.2:50000  established  7/8           6   4         -       yes      siw0    "
     "5         3        2        4096\n"
     "9          -               -                dead         -             -   -         12      no       siw1    "
     "-         11       10       -\n"},
};

TEST(BrokerQueriesTables, EachListHasItsTable) {
  WrittenInspection inspection;
  const FakeBroker broker(&inspection);
  for (const TableRow& row : kTables) {
    inspection.text = row.reply;
    BrokerQueries queries(broker.socket, OutputForm::kTable);
    EXPECT_EQ(queries.List(row.list), ExitCode::kDone) << row.list << ": " << queries.error();
    EXPECT_EQ(queries.output(), row.table) << row.list;
  }
}

TEST_F(BrokerQueriesTest, ATableHasWordsAndNoControlCharacters) {
  BrokerQueries queries(socket, OutputForm::kTable);
  EXPECT_EQ(queries.List("adapters"), ExitCode::kDone);
  EXPECT_EQ(queries.output(),
            "NAME        TECHNOLOGY  PORTS    USABLE  ADDRESSES  STATE        OPEN  ACTIVE  CONNECTS  ACCEPTS  FAILED  "
            "BROKEN  MTU  WHY NOT\n"
            "iwarp0?[2J  roce-v2     rdma-cm  yes     192.0.2.1  unspecified  0     0       0         0        0       "
            "0       -\n");
}

TEST_F(BrokerQueriesTest, AllPagesAreOneAnswer) {
  BrokerQueries queries(socket, OutputForm::kJson);
  EXPECT_EQ(queries.List("connectors"), ExitCode::kDone);
  v1::ListConnectorsReply reply;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(queries.output(), &reply).ok());
  EXPECT_EQ(reply.connectors_size(), static_cast<int>(kConnectors));
  EXPECT_EQ(reply.connectors(static_cast<int>(kConnectors) - 1).connector_id(), kConnectors);
  EXPECT_EQ(reply.next(), 0u);
}

TEST_F(BrokerQueriesTest, PagesThatDoNotGoOnAreAnError) {
  BrokerQueries queries(socket, OutputForm::kTable);
  EXPECT_EQ(queries.List("listeners"), ExitCode::kRefused);
  EXPECT_THAT(queries.error(), HasSubstr("pages"));
}

TEST_F(BrokerQueriesTest, WhatTheBrokerRefusesIsSaidInItsWords) {
  BrokerQueries queries(socket, OutputForm::kTable);
  EXPECT_EQ(queries.List("sessions"), ExitCode::kRefused);
  EXPECT_EQ(queries.error(), "STATUS_ACCESS_DENIED: not for you");
  EXPECT_EQ(queries.output(), "");
}

TEST_F(BrokerQueriesTest, ARequestThatTheBrokerDoesNotKnowIsRefused) {
  BrokerQueries queries(socket, OutputForm::kTable);
  EXPECT_EQ(queries.List("endpoints"), ExitCode::kRefused);
  EXPECT_EQ(queries.List("queue-pairs"), ExitCode::kUsage);
}

TEST_F(BrokerQueriesTest, ABrokerThatDoesNotServeIsNotHealthy) {
  BrokerQueries queries(socket, OutputForm::kTable);
  EXPECT_EQ(queries.Health(), ExitCode::kDone);
  EXPECT_EQ(queries.output(), "serving\n");
  health.status = grpc::health::v1::HealthCheckResponse::NOT_SERVING;
  BrokerQueries later(socket, OutputForm::kTable);
  EXPECT_EQ(later.Health(), ExitCode::kRefused);
  EXPECT_EQ(later.output(), "");
  EXPECT_THAT(later.error(), HasSubstr("does not serve"));
}

TEST_F(BrokerQueriesTest, ASessionIsEndedById) {
  BrokerQueries queries(socket, OutputForm::kTable);
  EXPECT_EQ(queries.EndSession(42), ExitCode::kDone);
  EXPECT_EQ(administration.ended, 42u);
}

TEST_F(BrokerQueriesTest, ADeviceIsDisabledWhenItsLastAdapterIsClosed) {
  v1::DeviceActivity open;
  open.set_state(v1::DEVICE_STATE_DISABLING);
  open.set_adapters(1);
  v1::DeviceActivity closed;
  closed.set_state(v1::DEVICE_STATE_DISABLED);
  v1::DeviceActivity enabled;
  enabled.set_state(v1::DEVICE_STATE_ENABLED);
  const struct {
    const char* name;
    std::deque<v1::DeviceActivity> looks;
    int patience;
    ExitCode code;
    const char* error;
  } rows[] = {
      {"nobody waits", {}, 0, ExitCode::kRefused, "siw0 takes no more adapters, but 2 are still open"},
      {"it is closed meanwhile", {open, closed}, 60, ExitCode::kDone, ""},
      {"nobody closes it", {open}, 1, ExitCode::kRefused, "siw0 takes no more adapters, but 1 are still open"},
      {"another enables it", {open, enabled}, 60, ExitCode::kRefused, "siw0 was enabled or removed meanwhile"},
      {"it is removed", {}, 60, ExitCode::kRefused, "siw0 was enabled or removed meanwhile"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    inspection.disabling = row.looks;
    BrokerQueries queries(socket, OutputForm::kTable);
    EXPECT_EQ(queries.DisableAdapter("siw0", std::chrono::seconds(row.patience)), row.code);
    EXPECT_EQ(administration.disabled, "siw0");
    EXPECT_THAT(queries.error(), testing::StartsWith(row.error));
    EXPECT_EQ(queries.error().empty(), row.code == ExitCode::kDone);
  }
}

TEST_F(BrokerQueriesTest, ADeviceIsEnabledByName) {
  BrokerQueries queries(socket, OutputForm::kJson);
  EXPECT_EQ(queries.EnableAdapter("siw0"), ExitCode::kDone);
  EXPECT_EQ(administration.enabled, "siw0");
  EXPECT_EQ(queries.output(), "{}\n");
}

TEST_F(BrokerQueriesTest, WithoutABrokerTheSocketIsNamed) {
  BrokerQueries queries(socket + ".absent", OutputForm::kTable);
  EXPECT_EQ(queries.List("adapters"), ExitCode::kNoBroker);
  EXPECT_THAT(queries.error(), HasSubstr(socket + ".absent"));
  EXPECT_THAT(queries.error(), HasSubstr("rdma-brokerd"));
}

}  // namespace
}  // namespace rdmabroker::ctl
