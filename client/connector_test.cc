// SPDX-License-Identifier: Apache-2.0

#include "client/connector.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "client/shared_endpoint.h"
#include "client/testing/fixture.h"
#include "client/testing/handoff_server.h"
#include "dataplane/provider_error.h"
#include "proto/rdmabroker/v1/requests.pb.h"

namespace rdmabroker::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const ConnectParameters kParameters = {.destination = kSomeAddress};

class ConnectorTest : public ClientTest {
 protected:
  // With an adapter whose connections the kernel ends.
  void OpenSessionOnTheKernels() {
    broker.On("OpenAdapter", [](const Broker::Request&) {
      Broker::Answer answer;
      v1::AdapterOpened& opened = *answer.outcome.mutable_adapter_opened();
      opened.set_adapter_id(50);
      opened.mutable_info()->set_technology(v1::RDMA_TECHNOLOGY_IWARP);
      return answer;
    });
    OpenSession();
  }
  void AcceptsAreHandedOff() {
    broker.On("Accept", [](const Broker::Request&) {
      Broker::Answer answer;
      answer.outcome = Broker::Established("fedcba9876543210");
      return answer;
    });
  }
  // Delivers a connector with this id to a new listener.
  std::shared_ptr<Connector> Deliver(uint64_t id, const std::string& private_data = {}) {
    const Later<std::shared_ptr<Connector>> delivered;
    const auto listener = NewListener([delivered](std::shared_ptr<Connector> c) { delivered.Set(std::move(c)); });
    size_t listens = 0;
    for (const auto& request : broker.requests()) listens += request.method == "Listen" ? 1 : 0;
    broker.Emit(Broker::ConnectEvent(broker.WaitFor("Listen", listens).object, id, private_data));
    return delivered.Get();
  }
};

TEST_F(ConnectorTest, AnOutcomeMayOvertakeItsReplyAndWhatFollowsItComesAfter) {
  OpenSession();
  broker.On("CompleteConnect", [](const Broker::Request&) { return Broker::Answer{Broker::Answer::Kind::kHold, {}}; });
  const auto connector = NewConnector();
  ASSERT_EQ(connector->Connect(qp, kParameters, Logs("connect")), NdkStatus::kPending);
  log.WaitFor(1);
  ASSERT_EQ(connector->CompleteConnect(LogsEnd("end"), Logs("complete")), NdkStatus::kPending);
  const auto request = broker.WaitFor("CompleteConnect");
  broker.EmitOutcome(request.request_id, Broker::Established());
  broker.Emit(Broker::DisconnectEvent(request.object));
  EXPECT_THAT(log.WaitFor(3), ElementsAre("connect STATUS_SUCCESS", "complete STATUS_SUCCESS", "end STATUS_SUCCESS"));
  // Neither the reply, nor the outcome again, is told.
  broker.Release(request.request_id, Broker::Pending());
  broker.EmitOutcome(request.request_id, Broker::Error(NdkStatus::kIoTimeout));
  connector->Close(LogsClose("closed"));
  EXPECT_EQ(log.WaitFor(4).back(), "closed");
}

TEST_F(ConnectorTest, ADisconnectEventThatOvertakesTheReplyIsHeld) {
  OpenSession();
  broker.On("CompleteConnect", [](const Broker::Request&) { return Broker::Answer{Broker::Answer::Kind::kHold, {}}; });
  const auto connector = NewConnector();
  connector->Connect(qp, kParameters, Logs("connect"));
  log.WaitFor(1);
  connector->CompleteConnect(LogsEnd("end"), Logs("complete"));
  const auto request = broker.WaitFor("CompleteConnect");
  broker.Emit(Broker::DisconnectEvent(request.object, NdkStatus::kConnectionAborted));
  // The first end is the true one.
  broker.Emit(Broker::DisconnectEvent(request.object));
  broker.WaitForAcknowledgement(2);
  EXPECT_THAT(log.lines(), ElementsAre("connect STATUS_SUCCESS"));
  Broker::Answer established;
  established.outcome = Broker::Established();
  broker.Release(request.request_id, established);
  EXPECT_THAT(log.WaitFor(3),
              ElementsAre("connect STATUS_SUCCESS", "complete STATUS_SUCCESS", "end STATUS_CONNECTION_ABORTED"));
}

TEST_F(ConnectorTest, ADisconnectEventIsToldOnce) {
  OpenSession();
  const auto connector = Established(qp, LogsEnd("end"));
  const uint64_t id = broker.WaitFor("Connect").object;
  broker.Emit(Broker::DisconnectEvent(id));
  broker.Emit(Broker::DisconnectEvent(id));
  v1::SessionEvent again = Broker::DisconnectEvent(id);
  again.set_number(1);
  broker.Emit(again);
  broker.WaitForAcknowledgement(2);
  Settle();
  EXPECT_THAT(log.lines(), ElementsAre("end STATUS_SUCCESS"));
}

