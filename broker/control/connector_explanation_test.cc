// SPDX-License-Identifier: Apache-2.0

#include "broker/control/connector_explanation.h"

#include <google/protobuf/util/time_util.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "dataplane/provider_error.h"

namespace rdmabroker {
namespace {

const Caller kRoot = {.administrator = true};
constexpr SessionId kSession(1);
constexpr ConnectorId kConnector(7);

// One connector and what it stands on.
class ExplanationTest : public testing::Test {
 protected:
  ExplanationTest() {
    records_.devices[DeviceId(1)].device = {.id = DeviceId(1), .name = "nic0"};
    SessionRecord& session = records_.sessions[kSession];
    session.id = kSession;
    session.stream = StreamId(1);
    AdapterRecord& adapter = records_.adapters[AdapterId(1)];
    adapter.id = AdapterId(1);
    adapter.session = kSession;
    adapter.device = DeviceId(1);
    connector_.id = kConnector;
    connector_.session = kSession;
    connector_.adapter = AdapterId(1);
  }

  v1::ExplainConnectorReply Explained() {
    records_.connectors[kConnector] = connector_;
    v1::ExplainConnectorReply reply;
    Explain(records_, Index::Of(records_), View(kRoot, records_, gate_), connector_, absl::Seconds(1000), &reply);
    return reply;
  }

