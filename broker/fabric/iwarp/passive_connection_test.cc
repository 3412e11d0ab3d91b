// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>

#include "broker/fabric/iwarp/testing/fabric_fixture.h"
#include "dataplane/iwarp/wire/bytes.h"
#include "dataplane/iwarp/wire/fpdu.h"
#include "dataplane/iwarp/wire/negotiation.h"

namespace rdmabroker {
namespace {

using iwarp::ReadyToReceive;

std::string Text(const std::vector<uint8_t>& bytes) { return std::string(iwarp::AsText(bytes)); }

// The initiator's message in this form, with CRC.
std::string ReadyMessage(ReadyToReceive form) {
  iwarp::ConnectionState state;
  state.ready_to_receive = form;
  return Text(iwarp::ReadyToReceiveMessage(&state));
}

class PassiveConnectionTest : public IwarpFabricTest {
 protected:
  using IwarpFabricTest::IwarpFabricTest;

  // A request that has been reported.
  FabricConnectRequested Request(RawPeer& peer, const std::string& frame = ThreeWayRequest()) {
    listener_ = Bind(EndpointUse::kListener);
    peer = RawPeer::ConnectTo(listener_.address);
    peer.Send(frame);
    return Await<FabricConnectRequested>();
  }
  void Accept(ConnectionId connection, ReadLimits limits = {2, 1}) {
    fabric_->Perform(FabricAccept{kDevice, connection, SessionId(1), QpNumber{2}, limits, {'y', 'o'}});
  }
  // Accepted, with the reply at the peer.
  ConnectionId Accepted(RawPeer& peer) {
    const ConnectionId connection = Request(peer).connection;
    Accept(connection);
    AwaitBytes(peer, 26);
    return connection;
  }