TEST_F(ConnectorTest, WrongStatesAreRefusedInline) {
  OpenSession();
  broker.On("Connect", [](const Broker::Request&) { return Broker::Pending(); });
  const auto connector = NewConnector();
  const auto nothing = [](const Outcome&) { FAIL(); };
  EXPECT_EQ(connector->CompleteConnect({}, nothing), NdkStatus::kConnectionInvalid);
  EXPECT_EQ(connector->Disconnect(nothing), NdkStatus::kConnectionInvalid);
  EXPECT_EQ(connector->Accept(qp, {}, {}, nothing), NdkStatus::kConnectionInvalid);
  EXPECT_EQ(connector->Reject(""), NdkStatus::kConnectionInvalid);
  EXPECT_EQ(connector->Connect(nullptr, kParameters, nothing), NdkStatus::kInvalidParameter);
  EXPECT_EQ(connector->Connect(qp, kParameters, {}), NdkStatus::kInvalidParameter);
  ConnectParameters long_data = kParameters;
  long_data.private_data.resize(57);
  EXPECT_EQ(connector->Connect(qp, long_data, nothing), NdkStatus::kInvalidBufferSize);
  EXPECT_EQ(connector->Connect(qp, kParameters, Logs("connect")), NdkStatus::kPending);
  EXPECT_EQ(connector->Connect(qp, kParameters, nothing), NdkStatus::kConnectionActive);
  EXPECT_EQ(connector->CompleteConnect({}, nothing), NdkStatus::kConnectionInvalid);
  connector->Close({});
  EXPECT_EQ(connector->Connect(qp, kParameters, nothing), NdkStatus::kConnectionActive);
  EXPECT_EQ(connector->Close([] { FAIL(); }), NdkStatus::kSuccess);
}

TEST_F(ConnectorTest, HowOftenASendIsTriedAgainReachesTheBroker) {
  OpenSession();
  const auto connector = NewConnector();
  ConnectParameters parameters = kParameters;
  parameters.options.rnr_retry_count = 3;
  ASSERT_EQ(connector->Connect(qp, parameters, Logs("connect")), NdkStatus::kPending);
  EXPECT_EQ(broker.WaitFor("Connect").As<v1::ConnectRequest>().options().rnr_retry_count(), 3u);
  ASSERT_EQ(NewConnector()->Connect(qp, kParameters, Logs("default")), NdkStatus::kPending);
  EXPECT_EQ(broker.WaitFor("Connect", 2).As<v1::ConnectRequest>().options().rnr_retry_count(), 7u);
  const auto accepting = Deliver(900);
  ASSERT_EQ(accepting->Accept(qp, {.options = {.rnr_retry_count = 5}}, {}, Logs("accept")), NdkStatus::kPending);
  EXPECT_EQ(broker.WaitFor("Accept").As<v1::AcceptRequest>().options().rnr_retry_count(), 5u);
  log.WaitFor(3);
}

TEST_F(ConnectorTest, ADeliveredConnectorCannotConnectAndIsDecidedOnce) {
  OpenSession();
  const auto nothing = [](const Outcome&) { FAIL(); };
  const auto connector = Deliver(900);
  EXPECT_EQ(connector->Connect(qp, kParameters, nothing), NdkStatus::kInvalidDeviceState);
  EXPECT_EQ(connector->Reject(std::string(149, 'x')), NdkStatus::kInvalidBufferSize);
  EXPECT_EQ(connector->Reject("no"), NdkStatus::kSuccess);
  EXPECT_EQ(connector->Reject("no"), NdkStatus::kConnectionInvalid);
  EXPECT_EQ(connector->Accept(qp, {}, {}, nothing), NdkStatus::kConnectionInvalid);
  EXPECT_EQ(broker.WaitFor("Reject").As<v1::RejectRequest>().private_data(), "no");
}

TEST_F(ConnectorTest, ARejectTellsWhetherThePeerStillWaited) {
  OpenSession();
  const auto waiting = Deliver(900);
  ASSERT_EQ(waiting->Reject("no", Logs("waiting")), NdkStatus::kPending);
  EXPECT_EQ(log.WaitFor(1).back(), "waiting STATUS_SUCCESS");
  broker.On("Reject", [](const Broker::Request&) { return Broker::Failure(NdkStatus::kConnectionAborted); });
  EXPECT_EQ(BlockingReject(Deliver(901), "no").status, NdkStatus::kConnectionAborted);
  EXPECT_EQ(Deliver(902)->Reject("no"), NdkStatus::kSuccess);
}

TEST_F(ConnectorTest, AQueuePairOfAnotherAdapterInstanceIsRefusedAndTheConnectorStaysUsable) {
  OpenSession();
  const auto nothing = [](const Outcome&) { FAIL(); };
  auto second = BlockingOpenAdapter(*session, "iwarp0");
  ASSERT_TRUE(second.outcome.ok()) << second.outcome.hint;
  auto* const strange = new FakeQueuePair(second.object->data());
  const auto delivered = Deliver(900);
  const auto connector = NewConnector();
  const Later<std::shared_ptr<SharedEndpoint>> made;
  adapter->CreateSharedEndpoint(kSomeAddress, [made](const Outcome&, std::shared_ptr<SharedEndpoint> endpoint) {
    made.Set(std::move(endpoint));
  });
  EXPECT_EQ(connector->Connect(strange, kParameters, nothing), NdkStatus::kInvalidParameterMix);
  EXPECT_EQ(connector->ConnectWithSharedEndpoint(strange, made.Get(), kParameters, nothing),
            NdkStatus::kInvalidParameterMix);
  EXPECT_EQ(delivered->Accept(strange, {}, {}, nothing), NdkStatus::kInvalidParameterMix);
  EXPECT_EQ(strange->Close({}), NdkStatus::kSuccess) << "something holds the queue pair";
  EXPECT_EQ(connector->Connect(qp, kParameters, Logs("connect")), NdkStatus::kPending);
  EXPECT_EQ(log.WaitFor(1).back(), "connect STATUS_SUCCESS");
  EXPECT_TRUE(BlockingAccept(delivered, qp, {}).ok());
}

