// SPDX-License-Identifier: Apache-2.0

// Inspection.ExplainConnector in the states that a connector comes through.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "proto/rdmabroker/v1/inspection.grpc.pb.h"
#include "tests/control/network_thread.h"
#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

using Stub = v1::Broker::Stub;

// Anybody but root and this process's user.
constexpr uid_t kSomebody = 54321;

Configuration ImpatientConfiguration() {
  Configuration configuration = TestConfiguration();
  configuration.limits.connect_timeout = absl::Milliseconds(300);
  return configuration;
}

// A listening client and one that connects, each with an adapter.
class ExplainTest : public testing::Test {
 protected:
  explicit ExplainTest(const Configuration& configuration = TestConfiguration())
      : daemon_(network_, {TestDevice(1), TestDevice(2)}, configuration),
        server_(NewChannel(daemon_.target())),
        client_(NewChannel(daemon_.target())) {
    EXPECT_EQ(server_.Open(), NdkStatus::kSuccess);
    EXPECT_EQ(client_.Open(), NdkStatus::kSuccess);
    std::tie(listener_, address_) = server_.Listen(server_.OpenAdapter("fake1"), TestAddress(1));
    adapter_ = client_.OpenAdapter("fake2");
    connector_ = client_.CreateConnector(adapter_);
  }