  Records records_;
  const Gate gate_{Policy(), AuditLevel::kNone};
  ConnectorRecord connector_;
};

struct Row {
  ConnectorState state;
  v1::ConnectorWait waits_for;
};

TEST_F(ExplanationTest, EveryStateWaitsForSomethingOrForNothing) {
  const Row rows[] = {
      {ConnectorState::kIdle, v1::CONNECTOR_WAIT_CLIENT_CONNECT},
      {ConnectorState::kBinding, v1::CONNECTOR_WAIT_LOCAL_ADDRESS},
      {ConnectorState::kConnecting, v1::CONNECTOR_WAIT_PEER_REPLY},
      {ConnectorState::kReplied, v1::CONNECTOR_WAIT_CLIENT_COMPLETE},
      {ConnectorState::kCompleting, v1::CONNECTOR_WAIT_ESTABLISHMENT},
      {ConnectorState::kRequested, v1::CONNECTOR_WAIT_CLIENT_ACCEPT},
      {ConnectorState::kAccepting, v1::CONNECTOR_WAIT_ESTABLISHMENT},
      {ConnectorState::kEstablished, v1::CONNECTOR_WAIT_NOTHING},
      {ConnectorState::kPeerDisconnected, v1::CONNECTOR_WAIT_CLIENT_DISCONNECT},
      {ConnectorState::kDisconnecting, v1::CONNECTOR_WAIT_PEER_DISCONNECT},
      {ConnectorState::kDead, v1::CONNECTOR_WAIT_CLIENT_CLOSE},
  };
  for (const Row& row : rows) {
    connector_.state = row.state;
    const v1::ExplainConnectorReply reply = Explained();
    EXPECT_EQ(reply.waits_for(), row.waits_for);
    EXPECT_FALSE(reply.advice().empty());
  }
}

TEST_F(ExplanationTest, WhatHoldsAStateUpIsTold) {
  connector_.state = ConnectorState::kBinding;
  connector_.releasing = ConnectionId(3);
  EXPECT_EQ(Explained().waits_for(), v1::CONNECTOR_WAIT_EARLIER_TRY);
  connector_.state = ConnectorState::kDead;
  connector_.closing = true;
  EXPECT_EQ(Explained().waits_for(), v1::CONNECTOR_WAIT_RELEASE);
  connector_.releasing = ConnectionId();
  EXPECT_EQ(Explained().waits_for(), v1::CONNECTOR_WAIT_UNBINDING);
  connector_.closing = false;
  connector_.state = ConnectorState::kEstablished;
  connector_.awaits_handoff = true;
  EXPECT_EQ(Explained().waits_for(), v1::CONNECTOR_WAIT_HANDOFF);
}

TEST_F(ExplanationTest, OfAClientThatIsAwayItsReturnIsAwaited) {
  SessionRecord& session = records_.sessions.at(kSession);
  session.stream = StreamId();
  session.deadline = absl::FromUnixSeconds(30);
  connector_.state = ConnectorState::kRequested;
  const v1::ExplainConnectorReply reply = Explained();
  EXPECT_EQ(reply.waits_for(), v1::CONNECTOR_WAIT_CLIENT_RETURN);
  EXPECT_EQ(google::protobuf::util::TimeUtil::ToString(reply.deadline()), "1970-01-01T00:17:10Z");
  connector_.state = ConnectorState::kConnecting;
  EXPECT_EQ(Explained().waits_for(), v1::CONNECTOR_WAIT_PEER_REPLY) << "that is not the client's turn";
}

TEST_F(ExplanationTest, TimesAreThoseOfPeople) {
  EXPECT_FALSE(Explained().has_since()) << "an older broker's connector";
  EXPECT_FALSE(Explained().has_deadline());
  connector_.since = absl::FromUnixSeconds(5);
  connector_.deadline = absl::FromUnixSeconds(65);
  const v1::ExplainConnectorReply reply = Explained();
  EXPECT_EQ(reply.since().seconds(), 1005);
  EXPECT_EQ(reply.deadline().seconds(), 1065);
}

TEST_F(ExplanationTest, AFailureGivesTheAdviceUnlessTheConnectorGoesOn) {
  connector_.failure = ConnectorFailure{absl::FromUnixSeconds(1), NdkStatus::kConnectionRefused, 28, "refused"};
  const v1::ExplainConnectorReply reply = Explained();
  EXPECT_EQ(reply.failure().status(), v1::STATUS_CONNECTION_REFUSED);
  EXPECT_EQ(reply.failure().provider_error(), 28u);
  EXPECT_EQ(reply.failure().hint(), "refused");
  EXPECT_EQ(reply.failure().time().seconds(), 1001);
  EXPECT_EQ(reply.advice(), AdviceOnFailures().front().advice);
  connector_.state = ConnectorState::kConnecting;
  EXPECT_TRUE(Explained().has_failure());
  EXPECT_NE(Explained().advice(), reply.advice());
}

TEST_F(ExplanationTest, TheEndOfAConnectionIsToldWithWhatTheDataPathSaysOfIt) {
  const uint32_t error = TerminateReceived(iwarp::kDdpNoBuffer);
  connector_.failure = ConnectorFailure{absl::FromUnixSeconds(1), NdkStatus::kConnectionAborted, error, "it broke"};
  EXPECT_EQ(Explained().failure().hint(), "it broke: " + ConnectionEndText(NdkStatus::kConnectionAborted, error));
  // The connection manager's number of a handshake means something else than an errno.
  connector_.failure->provider_error = 28;
  EXPECT_EQ(Explained().failure().hint(), "it broke");
}

TEST_F(ExplanationTest, AConnectionWhosePeerSendsLargerPacketsThanThePortTakesIsNotInOrder) {
  constexpr struct {
    uint32_t path_mtu;  // Of enum ibv_mtu.
    uint32_t port;      // In bytes.
    bool exceeds;
  } kCases[] = {{5, 4096, false}, {3, 4096, false}, {5, 1024, true}, {5, 0, false}, {0, 1024, false}, {9, 1024, false}};
  connector_.state = ConnectorState::kEstablished;
  const std::string in_order = Explained().advice();
  for (const auto& [path_mtu, port, exceeds] : kCases) {
    connector_.qp_attributes = {{}, {.path_mtu = path_mtu}, {}};
    records_.devices.at(DeviceId(1)).device.mtu = port;
    const v1::ExplainConnectorReply reply = Explained();
    EXPECT_EQ(reply.advice() != in_order, exceeds) << path_mtu << " at a port of " << port;
    EXPECT_EQ(reply.connector().path_mtu(), MtuInBytes(path_mtu));
    EXPECT_EQ(reply.adapter().device().mtu(), port);
  }
}

TEST_F(ExplanationTest, HoldersOfTheAddressAreNamed) {
  connector_.endpoint = EndpointId(9);
  records_.endpoints[EndpointId(9)].device = DeviceId(1);
  records_.endpoints.at(EndpointId(9)).owner = ListenerId(3);
  ListenerRecord& listener = records_.listeners[ListenerId(3)];
  listener.id = ListenerId(3);
  listener.session = kSession;
  listener.adapter = AdapterId(1);
  listener.endpoint = EndpointId(9);
  for (const uint64_t id : {11, 10, 12}) {
    ConnectorRecord& other = records_.connectors[ConnectorId(id)];
    other.id = ConnectorId(id);
    other.session = kSession;
    other.adapter = AdapterId(1);
    other.endpoint = EndpointId(9);
    other.left_endpoint = id == 12;
  }
  const v1::ExplainConnectorReply reply = Explained();
  ASSERT_EQ(reply.holders_size(), 3);
  EXPECT_EQ(reply.holders(0).listener_id(), 3u);
  EXPECT_EQ(reply.holders(1).connector_id(), 10u);
  EXPECT_EQ(reply.holders(2).connector_id(), 11u);
}

TEST_F(ExplanationTest, AnEventThatTheClientHasNotAcknowledgedIsTold) {
  connector_.last_event = EventNumber(4);
  EXPECT_TRUE(Explained().event_unacknowledged());
  records_.sessions.at(kSession).acknowledged = EventNumber(4);
  EXPECT_FALSE(Explained().event_unacknowledged());
}

TEST(Advice, IsThereForEveryWaitAndOnThePage) {
  std::stringstream page;
  page << std::ifstream("docs/operating.md").rdbuf();
  std::set<int> waits;
  for (const WaitAdvice& row : AdviceOnWaits()) {
    waits.insert(row.waits_for);
    EXPECT_NE(page.str().find(std::string(" | ") + row.advice + " |\n"), std::string::npos) << row.advice;
  }
  EXPECT_EQ(waits.size() + 1, static_cast<size_t>(v1::ConnectorWait_descriptor()->value_count()));
  for (const FailureAdvice& row : AdviceOnFailures()) {
    const std::string failure = row.failure == v1::STATUS_SUCCESS ? "any other" : v1::NdkStatus_Name(row.failure);
    const std::string line = "| " + failure + " | " + row.advice + " |\n";
    EXPECT_NE(page.str().find(line), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace rdmabroker