TEST_F(ConnectorTest, AfterARefusalTheSameConnectorAndQueuePairConnect) {
  OpenSession();
  broker.On("Connect", [tries = std::make_shared<int>(0)](const Broker::Request&) {
    Broker::Answer refused = Broker::Failure(NdkStatus::kConnectionRefused);
    *refused.outcome.mutable_connection_data() = Broker::Connected("because").connection_data();
    refused.outcome.set_retryable(true);
    return ++*tries == 1 ? refused : Broker::Success();
  });
  const auto connector = NewConnector();
  ASSERT_EQ(connector->Connect(qp, kParameters, Logs("connect")), NdkStatus::kPending);
  log.WaitFor(1);
  EXPECT_EQ(connector->connection_data()->private_data, "because");
  ASSERT_EQ(connector->Connect(qp, kParameters, Logs("again")), NdkStatus::kPending);
  EXPECT_THAT(log.WaitFor(2), ElementsAre("connect STATUS_CONNECTION_REFUSED", "again STATUS_SUCCESS"));
  EXPECT_EQ(broker.WaitFor("Connect", 1).As<v1::ConnectRequest>().qp_number(),
            broker.WaitFor("Connect", 2).As<v1::ConnectRequest>().qp_number());
}

TEST_F(ConnectorTest, OneQueuePairHasOneNumberAndTwoHaveTwo) {
  OpenSession();
  auto* const other = new FakeQueuePair(adapter->data());
  const std::vector<std::shared_ptr<Connector>> connectors = {NewConnector(), NewConnector(), NewConnector()};
  connectors[0]->Connect(qp, kParameters, Logs("first"));
  connectors[1]->Connect(qp, kParameters, Logs("second"));
  connectors[2]->Connect(other, kParameters, Logs("third"));
  log.WaitFor(3);
  const auto number = [&](size_t n) { return broker.WaitFor("Connect", n).As<v1::ConnectRequest>().qp_number(); };
  std::set<uint32_t> numbers = {number(1), number(2), number(3)};
  EXPECT_EQ(numbers.size(), 2u);
  EXPECT_GE(*numbers.begin(), 1u);
  for (const auto& connector : connectors) BlockingClose(connector);
  BlockingClose(other);
}

TEST_F(ConnectorTest, ConnectionDataFollowsNdksBufferRules) {
  OpenSession();
  const auto connector = Deliver(900, "12345678");
  uint32_t inbound = 0;
  uint32_t outbound = 0;
  char buffer[16] = {};
  uint32_t length = 0;
  EXPECT_EQ(connector->GetConnectionData(&inbound, &outbound, nullptr, &length), NdkStatus::kSuccess);
  EXPECT_EQ(length, 8u);
  EXPECT_EQ(inbound, 4u);
  EXPECT_EQ(outbound, 2u);
  EXPECT_EQ(connector->GetConnectionData(nullptr, nullptr, nullptr, nullptr), NdkStatus::kSuccess);
  length = 3;
  EXPECT_EQ(connector->GetConnectionData(nullptr, nullptr, buffer, &length), NdkStatus::kBufferTooSmall);
  EXPECT_EQ(length, 8u);
  EXPECT_STREQ(buffer, "123");
  length = 16;
  EXPECT_EQ(connector->GetConnectionData(nullptr, nullptr, buffer, &length), NdkStatus::kSuccess);
  EXPECT_EQ(length, 8u);
  EXPECT_STREQ(buffer, "12345678");
  EXPECT_EQ(connector->GetConnectionData(nullptr, nullptr, nullptr, &length), NdkStatus::kInvalidParameter);
  EXPECT_EQ(connector->GetConnectionData(nullptr, nullptr, buffer, nullptr), NdkStatus::kInvalidParameter);
  EXPECT_EQ(NewConnector()->GetConnectionData(&inbound, nullptr, nullptr, nullptr), NdkStatus::kConnectionInvalid);
}

TEST_F(ConnectorTest, AddressesComeAsSockaddrs) {
  OpenSession();
  const auto connector = Deliver(900);
  sockaddr_in address = {};
  uint32_t length = sizeof address - 1;
  EXPECT_EQ(connector->GetLocalAddress(reinterpret_cast<sockaddr*>(&address), &length), NdkStatus::kBufferTooSmall);
  EXPECT_EQ(length, sizeof address);
  EXPECT_EQ(address.sin_family, 0);
  EXPECT_EQ(connector->GetLocalAddress(reinterpret_cast<sockaddr*>(&address), &length), NdkStatus::kSuccess);
  EXPECT_EQ(ntohs(address.sin_port), 50000);
  EXPECT_EQ(connector->GetPeerAddress(reinterpret_cast<sockaddr*>(&address), &length), NdkStatus::kSuccess);
  EXPECT_EQ(ntohs(address.sin_port), 4420);
  EXPECT_EQ(NewConnector()->GetPeerAddress(nullptr, &length), NdkStatus::kConnectionInvalid);
}

TEST_F(ConnectorTest, TheTransportIsAttachedBeforeTheConsumerHears) {
  OpenSession();
  const std::string secret = "fedcba9876543210";
  HandoffServer server(broker.folder() + "/handoff.sock", 1, [&](const v1::HandoffRequest& request) {
    EXPECT_EQ(request.session_id(), 7u);
    EXPECT_EQ(request.session_secret(), "0123456789abcdef");
    EXPECT_EQ(request.connector_id(), 900u);
    EXPECT_EQ(request.handoff_secret(), secret);
    return HandoffServer::Reply("state");
  });
  broker.On("Accept", [secret](const Broker::Request&) {
    Broker::Answer answer;
    answer.outcome = Broker::Established(secret);
    return answer;
  });
  const auto connector = Deliver(900);
  const Later<std::string> state;
  connector->Accept(qp, {}, {}, [this, state](const Outcome& outcome) {
    EXPECT_TRUE(outcome.ok()) << outcome.hint;
    state.Set(qp->state());
  });
  EXPECT_EQ(state.Get(), "state");
  EXPECT_EQ(server.acknowledged(), 1);
  EXPECT_EQ(connector->connection_data()->limits, (ReadLimits{.inbound = 3, .outbound = 1}));
}