  Bound listener_;
};

TEST_P(PassiveConnectionTest, AThreeWayRequestIsReportedAcceptedAndEstablishedByEachFormOfTheThirdMessage) {
  for (const ReadyToReceive form : {ReadyToReceive::kWrite, ReadyToReceive::kRead, ReadyToReceive::kSend}) {
    SCOPED_TRACE(static_cast<int>(form));
    RawPeer peer;
    const FabricConnectRequested requested = Request(peer);
    EXPECT_EQ(requested.endpoint, listener_.id);
    EXPECT_EQ(requested.local, listener_.address);
    EXPECT_EQ(requested.peer.ip, LoopbackOf(GetParam()));
    EXPECT_EQ(requested.peer_limits, (ReadLimits{8, 2}));
    EXPECT_EQ(requested.private_data, (Bytes{'h', 'i'}));
    EXPECT_TRUE(requested.three_way);
    Accept(requested.connection);
    AwaitBytes(peer, 26);
    EXPECT_EQ(peer.received(), Literal(kReplyKey, {0x50, 2, 0, 6, 0x80, 2, 0xC0, 1, 'y', 'o'}));
    Settle();
    EXPECT_TRUE(reports_.empty()) << "established before the third message";
    peer.Send(ReadyMessage(form));
    const FabricEstablished established = Await<FabricEstablished>();
    EXPECT_EQ(established.connection, requested.connection);
    ASSERT_TRUE(established.handoff);
    const iwarp::ConnectionState state = StateOf(requested.connection);
    EXPECT_EQ(state.role, iwarp::Role::kResponder);
    EXPECT_EQ(state.ready_to_receive, form);
    EXPECT_TRUE(state.crc);
    EXPECT_EQ(state.inbound_read_limit, 2u);
    EXPECT_EQ(state.outbound_read_limit, 1u);
    EXPECT_EQ(state.peer_data, "hi");
    EXPECT_EQ(state.fpdu_limit, iwarp::kMaxFpduLength) << "the peer is on this machine";
    // An empty read has its empty response: 14 bytes of header, length and CRC.
    if (form == ReadyToReceive::kRead) AwaitBytes(peer, 26 + 20);
    Release(requested.connection);
  }
}

TEST_P(PassiveConnectionTest, ATwoWayRequestIsEstablishedWithTheReply) {
  RawPeer peer;
  const FabricConnectRequested requested = Request(peer, TwoWayRequest());
  EXPECT_FALSE(requested.three_way);
  EXPECT_EQ(requested.private_data, (Bytes{'h', 'i'}));
  Accept(requested.connection);
  Await<FabricEstablished>();
  AwaitBytes(peer, 22);
  EXPECT_EQ(peer.received(), Literal(kReplyKey, {0x40, 1, 0, 2, 'y', 'o'}));
  EXPECT_TRUE(StateOf(requested.connection).holds_sends());
  Release(requested.connection);
}

TEST_P(PassiveConnectionTest, WhatFollowsTheThirdMessageIsHandedOverInOrder) {
  RawPeer peer;
  const ConnectionId connection = Accepted(peer);
  // More than the fabric reads at a time.
  std::string rest(3000, '\0');
  for (size_t i = 0; i < rest.size(); ++i) rest[i] = static_cast<char>(i);
  peer.Send(ReadyMessage(ReadyToReceive::kWrite) + rest);
  Await<FabricEstablished>();
  const Handoff* handoff = handoffs_.Find(connection);
  ASSERT_NE(handoff, nullptr);
  RawPeer client(UniqueFd(::dup(handoff->socket.get())));
  client.Poll();
  EXPECT_EQ(StateOf(connection).unread + client.received(), rest);
  Release(connection);
}

TEST_P(PassiveConnectionTest, WhatComesBeforeTheConsumerAcceptsIsReadOnceItHas) {
  RawPeer peer;
  const ConnectionId connection = Request(peer).connection;
  peer.Send(ReadyMessage(ReadyToReceive::kWrite));
  ExpectSleep();
  EXPECT_TRUE(reports_.empty());
  Accept(connection);
  EXPECT_EQ(Await<FabricEstablished>().connection, connection);
  Release(connection);
}

TEST_P(PassiveConnectionTest, TheThirdMessageIsTakenByteByByte) {
  RawPeer peer;
  const ConnectionId connection = Accepted(peer);
  for (const char byte : ReadyMessage(ReadyToReceive::kWrite)) {
    EXPECT_TRUE(reports_.empty());
    peer.Send({&byte, 1});
    Settle();
  }
  EXPECT_EQ(Await<FabricEstablished>().connection, connection);
  Release(connection);
}

TEST_P(PassiveConnectionTest, APeerThatGivesUpFailsTheConnectionAtEveryStep) {
  for (const bool accept : {false, true}) {
    for (const bool reset : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "accepted " << accept << ", reset " << reset);
      RawPeer peer;
      const ConnectionId connection = accept ? Accepted(peer) : Request(peer).connection;
      reset ? peer.Reset() : peer.Close();
      const FabricFailed failed = Await<FabricFailed>();
      EXPECT_EQ(failed.connection, connection);
      EXPECT_EQ(failed.status, NdkStatus::kConnectionAborted);
      EXPECT_NE(failed.provider_error, 0u);
      // A request that crossed the report does nothing.
      Accept(connection);
      Settle();
      EXPECT_TRUE(reports_.empty());
      Release(connection);
    }
  }
}

TEST_P(PassiveConnectionTest, AnythingElseThanTheThirdMessageFailsTheConnectionAndResetsThePeer) {
  const uint8_t data[4] = {};
  const std::string wrong_crc =
      Text(iwarp::ComposeFpdu({.tagged = true, .last = true, .opcode = iwarp::Opcode::kWrite}, {}, false));
  const std::string messages[] = {
      "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
      std::string(500, '\xFF'),
      ThreeWayRequest(),
      Text(iwarp::ComposeFpdu({.last = true, .opcode = iwarp::Opcode::kSend, .msn = 1}, data, true)),
      wrong_crc,
  };
  for (const std::string& message : messages) {
    SCOPED_TRACE(message);
    RawPeer peer;
    const ConnectionId connection = Accepted(peer);
    peer.Send(message);
    const FabricFailed failed = Await<FabricFailed>();
    EXPECT_EQ(failed.status, NdkStatus::kConnectionAborted);
    EXPECT_EQ(failed.explanation.substr(0, 26), "ready-to-receive message: ") << failed.explanation;
    EXPECT_EQ(AwaitEnd(peer), RawPeer::End::kReset);
    Release(connection);
  }
}

TEST_P(PassiveConnectionTest, ARejectReachesAPeerThatReadsLateAndIsReleasedWhenThePeerCloses) {
  RawPeer peer;
  const ConnectionId connection = Request(peer).connection;
  fabric_->Perform(FabricReject{kDevice, connection, {'n', 'o'}});
  Settle();
  EXPECT_TRUE(reports_.empty()) << "released before the peer has closed";
  EXPECT_EQ(AwaitEnd(peer), RawPeer::End::kClosed);
  EXPECT_EQ(peer.received(), Literal(kReplyKey, {0x70, 2, 0, 6, 0, 0, 0, 0, 'n', 'o'}));
  peer.Close();
  EXPECT_EQ(Await<FabricReleased>().connection, connection);
}

TEST_P(PassiveConnectionTest, ARejectIsNotLostOnAPeerThatSendsOn) {
  RawPeer peer;
  const ConnectionId connection = Request(peer).connection;
  peer.Send(std::string(100'000, 'x'));
  fabric_->Perform(FabricReject{kDevice, connection, {'n', 'o'}});
  EXPECT_EQ(AwaitEnd(peer), RawPeer::End::kClosed);
  EXPECT_EQ(peer.received(), Literal(kReplyKey, {0x70, 2, 0, 6, 0, 0, 0, 0, 'n', 'o'}));
  peer.Close();
  EXPECT_EQ(Await<FabricReleased>().connection, connection);
}

TEST_P(PassiveConnectionTest, ARefusalIsAResetWithoutAByte) {
  RawPeer peer;
  const ConnectionId connection = Request(peer).connection;
  fabric_->Perform(FabricRefuse{kDevice, connection});
  EXPECT_EQ(Await<FabricReleased>().connection, connection);
  EXPECT_EQ(AwaitEnd(peer), RawPeer::End::kReset);
  EXPECT_EQ(peer.received(), "");
}

TEST_P(PassiveConnectionTest, AFetchedTransportSurvivesItsRelease) {
  RawPeer peer;
  const ConnectionId connection = Accepted(peer);
  peer.Send(ReadyMessage(ReadyToReceive::kWrite));
  Await<FabricEstablished>();
  RawPeer client(UniqueFd(::dup(handoffs_.Find(connection)->socket.get())));
  handoffs_.Settle(connection, true);
  EXPECT_EQ(Await<FabricHandedOff>().connection, connection);
  Release(connection);
  peer.Send("data");
  AwaitBytes(client, 4);
  client.Close();
  EXPECT_EQ(AwaitEnd(peer), RawPeer::End::kClosed);
}

TEST_P(PassiveConnectionTest, ATransportThatIsNotFetchedIsResetWhenReleasedEvenIfItWasSent) {
  for (const bool sent : {false, true}) {
    RawPeer peer;
    const ConnectionId connection = Accepted(peer);
    peer.Send(ReadyMessage(ReadyToReceive::kWrite));
    Await<FabricEstablished>();
    const UniqueFd with_the_client(sent ? ::dup(handoffs_.Find(connection)->socket.get()) : -1);
    Release(connection);
    EXPECT_EQ(handoffs_.Find(connection), nullptr);
    EXPECT_EQ(AwaitEnd(peer), RawPeer::End::kReset);
  }
}

TEST_P(PassiveConnectionTest, ATransportThatItsClientHasEndedIsClosedInOrderThoughItsAcknowledgementIsStillToCome) {
  RawPeer peer;
  const ConnectionId connection = Accepted(peer);
  peer.Send(ReadyMessage(ReadyToReceive::kWrite));
  Await<FabricEstablished>();
  RawPeer client(UniqueFd(::dup(handoffs_.Find(connection)->socket.get())));
  handoffs_.Find(connection)->sent = true;
  client.Close();
  fabric_->Perform(FabricRelease{kDevice, connection, /*client_ended=*/true});
  EXPECT_EQ(Await<FabricReleased>().connection, connection);
  EXPECT_EQ(handoffs_.Find(connection), nullptr);
  EXPECT_EQ(AwaitEnd(peer), RawPeer::End::kClosed);
}

TEST_P(PassiveConnectionTest, AHandOverThatFailsIsADisconnect) {
  RawPeer peer;
  const ConnectionId connection = Accepted(peer);
  peer.Send(ReadyMessage(ReadyToReceive::kWrite));
  Await<FabricEstablished>();
  handoffs_.Settle(connection, false);
  const FabricDisconnected disconnected = Await<FabricDisconnected>();
  EXPECT_EQ(disconnected.connection, connection);
  EXPECT_EQ(disconnected.status, NdkStatus::kConnectionAborted);
  EXPECT_NE(AwaitEnd(peer), RawPeer::End::kNone);
  Release(connection);
}

INSTANTIATE_TEST_SUITE_P(Iwarp, PassiveConnectionTest, ::testing::Values(IpFamily::kIpv4, IpFamily::kIpv6), FamilyName);

class ImpatientPassiveConnectionTest : public PassiveConnectionTest {
 protected:
  ImpatientPassiveConnectionTest() : PassiveConnectionTest(IwarpOptions{.linger = absl::Milliseconds(20)}) {}
};

TEST_P(ImpatientPassiveConnectionTest, ARejectedPeerThatDoesNotCloseIsReleasedInTimeAndStillHasItsReject) {
  RawPeer peer;
  const ConnectionId connection = Request(peer).connection;
  fabric_->Perform(FabricReject{kDevice, connection, {'n', 'o'}});
  EXPECT_EQ(Await<FabricReleased>().connection, connection);
  EXPECT_EQ(AwaitEnd(peer), RawPeer::End::kClosed);
  EXPECT_EQ(peer.received(), Literal(kReplyKey, {0x70, 2, 0, 6, 0, 0, 0, 0, 'n', 'o'}));
}

INSTANTIATE_TEST_SUITE_P(Iwarp, ImpatientPassiveConnectionTest, ::testing::Values(IpFamily::kIpv4, IpFamily::kIpv6),
                         FamilyName);

}  // namespace
}  // namespace rdmabroker