  grpc::Status Explain(uint64_t connector, v1::ExplainConnectorReply* reply,
                       std::shared_ptr<grpc::Channel> channel = nullptr) {
    if (channel == nullptr) channel = NewChannel(daemon_.target());
    auto stub = v1::Inspection::NewStub(channel);
    grpc::ClientContext context;
    Limit(context);
    v1::ExplainConnectorRequest request;
    request.set_connector_id(connector);
    return stub->ExplainConnector(&context, request, reply);
  }
  v1::ExplainConnectorReply Explained(uint64_t connector) {
    v1::ExplainConnectorReply reply;
    const grpc::Status status = Explain(connector, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_FALSE(reply.advice().empty());
    EXPECT_TRUE(reply.has_since());
    EXPECT_EQ(reply.connector().connector_id(), connector);
    return reply;
  }
  std::vector<uint64_t> SessionsWith(const std::string& device, const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    Limit(context);
    v1::ListSessionsRequest request;
    request.set_device(device);
    v1::ListSessionsReply reply;
    EXPECT_TRUE(v1::Inspection::NewStub(channel)->ListSessions(&context, request, &reply).ok());
    std::vector<uint64_t> ids;
    for (const auto& session : reply.sessions()) ids.push_back(session.session_id());
    return ids;
  }
  uint64_t StartConnect(const SocketAddress& to) { return client_.StartConnect(connector_, 17, TestAddress(2), to); }

  NetworkThread network_;
  TestDaemon daemon_;
  TestClient server_;
  TestClient client_;
  uint64_t listener_ = 0;
  SocketAddress address_;
  uint64_t adapter_ = 0;
  uint64_t connector_ = 0;
};

class ImpatientExplainTest : public ExplainTest {
 protected:
  ImpatientExplainTest() : ExplainTest(ImpatientConfiguration()) {}
};

TEST_F(ExplainTest, AnIdleConnectorWaitsForItsClient) {
  const v1::ExplainConnectorReply reply = Explained(connector_);
  EXPECT_EQ(reply.connector().state(), v1::CONNECTOR_STATE_IDLE);
  EXPECT_EQ(reply.waits_for(), v1::CONNECTOR_WAIT_CLIENT_CONNECT);
  EXPECT_EQ(reply.session().session_id(), client_.session_id());
  EXPECT_EQ(reply.adapter().device().name(), "fake2");
  EXPECT_FALSE(reply.has_deadline());
  EXPECT_FALSE(reply.has_failure());
  EXPECT_FALSE(reply.has_listener());
  EXPECT_FALSE(reply.has_endpoint());
}

TEST_F(ExplainTest, OneThatConnectsWaitsForItsPeerAndTheOtherForItsClient) {
  StartConnect(address_);
  const uint64_t passive = server_.WaitForConnect().connector_id();
  const v1::ExplainConnectorReply active = Explained(connector_);
  EXPECT_EQ(active.waits_for(), v1::CONNECTOR_WAIT_PEER_REPLY);
  EXPECT_TRUE(active.has_deadline());
  EXPECT_EQ(active.endpoint().use(), v1::ENDPOINT_USE_DEDICATED);
  const v1::ExplainConnectorReply requested = Explained(passive);
  EXPECT_EQ(requested.connector().state(), v1::CONNECTOR_STATE_REQUESTED);
  EXPECT_EQ(requested.waits_for(), v1::CONNECTOR_WAIT_CLIENT_ACCEPT);
  EXPECT_EQ(requested.listener().listener_id(), listener_);
  EXPECT_EQ(requested.listener().undecided_connectors(), 1u);
  EXPECT_TRUE(requested.event_unacknowledged());
}

TEST_F(ExplainTest, AnEstablishedOneSaysWhoElseHoldsItsAddressAndWaitsForNothing) {
  const TestConnection connection = ConnectClients(server_, address_, client_, adapter_, TestAddress(2));
  const v1::ExplainConnectorReply reply = Explained(connection.passive);
  EXPECT_EQ(reply.connector().state(), v1::CONNECTOR_STATE_ESTABLISHED);
  EXPECT_EQ(reply.waits_for(), v1::CONNECTOR_WAIT_NOTHING);
  EXPECT_EQ(reply.endpoint().references(), 2u);
  ASSERT_EQ(reply.holders_size(), 1);
  EXPECT_EQ(reply.holders(0).listener_id(), listener_);
  EXPECT_FALSE(reply.recovered());

  // Its listener's close waits for it.
  v1::CloseListenerRequest close;
  close.set_listener_id(listener_);
  EXPECT_EQ(NdkStatusOf(server_.Ask(&Stub::CloseListener, close)), NdkStatus::kPending);
  const v1::ExplainConnectorReply closing = Explained(connection.passive);
  EXPECT_TRUE(closing.listener().closing());
  EXPECT_EQ(closing.listener().successors(), 1u);

  client_.CloseConnector(connection.active);
  server_.WaitForDisconnect(connection.passive);
  const v1::ExplainConnectorReply left = Explained(connection.passive);
  EXPECT_EQ(left.connector().state(), v1::CONNECTOR_STATE_PEER_DISCONNECTED);
  EXPECT_EQ(left.waits_for(), v1::CONNECTOR_WAIT_CLIENT_DISCONNECT);
}

TEST_F(ExplainTest, OneThatWasRefusedKeepsTheReasonWhileItTriesAgain) {
  SocketAddress nowhere = address_;
  nowhere.port = static_cast<uint16_t>(address_.port == 1 ? 2 : 1);
  const v1::Outcome refused = client_.WaitForOutcome(StartConnect(nowhere));
  EXPECT_EQ(NdkStatusOf(refused), NdkStatus::kConnectionRefused);
  const v1::ExplainConnectorReply reply = Explained(connector_);
  EXPECT_EQ(reply.connector().state(), v1::CONNECTOR_STATE_IDLE);
  EXPECT_EQ(reply.failure().status(), v1::STATUS_CONNECTION_REFUSED);
  EXPECT_EQ(reply.failure().provider_error(), refused.provider_error());
  EXPECT_EQ(reply.failure().hint(), refused.hint());
  EXPECT_NE(reply.advice().find("something listens"), std::string::npos) << reply.advice();
  StartConnect(address_);
  server_.WaitForConnect();
  const v1::ExplainConnectorReply again = Explained(connector_);
  EXPECT_EQ(again.waits_for(), v1::CONNECTOR_WAIT_PEER_REPLY);
  EXPECT_EQ(again.failure().status(), v1::STATUS_CONNECTION_REFUSED);
  EXPECT_NE(again.advice(), reply.advice());
}

TEST_F(ExplainTest, OneThatItsPeerHasRejectedSaysSo) {
  const uint64_t connect = StartConnect(address_);
  v1::RejectRequest reject;
  reject.set_connector_id(server_.WaitForConnect().connector_id());
  EXPECT_EQ(NdkStatusOf(server_.Ask(&Stub::Reject, reject)), NdkStatus::kSuccess);
  EXPECT_EQ(NdkStatusOf(client_.WaitForOutcome(connect)), NdkStatus::kConnectionRefused);
  EXPECT_EQ(Explained(connector_).failure().status(), v1::STATUS_CONNECTION_REFUSED);
  // The own reject is no failure.
  const v1::ExplainConnectorReply rejected = Explained(reject.connector_id());
  EXPECT_EQ(rejected.waits_for(), v1::CONNECTOR_WAIT_CLIENT_CLOSE);
  EXPECT_FALSE(rejected.has_failure());
}

TEST_F(ImpatientExplainTest, OneWhosePeerIsSilentHasTimedOut) {
  const uint64_t connect = StartConnect(address_);
  EXPECT_EQ(NdkStatusOf(client_.WaitForOutcome(connect)), NdkStatus::kIoTimeout);
  const v1::ExplainConnectorReply reply = Explained(connector_);
  EXPECT_EQ(reply.failure().status(), v1::STATUS_IO_TIMEOUT);
  EXPECT_FALSE(reply.has_deadline());
}

TEST_F(ExplainTest, WhatTheCallerMayNotSeeIsAsWhatIsNotThere) {
  const auto stranger = ChannelAs(kSomebody, daemon_.control_path());
  v1::ExplainConnectorReply reply;
  const grpc::Status others = Explain(connector_, &reply, stranger);
  const grpc::Status nobodys = Explain(4711, &reply, stranger);
  EXPECT_EQ(NdkStatusOf(others), NdkStatus::kObjectNameNotFound);
  EXPECT_EQ(NdkStatusOf(nobodys), NdkStatus::kObjectNameNotFound);
  std::string as_others = nobodys.error_message();
  as_others.replace(as_others.find("4711"), 4, std::to_string(connector_));
  EXPECT_EQ(others.error_message(), as_others);
}

TEST_F(ExplainTest, AnAdapterThatThePolicyHidesIsNeitherExplainedNorAskedFor) {
  const auto as_user = ChannelAs(kSomebody, daemon_.control_path());
  TestClient user(as_user);
  ASSERT_EQ(user.Open(), NdkStatus::kSuccess);
  const uint64_t connector = user.CreateConnector(user.OpenAdapter("fake2"));
  v1::ExplainConnectorReply reply;
  ASSERT_TRUE(Explain(connector, &reply, as_user).ok());
  EXPECT_EQ(reply.adapter().device().name(), "fake2");
  EXPECT_TRUE(reply.adapter().activity().withheld());
  EXPECT_EQ(SessionsWith("fake2", as_user), std::vector{user.session_id()});
  daemon_.ReplacePolicy({.allow_by_default = false, .rules = {}});
  reply.Clear();
  ASSERT_TRUE(Explain(connector, &reply, as_user).ok());
  EXPECT_FALSE(reply.has_adapter());
  EXPECT_EQ(reply.connector().device(), "fake2") << "what he has stays his";
  EXPECT_TRUE(SessionsWith("fake2", as_user).empty());
}

TEST_F(ExplainTest, SessionsCanBeAskedForByTheirDevice) {
  const auto channel = NewChannel(daemon_.target());
  EXPECT_EQ(SessionsWith("fake1", channel), std::vector{server_.session_id()});
  EXPECT_EQ(SessionsWith("fake2", channel), std::vector{client_.session_id()});
}

}  // namespace
}  // namespace rdmabroker