TEST_F(ConnectorTest, AHandOffThatFailsFailsTheConnection) {
  OpenSession();
  v1::HandoffReply denied;
  denied.mutable_outcome()->set_status(v1::STATUS_ACCESS_DENIED);
  const struct {
    const char* what;
    HandoffServer::Step step;
    NdkStatus attach;
    NdkStatus status;
  } rows[] = {
      {"denies", {denied.SerializeAsString(), 0}, NdkStatus::kSuccess, NdkStatus::kAccessDenied},
      {"garbage", {"\xff\xff\xff", 1}, NdkStatus::kSuccess, NdkStatus::kInternalError},
      {"no descriptor", HandoffServer::Reply("s", 0), NdkStatus::kSuccess, NdkStatus::kInternalError},
      {"two descriptors", HandoffServer::Reply("s", 2), NdkStatus::kSuccess, NdkStatus::kInternalError},
      {"the queue pair was used", HandoffServer::Reply("s"), NdkStatus::kConnectionActive,
       NdkStatus::kConnectionActive},
  };
  AcceptsAreHandedOff();
  uint64_t id = 900;
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    ::unlink((broker.folder() + "/handoff.sock").c_str());
    HandoffServer server(broker.folder() + "/handoff.sock", 1, [&](const auto&) { return row.step; });
    const auto connector = Deliver(++id);
    qp->set_attach_status(row.attach);
    EXPECT_EQ(BlockingAccept(connector, qp, {}).status, row.status);
    EXPECT_EQ(server.acknowledged(), 0);
    EXPECT_EQ(connector->Disconnect([](const Outcome&) {}), NdkStatus::kConnectionInvalid);
    EXPECT_EQ(BlockingClose(connector), NdkStatus::kSuccess);
  }
}

// The broker's process went away before it answered, and another goes on.
TEST_F(ConnectorTest, AHandOffThatBreaksOffIsBegunAgain) {
  OpenSession();
  int served = 0;
  HandoffServer server(broker.folder() + "/handoff.sock", 3, [&](const auto&) {
    return ++served < 3 ? HandoffServer::Step() : HandoffServer::Reply("state");
  });
  AcceptsAreHandedOff();
  const auto connector = Deliver(900);
  EXPECT_TRUE(BlockingAccept(connector, qp, {}).ok());
  EXPECT_EQ(server.acknowledged(), 1);
  EXPECT_EQ(BlockingClose(connector), NdkStatus::kSuccess);
}

// For longer than the hand-off may take, while the broker's process goes away.
TEST_F(ConnectorTest, AHandOffDuringWhichThisProcessIsStoppedIsBegunAgain) {
  OpenSession([](v1::SessionOpened* opened) {
    opened->mutable_limits()->set_handoff_timeout_ms(2000);
    opened->mutable_limits()->set_session_grace_ms(1);
  });
  int served = 0;
  HandoffServer server(broker.folder() + "/handoff.sock", 2, [&](const auto&) {
    if (++served == 2) return HandoffServer::Reply("state");
    EXPECT_EQ(std::system("kill -STOP $PPID && sleep 2.1; kill -CONT $PPID"), 0);
    return HandoffServer::Step();
  });
  AcceptsAreHandedOff();
  const auto connector = Deliver(900);
  EXPECT_TRUE(BlockingAccept(connector, qp, {}).ok());
  EXPECT_EQ(server.acknowledged(), 1);
  EXPECT_EQ(BlockingClose(connector), NdkStatus::kSuccess);
}

// The time for an answer is over long before the time for the hand-off.
TEST_F(ConnectorTest, AHandOffThatIsNotAnsweredIsBegunAgain) {
  OpenSession([](v1::SessionOpened* opened) { opened->mutable_limits()->set_handoff_timeout_ms(100); });
  int served = 0;
  HandoffServer server(broker.folder() + "/handoff.sock", 3, [&](const auto&) {
    return ++served < 3 ? HandoffServer::Step{.silent = true} : HandoffServer::Reply("state");
  });
  AcceptsAreHandedOff();
  const auto connector = Deliver(900);
  const Outcome accepted = BlockingAccept(connector, qp, {});
  EXPECT_TRUE(accepted.ok()) << accepted.hint;
  EXPECT_EQ(server.acknowledged(), 1);
  EXPECT_EQ(BlockingClose(connector), NdkStatus::kSuccess);
}

TEST_F(ConnectorTest, AHandOffEndsWithWhatTheBrokerAllowsAndSaysWhy) {
  constexpr std::chrono::milliseconds kHandoff{50}, kGrace{250};
  OpenSession([&](v1::SessionOpened* opened) {
    opened->mutable_limits()->set_handoff_timeout_ms(kHandoff.count());
    opened->mutable_limits()->set_session_grace_ms(kGrace.count());
  });
  AcceptsAreHandedOff();
  const std::string path = broker.folder() + "/handoff.sock";
  for (const bool listens : {false, true}) {
    SCOPED_TRACE(listens ? "nobody accepts" : "nobody is there");
    std::optional<HandoffServer> server;
    if (listens) server.emplace(path, 0, nullptr);
    const auto connector = Deliver(listens ? 901 : 900);
    const auto began = std::chrono::steady_clock::now();
    const Outcome accepted = BlockingAccept(connector, qp, {});
    EXPECT_GE(std::chrono::steady_clock::now() - began, kHandoff + kGrace);
    EXPECT_EQ(accepted.status, listens ? NdkStatus::kIoTimeout : NdkStatus::kConnectionAborted);
    EXPECT_THAT(accepted.hint, HasSubstr("after 300 ms, which is what the broker allows"));
    EXPECT_THAT(accepted.hint, HasSubstr("see whether rdma-brokerd runs"));
    EXPECT_EQ(BlockingClose(connector), NdkStatus::kSuccess);
  }
}

