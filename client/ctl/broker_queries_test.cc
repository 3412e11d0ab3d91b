// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/broker_queries.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

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
};

class FakeAdministration final : public v1::Administration::Service {
 public:
  grpc::Status EndSession(grpc::ServerContext*, const v1::EndSessionRequest* request, v1::EndSessionReply*) override {
    ended = request->session_id();
    return grpc::Status::OK;
  }
  uint64_t ended = 0;
};

class BrokerQueriesTest : public testing::Test {
 protected:
  BrokerQueriesTest() {
    char name[] = "/tmp/broker-queries-XXXXXX";
    folder_ = ::mkdtemp(name);
    socket = folder_ + "/control.sock";
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
    builder.RegisterService(&inspection_);
    builder.RegisterService(&administration);
    server_ = builder.BuildAndStart();
  }
  ~BrokerQueriesTest() override {
    server_->Shutdown();
    ::unlink(socket.c_str());
    ::rmdir(folder_.c_str());
  }

  std::string socket;
  FakeAdministration administration;

 private:
  std::string folder_;
  FakeInspection inspection_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(BrokerQueriesTest, ATableHasWordsAndNoControlCharacters) {
  BrokerQueries queries(socket, OutputForm::kTable);
  EXPECT_EQ(queries.List("adapters"), ExitCode::kDone);
  EXPECT_EQ(queries.output(),
            "NAME        TECHNOLOGY  PORTS    USABLE  ADDRESSES  WHY NOT\n"
            "iwarp0?[2J  roce-v2     rdma-cm  yes     192.0.2.1\n");
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

TEST_F(BrokerQueriesTest, ASessionIsEndedById) {
  BrokerQueries queries(socket, OutputForm::kTable);
  EXPECT_EQ(queries.EndSession(42), ExitCode::kDone);
  EXPECT_EQ(administration.ended, 42u);
}

TEST_F(BrokerQueriesTest, WithoutABrokerTheSocketIsNamed) {
  BrokerQueries queries(socket + ".absent", OutputForm::kTable);
  EXPECT_EQ(queries.List("adapters"), ExitCode::kNoBroker);
  EXPECT_THAT(queries.error(), HasSubstr(socket + ".absent"));
  EXPECT_THAT(queries.error(), HasSubstr("rdma-brokerd"));
}

}  // namespace
}  // namespace rdmabroker::ctl
