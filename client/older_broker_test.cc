// SPDX-License-Identifier: Apache-2.0

// A broker that takes no requests on the session's stream: they are made by RPCs, one after the other.

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "client/testing/fixture.h"
#include "proto/rdmabroker/v1/requests.pb.h"

namespace rdmabroker::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class OlderBrokerTest : public ClientTest {
 protected:
  void SetUp() override {
    OpenSession([](v1::SessionOpened* opened) {
      opened->set_api_minor(1);
      opened->clear_features();
    });
  }
  void HoldConnectors() {
    broker.On("CreateConnector", [](const Broker::Request&) {
      return Broker::Answer{Broker::Answer::Kind::kHold, {}};
    });
  }
  // Its outcome, in time.
  Later<Outcome> CreateConnector() {
    Later<Outcome> done;
    adapter->CreateConnector([done](const Outcome& outcome, const std::shared_ptr<Connector>&) { done.Set(outcome); });
    return done;
  }
  std::vector<std::string> Methods() {
    std::vector<std::string> methods;
    for (const auto& request : broker.requests()) {
      if (request.method != "ListAdapters") methods.push_back(request.method);
    }
    return methods;
  }
};

TEST_F(OlderBrokerTest, DoesAllThatItIsAskedInOrder) {
  const auto listener = NewListener([](const std::shared_ptr<Connector>& connector) { connector->Close({}); });
  broker.Emit(Broker::ConnectEvent(broker.WaitFor("Listen").object, 900));
  EXPECT_EQ(broker.WaitFor("CloseConnector").acknowledged_event, 1u);
  BlockingClose(Established(qp, {}));
  BlockingClose(listener);
  EXPECT_THAT(Methods(), ElementsAre("OpenAdapter", "CreateListener", "Listen", "CloseConnector", "CreateConnector",
                                     "Connect", "CompleteConnect", "CloseConnector", "CloseListener"));
}

TEST_F(OlderBrokerTest, IsAskedOneThingAtATime) {
  HoldConnectors();
  const Later<Outcome> first = CreateConnector(), second = CreateConnector();
  const uint64_t id = broker.WaitFor("CreateConnector").request_id;
  Settle();
  EXPECT_THAT(Methods(), ElementsAre("OpenAdapter", "CreateConnector"));
  broker.On("CreateConnector", [](const Broker::Request&) { return Broker::Success(); });
  broker.Release(id, Broker::Failure(NdkStatus::kNoMemory));
  EXPECT_EQ(first.Get().status, NdkStatus::kNoMemory);
  EXPECT_EQ(second.Get().status, NdkStatus::kSuccess);
}

TEST_F(OlderBrokerTest, TellsTheOutcomeOfAPendingRequestByAnEvent) {
  broker.On("CreateConnector", [](const Broker::Request&) { return Broker::Pending(); });
  const Later<Outcome> done = CreateConnector();
  broker.EmitOutcome(broker.WaitFor("CreateConnector").request_id, Broker::Error(NdkStatus::kNoMemory));
  EXPECT_EQ(done.Get().status, NdkStatus::kNoMemory);
}

TEST_F(OlderBrokerTest, IsAskedAgainUnderTheSameIdWhereItsReplyIsLost) {
  ExpectLostRepliesAreAskedForAgain();
  EXPECT_EQ(broker.streams(), 1u);
}

TEST_F(OlderBrokerTest, IsNotAskedAgainForWhatItDoesNotKnow) {
  broker.On("CreateConnector", [](const Broker::Request&) {
    return Broker::Answer{Broker::Answer::Kind::kUnknown, {}};
  });
  const Outcome outcome = CreateConnector().Get();
  EXPECT_EQ(outcome.status, NdkStatus::kNotSupported);
  EXPECT_THAT(outcome.hint, HasSubstr("does not take this"));
}

// The broker's process has died: neither the stream nor the request gets an answer.
TEST_F(OlderBrokerTest, IsAskedAgainAfterTheReturn) {
  HoldConnectors();
  const Later<Outcome> done = CreateConnector();
  const uint64_t id = broker.WaitFor("CreateConnector").request_id;
  broker.On("CreateConnector", [](const Broker::Request&) { return Broker::Success(); });
  broker.EndStream({grpc::StatusCode::UNAVAILABLE, "Socket closed"});
  EXPECT_EQ(done.Get().status, NdkStatus::kSuccess);
  EXPECT_EQ(broker.WaitFor("CreateConnector", 2).request_id, id);
  EXPECT_EQ(broker.streams(), 2u);
}

TEST_F(OlderBrokerTest, HoldsNoSessionsEndUpWhereItIsStuck) {
  HoldConnectors();
  const Later<Outcome> done = CreateConnector();
  broker.WaitFor("CreateConnector");
  session = nullptr;
  EXPECT_EQ(done.Get().status, NdkStatus::kCancelled);
}

TEST_F(OlderBrokerTest, MayBeFollowedByANewerOneUnderTheSameSession) {
  HoldConnectors();
  const Later<Outcome> done = CreateConnector();
  broker.WaitFor("CreateConnector");
  broker.OnOpen({});
  broker.On("CreateConnector", [](const Broker::Request&) { return Broker::Success(); });
  broker.EndStream({grpc::StatusCode::UNAVAILABLE, "Socket closed"});
  EXPECT_EQ(done.Get().status, NdkStatus::kSuccess);
  EXPECT_NE(NewConnector(), nullptr);
}

}  // namespace
}  // namespace rdmabroker::client