TEST_F(ConnectorTest, AHandOffThatIsWithheldHoldsUpNoOther) {
  OpenSession([](v1::SessionOpened* opened) { opened->mutable_limits()->set_session_grace_ms(1'800'000); });
  constexpr int kOthers = 99;
  const Later<bool> asked;
  HandoffServer server(broker.folder() + "/handoff.sock", 1 + kOthers, [asked](const v1::HandoffRequest& request) {
    if (request.connector_id() != 900) return HandoffServer::Reply("state");
    asked.Set(true);
    return HandoffServer::Step{.silent = true};
  });
  AcceptsAreHandedOff();
  const auto withheld = Deliver(900);
  const Later<NdkStatus> accepted;
  ASSERT_EQ(withheld->Accept(qp, {}, {}, [accepted](const Outcome& outcome) { accepted.Set(outcome.status); }),
            NdkStatus::kPending);
  asked.Get();
  for (uint64_t id = 901; id <= 900 + kOthers; ++id) {
    const auto connector = Deliver(id);
    auto* const pair = new FakeQueuePair(adapter->data());
    const Outcome outcome = BlockingAccept(connector, pair, {});
    EXPECT_TRUE(outcome.ok()) << id << ": " << outcome.hint;
    EXPECT_EQ(BlockingClose(connector), NdkStatus::kSuccess);
    const Later<bool> closed;
    if (pair->Close([closed] { closed.Set(true); }) == NdkStatus::kPending) closed.Get();
  }
  EXPECT_EQ(server.acknowledged(), kOthers);
  EXPECT_EQ(BlockingClose(withheld), NdkStatus::kSuccess);
  EXPECT_EQ(accepted.Get(), NdkStatus::kCancelled);
}

// In half an hour the broker might answer.
TEST_F(ConnectorTest, AClosedSessionWaitsForNoHandOff) {
  OpenSession([](v1::SessionOpened* opened) { opened->mutable_limits()->set_session_grace_ms(1'800'000); });
  const Later<bool> asked;
  HandoffServer server(broker.folder() + "/handoff.sock", 1, [asked](const auto&) {
    asked.Set(true);
    return HandoffServer::Step{.silent = true};
  });
  AcceptsAreHandedOff();
  const auto connector = Deliver(900);
  const Later<NdkStatus> accepted;
  ASSERT_EQ(connector->Accept(qp, {}, {}, [accepted](const Outcome& outcome) { accepted.Set(outcome.status); }),
            NdkStatus::kPending);
  asked.Get();
  session = nullptr;
  EXPECT_EQ(accepted.Get(), NdkStatus::kCancelled);
}

// With a transport that the data path holds.
class AttachedTest : public ConnectorTest {
 protected:
  void Attach(DisconnectEventCallback on_disconnect = {}, std::function<void(v1::SessionOpened*)> adjust = {}) {
    OpenSession(std::move(adjust));
    server_ = std::make_unique<HandoffServer>(broker.folder() + "/handoff.sock", 1,
                                              [](const auto&) { return HandoffServer::Reply("state"); });
    broker.On("CompleteConnect", [](const Broker::Request&) {
      Broker::Answer answer;
      answer.outcome = Broker::Established("fedcba9876543210");
      return answer;
    });
    connector = Established(qp, std::move(on_disconnect));
  }
  std::shared_ptr<Connector> connector;

 private:
  std::unique_ptr<HandoffServer> server_;
};

TEST_F(AttachedTest, TheDataPathsEndIsToldToBothOnce) {
  Attach(LogsEnd("end"));
  qp->ConnectionEnds({.graceful = false, .provider_error = 104});
  EXPECT_THAT(log.WaitFor(1), ElementsAre("end STATUS_CONNECTION_ABORTED"));
  const auto report = broker.WaitFor("ReportConnectionEnd");
  EXPECT_FALSE(report.As<v1::ReportConnectionEndRequest>().graceful());
  EXPECT_EQ(report.As<v1::ReportConnectionEndRequest>().provider_error(), 104u);
  broker.Emit(Broker::DisconnectEvent(report.object));
  broker.WaitForAcknowledgement(1);
  EXPECT_EQ(log.lines().size(), 1u);
}

TEST_F(AttachedTest, AnEndSaysWhatTheDataPathHasFound) {
  const uint32_t error = TerminateReceived(iwarp::kDdpNoBuffer);
  Attach([this](const DisconnectEvent& event) { log.Add(event.hint); });
  qp->ConnectionEnds({.graceful = false, .provider_error = error});
  EXPECT_THAT(log.WaitFor(1), ElementsAre(ConnectionEndText(NdkStatus::kConnectionAborted, error)));
}

TEST_F(AttachedTest, DisconnectIsTheDataPathsAndTheBrokerHearsOfItFirst) {
  Attach(LogsEnd("end"));
  broker.On("ReportConnectionEnd", [](const Broker::Request&) {
    return Broker::Answer{Broker::Answer::Kind::kHold, {}};
  });
  ASSERT_EQ(connector->Disconnect(Logs("disconnect")), NdkStatus::kPending);
  EXPECT_EQ(connector->Disconnect([](const Outcome&) { FAIL(); }), NdkStatus::kInvalidDeviceState);
  Settle();
  ASSERT_TRUE(qp->disconnecting());
  qp->CompleteDisconnect(NdkStatus::kSuccess);
  const auto report = broker.WaitFor("ReportConnectionEnd");
  EXPECT_TRUE(report.As<v1::ReportConnectionEndRequest>().graceful());
  Settle();
  EXPECT_THAT(log.lines(), ElementsAre());
  broker.Release(report.request_id, Broker::Success());
  EXPECT_THAT(log.WaitFor(1), ElementsAre("disconnect STATUS_SUCCESS"));
  for (const auto& request : broker.requests()) EXPECT_NE(request.method, "Disconnect");
}

TEST_F(AttachedTest, WhatComesOfTheOwnDisconnectIsNoErrorToTheBroker) {
  Attach();
  ASSERT_EQ(connector->Disconnect(Logs("disconnect")), NdkStatus::kPending);
  Settle();
  qp->CompleteDisconnect(NdkStatus::kIoTimeout);
  EXPECT_TRUE(broker.WaitFor("ReportConnectionEnd").As<v1::ReportConnectionEndRequest>().graceful());
  EXPECT_THAT(log.WaitFor(1), ElementsAre("disconnect STATUS_IO_TIMEOUT"));
}

TEST_F(AttachedTest, DisconnectAfterThePeersEndSucceeds) {
  Attach(LogsEnd("end"));
  qp->ConnectionEnds({.graceful = true});
  log.WaitFor(1);
  ASSERT_EQ(connector->Disconnect(Logs("disconnect")), NdkStatus::kPending);
  Settle();
  qp->CompleteDisconnect(NdkStatus::kConnectionAborted);
  EXPECT_THAT(log.WaitFor(2), ElementsAre("end STATUS_SUCCESS", "disconnect STATUS_SUCCESS"));
}

TEST_F(AttachedTest, ClosingAnEstablishedConnectorEndsTheConnection) {
  Attach(LogsEnd("end"));
  ASSERT_EQ(connector->Disconnect(Logs("disconnect")), NdkStatus::kPending);
  connector->Close(LogsClose("closed"));
  EXPECT_THAT(log.WaitFor(2), ElementsAre("disconnect STATUS_CANCELLED", "closed"));
  EXPECT_EQ(qp->flushes(), 1);
}

TEST_F(AttachedTest, AfterTheBrokersDeathTheDataPathStillDisconnects) {
  Attach(LogsEnd("end"), [](v1::SessionOpened* opened) { opened->mutable_limits()->set_session_grace_ms(300); });
  broker.Die();
  EXPECT_THAT(log.WaitFor(2),
              ElementsAre("end STATUS_CONNECTION_DISCONNECTED", "session STATUS_CONNECTION_DISCONNECTED"));
  ASSERT_EQ(connector->Disconnect(Logs("disconnect")), NdkStatus::kPending);
  while (!qp->disconnecting()) std::this_thread::yield();
  qp->CompleteDisconnect(NdkStatus::kSuccess);
  EXPECT_EQ(log.WaitFor(3).back(), "disconnect STATUS_SUCCESS");
}

// As where its store is damaged.
TEST_F(AttachedTest, WhereTheBrokerHasLostTheSessionTheConnectionGoesOn) {
  Attach(LogsEnd("end"));
  broker.RefuseReturns(Broker::Error(NdkStatus::kObjectNameNotFound));
  broker.EndStream(Broker::FailedRpc(Broker::KeptSession()));
  EXPECT_THAT(log.WaitFor(1), ElementsAre("session STATUS_CONNECTION_DISCONNECTED"));
  EXPECT_EQ(adapter->CreateConnector([](const Outcome&, auto) {}), NdkStatus::kConnectionDisconnected);
  EXPECT_EQ(qp->flushes(), 0);
  qp->ConnectionEnds({.graceful = true});
  EXPECT_EQ(log.WaitFor(2).back(), "end STATUS_SUCCESS");
  ASSERT_EQ(connector->Disconnect(Logs("disconnect")), NdkStatus::kPending);
  while (!qp->disconnecting()) std::this_thread::yield();
  qp->CompleteDisconnect(NdkStatus::kSuccess);
  EXPECT_EQ(log.WaitFor(3).back(), "disconnect STATUS_SUCCESS");
}

TEST_F(ConnectorTest, WhereTheBrokerHasLostTheSessionAConnectionThatIsTheKernelsGoesOn) {
  OpenSessionOnTheKernels();
  const auto one = Established(qp, LogsEnd("end of one"));
  auto* const other_qp = new FakeQueuePair(adapter->data());
  const auto other = Established(other_qp, LogsEnd("end of the other"));
  broker.RefuseReturns(Broker::Error(NdkStatus::kObjectNameNotFound));
  broker.EndStream(Broker::FailedRpc(Broker::KeptSession()));
  EXPECT_THAT(log.WaitFor(1), ElementsAre("session STATUS_CONNECTION_DISCONNECTED"));
  EXPECT_EQ(qp->flushes(), 0);
  EXPECT_TRUE(qp->alone());
  qp->ConnectionEnds({.graceful = false, .provider_error = 5});
  EXPECT_EQ(log.WaitFor(2).back(), "end of one STATUS_CONNECTION_ABORTED");
  // With its queue pair the kernel ends it.
  ASSERT_EQ(other->Disconnect(Logs("disconnect")), NdkStatus::kPending);
  EXPECT_EQ(log.WaitFor(3).back(), "disconnect STATUS_SUCCESS");
  EXPECT_EQ(other_qp->flushes(), 1);
  other->Close(LogsClose("closed"));
  EXPECT_EQ(log.WaitFor(4).back(), "closed");
  other_qp->Close({});
}

TEST_F(ConnectorTest, WhereTheBrokerHasEndedTheSessionAConnectionThatIsTheKernelsHasEnded) {
  OpenSessionOnTheKernels();
  const auto connected = Established(qp, LogsEnd("end"));
  broker.RefuseReturns(Broker::Error(NdkStatus::kAccessDenied));
  broker.EndStream(Broker::FailedRpc(Broker::KeptSession()));
  EXPECT_THAT(log.WaitFor(2),
              ElementsAre("end STATUS_CONNECTION_DISCONNECTED", "session STATUS_CONNECTION_DISCONNECTED"));
  EXPECT_EQ(connected->Disconnect([](const Outcome&) { FAIL(); }), NdkStatus::kConnectionDisconnected);
}

// Each while its disconnects are refused on another thread, and before one of them has returned.
TEST_F(ConnectorTest, EveryConnectorIsToldOfTheSessionsEndWhoeverDisconnectsItThen) {
  constexpr size_t kConnectors = 100;
  OpenSessionOnTheKernels();
  std::atomic<size_t> told = 0;     // How many.
  std::atomic<size_t> reached = 0;  // The last of them, counted from 1.
  std::atomic<size_t> refused = 1;  // Likewise of those that were disconnected in vain; the first is not.
  std::vector<FakeQueuePair*> queue_pairs;
  std::vector<std::shared_ptr<Connector>> connectors;
  for (size_t number = 1; number <= kConnectors; ++number) {
    queue_pairs.push_back(new FakeQueuePair(adapter->data()));
    connectors.push_back(Established(queue_pairs.back(), [&, number](const DisconnectEvent&) {
      ++told;
      reached = number;
      while (number < kConnectors && refused <= number) std::this_thread::yield();
    }));
  }
  broker.RefuseReturns(Broker::Error(NdkStatus::kAccessDenied));
  broker.EndStream(Broker::FailedRpc(Broker::KeptSession()));
  while (reached == 0) std::this_thread::yield();
  for (size_t number = 2; number <= kConnectors; ++number) {
    do {
      EXPECT_EQ(connectors[number - 1]->Disconnect([](const Outcome&) { FAIL(); }), NdkStatus::kConnectionDisconnected);
      refused = number;
    } while (reached < number && log.lines().empty());
  }
  EXPECT_THAT(log.WaitFor(1), ElementsAre("session STATUS_CONNECTION_DISCONNECTED"));
  EXPECT_EQ(told, kConnectors);
  session = nullptr;
  for (FakeQueuePair* const queue_pair : queue_pairs) EXPECT_EQ(queue_pair->Close({}), NdkStatus::kSuccess);
}

TEST_F(AttachedTest, TheQueuePairsCloseWaitsForTheConnectors) {
  Attach();
  auto* const other = new FakeQueuePair(adapter->data());
  const auto second = NewConnector();
  ASSERT_EQ(second->Connect(other, kParameters, Logs("connect")), NdkStatus::kPending);
  log.WaitFor(1);
  EXPECT_EQ(other->Close(LogsClose("queue pair closed")), NdkStatus::kPending);
  second->Close(LogsClose("connector closed"));
  EXPECT_THAT(log.WaitFor(3), ElementsAre("connect STATUS_SUCCESS", "connector closed", "queue pair closed"));
}

// Per request that may be pending when the connector is closed.
class PendingTest : public ConnectorTest, public testing::WithParamInterface<std::string> {};

TEST_P(PendingTest, ACloseCompletesAfterTheRequestThatItCancels) {
  OpenSession();
  const std::string& method = GetParam();
  const auto pending = [](const Broker::Request&) { return Broker::Pending(); };
  const auto connector = method == "Accept" ? Deliver(950) : NewConnector();
  if (method == "CompleteConnect") {
    const Later<bool> connected;
    connector->Connect(qp, kParameters, [connected](const Outcome& outcome) { connected.Set(outcome.ok()); });
    ASSERT_TRUE(connected.Get());
  }
  broker.On(method, pending);
  broker.On("CloseConnector", pending);
  if (method == "Connect") connector->Connect(qp, kParameters, Logs(method));
  if (method == "Accept") connector->Accept(qp, {}, LogsEnd("end"), Logs(method));
  if (method == "CompleteConnect") connector->CompleteConnect(LogsEnd("end"), Logs(method));
  connector->Close(LogsClose("closed"));
  // Even a broker that ends them in the wrong order.
  broker.EmitOutcome(broker.WaitFor("CloseConnector").request_id, {});
  broker.WaitForAcknowledgement(1);
  Settle();
  EXPECT_THAT(log.lines(), ElementsAre());
  broker.EmitOutcome(broker.WaitFor(method).request_id, Broker::Error(NdkStatus::kCancelled));
  EXPECT_THAT(log.WaitFor(2), ElementsAre(method + " STATUS_CANCELLED", "closed"));
}

INSTANTIATE_TEST_SUITE_P(Requests, PendingTest, testing::Values("Connect", "CompleteConnect", "Accept"),
                         [](const auto& test) { return test.param; });

TEST_F(ConnectorTest, EveryCallbackMayCloseItsObject) {
  OpenSession();
  // A completion.
  auto connector = NewConnector();
  connector->Connect(qp, kParameters, [this, connector](const Outcome&) { connector->Close(LogsClose("connect")); });
  log.WaitFor(1);
  // A connect event, the listener and the connector.
  const Later<std::shared_ptr<Listener>> made;
  const auto listener = NewListener([this, made](const std::shared_ptr<Connector>& delivered) {
    made.Get()->Close(LogsClose("listener"));
    delivered->Close(LogsClose("delivered"));
  });
  made.Set(listener);
  broker.Emit(Broker::ConnectEvent(broker.WaitFor("Listen").object, 900));
  EXPECT_THAT(log.WaitFor(3), ElementsAre("connect", "delivered", "listener"));
  // A disconnect event.
  const Later<std::shared_ptr<Connector>> ended;
  ended.Set(Established(qp, [this, ended](const DisconnectEvent&) { ended.Get()->Close(LogsClose("ended")); }));
  broker.Emit(Broker::DisconnectEvent(broker.WaitFor("CompleteConnect").object));
  EXPECT_EQ(log.WaitFor(4).back(), "ended");
  // A close completion, its antecedent.
  const auto last = NewConnector();
  last->Close(ExactlyOnce("last", [this] { adapter->Close(LogsClose("adapter")); }));
  EXPECT_EQ(log.WaitFor(5).back(), "adapter");
}

TEST_F(ConnectorTest, ASharedEndpointsCloseWaitsForItsConnectors) {
  OpenSession();
  const Later<std::shared_ptr<SharedEndpoint>> made;
  adapter->CreateSharedEndpoint(kSomeAddress,
                                [made](const Outcome&, std::shared_ptr<SharedEndpoint> e) { made.Set(std::move(e)); });
  const auto endpoint = made.Get();
  EXPECT_EQ(endpoint->address().port, 50000);
  const auto connector = NewConnector();
  ASSERT_EQ(connector->ConnectWithSharedEndpoint(qp, endpoint, kParameters, Logs("connect")), NdkStatus::kPending);
  log.WaitFor(1);
  // Whatever the broker says first, the order is NDK's.
  endpoint->Close(LogsClose("endpoint closed"));
  broker.WaitFor("CloseSharedEndpoint");
  Settle();
  EXPECT_EQ(log.lines().size(), 1u);
  connector->Close(LogsClose("connector closed"));
  EXPECT_THAT(log.WaitFor(3), ElementsAre("connect STATUS_SUCCESS", "connector closed", "endpoint closed"));
}

TEST_F(ConnectorTest, ARetryLeavesTheSharedEndpointThatItTriedBefore) {
  OpenSession();
  const auto make = [this] {
    const Later<std::shared_ptr<SharedEndpoint>> made;
    adapter->CreateSharedEndpoint(
        kSomeAddress, [made](const Outcome&, std::shared_ptr<SharedEndpoint> e) { made.Set(std::move(e)); });
    return made.Get();
  };
  const std::shared_ptr<SharedEndpoint> endpoints[] = {make(), make()};
  broker.On("ConnectWithSharedEndpoint",
            [](const Broker::Request&) { return Broker::Failure(NdkStatus::kConnectionRefused); });
  const auto connector = NewConnector();
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(connector->ConnectWithSharedEndpoint(qp, endpoints[0], kParameters, Logs("first")), NdkStatus::kPending);
    EXPECT_EQ(log.WaitFor(static_cast<size_t>(i) + 1).back(), "first STATUS_CONNECTION_REFUSED");
  }
  ASSERT_EQ(connector->ConnectWithSharedEndpoint(qp, endpoints[1], kParameters, Logs("second")), NdkStatus::kPending);
  log.WaitFor(4);
  endpoints[0]->Close(LogsClose("first closed"));
  EXPECT_EQ(log.WaitFor(5).back(), "first closed") << "what the connector does not use waits for it";
  ASSERT_EQ(connector->Connect(qp, kParameters, Logs("third")), NdkStatus::kPending);
  log.WaitFor(6);
  endpoints[1]->Close(LogsClose("second closed"));
  EXPECT_EQ(log.WaitFor(7).back(), "second closed");
  connector->Close(LogsClose("connector closed"));
  EXPECT_EQ(log.WaitFor(8).back(), "connector closed");
}

TEST_F(ConnectorTest, ABrokerThatBreaksThePromiseIsAnInternalError) {
  OpenSession();
  broker.On("Connect", [](const Broker::Request&) {
    Broker::Answer answer;
    answer.outcome.mutable_connection_established();  // Not what Connect yields.
    return answer;
  });
  const auto connector = NewConnector();
  connector->Connect(qp, kParameters, Logs("connect"));
  EXPECT_THAT(log.WaitFor(1), ElementsAre("connect STATUS_INTERNAL_ERROR"));
  broker.On("CreateConnector", [](const Broker::Request&) {
    Broker::Answer answer;
    answer.outcome.mutable_connector_created()->set_connector_id(0);
    return answer;
  });
  adapter->CreateConnector(ExactlyOnce("created", [this](const Outcome& outcome, const std::shared_ptr<Connector>& c) {
    EXPECT_EQ(c, nullptr);
    log.Add(Name(outcome.status));
  }));
  EXPECT_EQ(log.WaitFor(2).back(), "STATUS_INTERNAL_ERROR");
  // Events of what does not exist, of no kind, and outcomes of no request.
  broker.EmitOutcome(424242, Broker::Established());
  broker.Emit(Broker::DisconnectEvent(424242));
  broker.Emit(v1::SessionEvent());
  v1::SessionEvent removed;
  removed.mutable_adapter_removed()->set_adapter_id(424242);
  broker.Emit(removed);
  EXPECT_EQ(broker.WaitForAcknowledgement(4), 4u);
}

}  // namespace
}  // namespace rdmabroker::client
