// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/iwarp/testing/fabric_fixture.h"

#include <cerrno>
#include <utility>
#include <vector>

#include "dataplane/iwarp/wire/bytes.h"
#include "dataplane/iwarp/wire/fpdu.h"
#include "dataplane/iwarp/wire/negotiation.h"

namespace rdmabroker {
namespace {

using End = RawPeer::End;

// The reply of a peer that takes the third message as a write; it serves 2 reads and issues 1.
std::string ThreeWayReply() { return Literal(kReplyKey, {0x50, 2, 0, 6, 0x80, 2, 0xC0, 1, 'y', 'o'}); }
std::string TwoWayReply() { return Literal(kReplyKey, {0x40, 1, 0, 2, 'y', 'o'}); }

class ActiveConnectionTest : public IwarpFabricTest {
 protected:
  using IwarpFabricTest::IwarpFabricTest;

  ConnectionId Connect(const Bound& from, const SocketAddress& to, SessionId session = SessionId(1)) {
    const ConnectionId connection(++last_id_);
    fabric_->Perform(
        FabricConnect{kDevice, connection, from.id, session, QpNumber{2}, from.address, to, {8, 3}, {'h', 'i'}});
    return connection;
  }
  // A connection from there to the listener that this side has ended, and the peer has not.
  RawPeer EndingConnection(const SocketAddress& local) {
    RawPeer ending = RawPeer::ConnectFrom(local, listener_.address());
    ending.ShutDown();
    return ending;
  }
  // A connection whose request the raw listener has taken.
  ConnectionId Requested(RawPeer& peer) {
    const ConnectionId connection = Connect(Bind(EndpointUse::kDedicated), listener_.address());
    RunUntil([&] { return listener_.Accept(&peer); }, "a connection");
    AwaitBytes(peer, 26);
    return connection;
  }
  ConnectionId Replied(RawPeer& peer, const std::string& reply = ThreeWayReply()) {
    const ConnectionId connection = Requested(peer);
    peer.Send(reply);
    EXPECT_EQ(Await<FabricReplied>().connection, connection);
    return connection;
  }
  void Complete(ConnectionId connection) { fabric_->Perform(FabricComplete{kDevice, connection, {1, 2}}); }

  RawListener listener_{GetParam()};
};

TEST_P(ActiveConnectionTest, AConnectionIsRequestedRepliedAndCompleted) {
  RawPeer peer;
  const ConnectionId connection = Requested(peer);
  EXPECT_EQ(peer.received(), Literal(kRequestKey, {0x50, 2, 0, 6, 0x80, 8, 0xC0, 3, 'h', 'i'}));
  peer.Send(ThreeWayReply());
  const FabricReplied replied = Await<FabricReplied>();
  EXPECT_EQ(replied.connection, connection);
  EXPECT_EQ(replied.peer_limits, (ReadLimits{2, 1}));
  EXPECT_EQ(replied.private_data, (Bytes{'y', 'o'}));
  EXPECT_TRUE(replied.three_way);
  Settle();
  peer.Poll();
  EXPECT_EQ(peer.received().size(), 26u) << "the third message waits for Complete";
  Complete(connection);
  EXPECT_EQ(Await<FabricEstablished>().connection, connection);
  AwaitBytes(peer, 26 + 20);
  iwarp::ConnectionState responder;
  responder.role = iwarp::Role::kResponder;
  responder.ready_to_receive = iwarp::ReadyToReceive::kWrite;
  const auto taken = iwarp::TakeReadyToReceive(iwarp::AsBytes(peer.received()).subspan(26), &responder);
  EXPECT_TRUE(taken.ok() && taken->has_value()) << taken.status();
  const iwarp::ConnectionState state = StateOf(connection);
  EXPECT_EQ(state.role, iwarp::Role::kInitiator);
  EXPECT_EQ(state.ready_to_receive, iwarp::ReadyToReceive::kWrite);
  EXPECT_EQ(state.inbound_read_limit, 1u);
  EXPECT_EQ(state.outbound_read_limit, 2u);
  EXPECT_EQ(state.peer_data, "yo");
  EXPECT_EQ(state.bytes_sent, 20u);
  EXPECT_EQ(state.fpdu_limit, iwarp::kMaxFpduLength) << "the peer is on this machine";
  Release(connection);
  EXPECT_EQ(AwaitEnd(peer), End::kReset);
}

TEST_P(ActiveConnectionTest, ATwoWayPeerIsSentNothingByComplete) {
  RawPeer peer;
  const ConnectionId connection = Requested(peer);
  peer.Send(TwoWayReply());
  EXPECT_FALSE(Await<FabricReplied>().three_way);
  Complete(connection);
  Await<FabricEstablished>();
  Settle();
  peer.Poll();
  EXPECT_EQ(peer.received().size(), 26u);
  EXPECT_FALSE(StateOf(connection).three_way());
  Release(connection);
}

TEST_P(ActiveConnectionTest, AReplyIsTakenByteByByteAndWhatFollowsIsHandedOver) {
  RawPeer peer;
  const ConnectionId connection = Requested(peer);
  const std::string reply = TwoWayReply();
  for (size_t i = 0; i + 1 < reply.size(); ++i) {
    peer.Send({&reply[i], 1});
    Settle();
    EXPECT_TRUE(reports_.empty());
  }
  peer.Send(reply.back() + std::string("more"));
  Await<FabricReplied>();
  Complete(connection);
  Await<FabricEstablished>();
  EXPECT_EQ(StateOf(connection).unread, "more");
  Release(connection);
}

TEST_P(ActiveConnectionTest, WhatComesBeforeTheConsumerCompletesWaitsForTheClient) {
  RawPeer peer;
  const ConnectionId connection = Replied(peer, TwoWayReply());
  peer.Send("more");
  ExpectSleep();
  Complete(connection);
  Await<FabricEstablished>();
  RawPeer client(UniqueFd(::dup(handoffs_.Find(connection)->socket.get())));
  client.Poll();
  EXPECT_EQ(StateOf(connection).unread + client.received(), "more");
  Release(connection);
}

TEST_P(ActiveConnectionTest, ARejectComesWithItsData) {
  RawPeer peer;
  const ConnectionId connection = Requested(peer);
  peer.Send(Literal(kReplyKey, {0x70, 2, 0, 6, 0, 0, 0, 0, 'n', 'o'}));
  const FabricConnectFailed failed = Await<FabricConnectFailed>();
  EXPECT_EQ(failed.connection, connection);
  EXPECT_EQ(failed.status, NdkStatus::kConnectionRefused);
  EXPECT_EQ(failed.private_data, (Bytes{'n', 'o'}));
  EXPECT_TRUE(failed.qp_reusable);
  EXPECT_EQ(AwaitEnd(peer), End::kReset) << "no TIME_WAIT is in the next attempt's way";
  Release(connection);
}

TEST_P(ActiveConnectionTest, APeerThatDoesNotAnswerByMpaRefuses) {
  const std::string key(kReplyKey);
  const struct {
    const char* name;
    std::string bytes;
    bool close = false;
    int error = EPROTO;
  } rows[] = {
      {"closes", "", true, ECONNRESET},
      {"closes in the key", "MPA ID", true, ECONNRESET},
      {"closes in the private data", ThreeWayReply().substr(0, 23), true, ECONNRESET},
      {"another protocol", "HTTP/1.1 400 Bad Request\r\n\r\n"},
      {"a request", ThreeWayRequest()},
      {"revision 0", Literal(key, {0x40, 0, 0, 0})},
      {"revision 9", Literal(key, {0x40, 9, 0, 0})},
      {"513 bytes of private data", Literal(key, {0x40, 1, 2, 1})},
      {"enhanced data cut off", Literal(key, {0x50, 2, 0, 2, 0, 0})},
      {"more reads than were offered", Literal(key, {0x50, 2, 0, 4, 0x80, 2, 0xC0, 200})},
      {"a form that was not offered", Literal(key, {0x50, 2, 0, 4, 0xC0, 2, 0, 1})},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    RawPeer peer;
    const ConnectionId connection = Requested(peer);
    peer.Send(row.bytes);
    if (row.close) peer.Close();
    const FabricConnectFailed failed = Await<FabricConnectFailed>();
    EXPECT_EQ(failed.status, NdkStatus::kConnectionRefused) << StatusName(failed.status);
    EXPECT_EQ(failed.provider_error, static_cast<uint32_t>(row.error));
    EXPECT_EQ(failed.explanation.substr(0, 11), row.error == EPROTO ? "MPA reply: " : "") << failed.explanation;
    if (!row.close) {
      EXPECT_EQ(AwaitEnd(peer), End::kReset);
    }
    Release(connection);
  }
}

TEST_P(ActiveConnectionTest, APeerThatGivesUpAfterItsReplyFailsTheConnection) {
  for (const bool reset : {false, true}) {
    RawPeer peer;
    const ConnectionId connection = Replied(peer);
    reset ? peer.Reset() : peer.Close();
    const FabricFailed failed = Await<FabricFailed>();
    EXPECT_EQ(failed.connection, connection);
    EXPECT_EQ(failed.status, NdkStatus::kConnectionAborted);
    Complete(connection);
    Settle();
    EXPECT_TRUE(reports_.empty()) << "a request that crossed the report does nothing";
    Release(connection);
  }
}

// The socket knows it before the loop does; and there is no message whose sending would fail.
TEST_P(ActiveConnectionTest, ACompleteTowardsATwoWayPeerThatHasResetTheConnectionFailsIt) {
  RawPeer peer;
  const ConnectionId connection = Replied(peer, TwoWayReply());
  Settle();
  peer.Reset();
  ASSERT_TRUE(loop_.Wait(Loop::Now() + kPatience)) << "the reset does not arrive";
  Complete(connection);
  RunUntil([&] { return !reports_.empty(); }, "what becomes of it");
  FabricFailed failed;
  ASSERT_TRUE(Take(&failed)) << "nobody is there to whom it could be established";
  EXPECT_EQ(failed.connection, connection);
  EXPECT_EQ(failed.status, NdkStatus::kConnectionAborted);
  EXPECT_EQ(failed.provider_error, static_cast<uint32_t>(ECONNRESET));
  Settle();
  EXPECT_TRUE(reports_.empty()) << "it fails once";
  Release(connection);
}

TEST_P(ActiveConnectionTest, ARejectAfterTheReplyResetsThePeer) {
  RawPeer peer;
  const ConnectionId connection = Replied(peer);
  fabric_->Perform(FabricReject{kDevice, connection, {'n', 'o'}});
  EXPECT_EQ(Await<FabricReleased>().connection, connection);
  EXPECT_EQ(AwaitEnd(peer), End::kReset);
}

TEST_P(ActiveConnectionTest, ANoteOfTheSameAddressesIsWaitedForUntilTheKernelForgetsIt) {
  const Bound shared = Bind(EndpointUse::kShared);
  RawPeer former = RawPeer::ConnectFrom(shared.address, listener_.address());
  RawPeer former_peer;
  RunUntil([&] { return listener_.Accept(&former_peer); }, "the former connection");
  const ConnectionId connection = Connect(shared, listener_.address());
  Settle();
  EXPECT_TRUE(reports_.empty());
  former.Reset();
  RawPeer peer;
  RunUntil([&] { return listener_.Accept(&peer); }, "the connection");
  AwaitBytes(peer, 26);
  peer.Send(ThreeWayReply());
  EXPECT_EQ(Await<FabricReplied>().connection, connection);
  Release(connection);
}

TEST_P(ActiveConnectionTest, AnAttemptFromAnyPortWaitsForNoFormerConnection) {
  const Bound from = Bind(EndpointUse::kDedicated);
  const RawPeer former = EndingConnection(from.address);
  const ConnectionId connection(1000);
  fabric_->Perform(FabricConnect{.device = kDevice,
                                 .connection = connection,
                                 .endpoint = from.id,
                                 .session = SessionId(1),
                                 .local = from.address,
                                 .peer = listener_.address(),
                                 .any_port = true});
  Settle();
  ASSERT_FALSE(reports_.empty());
  EXPECT_EQ(Await<FabricConnectFailed>().status, NdkStatus::kAddressAlreadyExists);
  Release(connection);
}

TEST_P(ActiveConnectionTest, AnAttemptThatWaitsForItsAddressesCanBeReleased) {
  const Bound shared = Bind(EndpointUse::kShared);
  RawPeer former = RawPeer::ConnectFrom(shared.address, listener_.address());
  const ConnectionId connection = Connect(shared, listener_.address());
  Settle();
  Release(connection);
  former.Reset();
  Settle();
  EXPECT_TRUE(reports_.empty());
}

TEST_P(ActiveConnectionTest, AnEndpointIsNotConnectedWithItself) {
  const Bound shared = Bind(EndpointUse::kShared);
  const ConnectionId connection = Connect(shared, shared.address);
  EXPECT_EQ(Await<FabricConnectFailed>().status, NdkStatus::kConnectionRefused);
  Release(connection);
}

TEST_P(ActiveConnectionTest, AnAddressAtWhichNobodyListensRefuses) {
  const ConnectionId connection = Connect(Bind(EndpointUse::kDedicated), Bind(EndpointUse::kReserved).address);
  const FabricConnectFailed failed = Await<FabricConnectFailed>();
  EXPECT_EQ(failed.status, NdkStatus::kConnectionRefused);
  EXPECT_EQ(failed.provider_error, static_cast<uint32_t>(ECONNREFUSED));
  Release(connection);
}

TEST_P(ActiveConnectionTest, WhatCannotBeReachedFromHereIsNetworkUnreachable) {
  // Loopback leads to no other host (203.0.113.0/24 is documentation's, RFC 5737), and there is no such interface.
  const char* peer = GetParam() == IpFamily::kIpv4 ? "203.0.113.77:4420" : "[fe80::1%99999]:4420";
  const ConnectionId connection = Connect(Bind(EndpointUse::kDedicated), *SocketAddress::Parse(peer));
  EXPECT_EQ(Await<FabricConnectFailed>().status, NdkStatus::kNetworkUnreachable);
  Release(connection);
}

TEST_P(ActiveConnectionTest, NothingIsReachedFromAnAddressThatThisHostHasLost) {
  // Documentation's, RFC 5737 and RFC 3849.
  const char* lost = GetParam() == IpFamily::kIpv4 ? "203.0.113.77:4420" : "[2001:db8::77]:4420";
  const Bound from = {Bind(EndpointUse::kShared).id, *SocketAddress::Parse(lost)};
  const ConnectionId connection = Connect(from, listener_.address());
  const FabricConnectFailed failed = Await<FabricConnectFailed>();
  EXPECT_EQ(failed.status, NdkStatus::kNetworkUnreachable);
  EXPECT_NE(failed.explanation.find(lost), std::string::npos) << failed.explanation;
  Release(connection);
}

INSTANTIATE_TEST_SUITE_P(Iwarp, ActiveConnectionTest, ::testing::Values(IpFamily::kIpv4, IpFamily::kIpv6), FamilyName);

class ImpatientActiveConnectionTest : public ActiveConnectionTest {
 protected:
  ImpatientActiveConnectionTest()
      : ActiveConnectionTest(
            IwarpOptions{.open_wait = absl::Milliseconds(60), .time_wait_poll = absl::Milliseconds(10)}) {}
};

TEST_P(ImpatientActiveConnectionTest, AddressesThatAnOpenConnectionHasFailTheAttempt) {
  const Bound shared = Bind(EndpointUse::kShared);
  RawPeer former = RawPeer::ConnectFrom(shared.address, listener_.address());
  const ConnectionId connection = Connect(shared, listener_.address());
  EXPECT_EQ(Await<FabricConnectFailed>().status, NdkStatus::kAddressAlreadyExists);
  Release(connection);
}

TEST_P(ImpatientActiveConnectionTest, AddressesThatAnEndingConnectionHasDoNot) {
  const Bound shared = Bind(EndpointUse::kShared);
  const RawPeer former = EndingConnection(shared.address);
  const absl::Time end = Loop::Now() + absl::Milliseconds(120);
  const ConnectionId connection = Connect(shared, listener_.address());
  RunUntil([&] { return Loop::Now() >= end; }, "twice the time for open ones");
  EXPECT_TRUE(reports_.empty());
  Release(connection);
}

INSTANTIATE_TEST_SUITE_P(Iwarp, ImpatientActiveConnectionTest, ::testing::Values(IpFamily::kIpv4, IpFamily::kIpv6),
                         FamilyName);

// Four handshakes at a time, so two of a session.
class PacedActiveConnectionTest : public ActiveConnectionTest {
 protected:
  explicit PacedActiveConnectionTest(absl::Duration reply_wait = absl::Hours(1))
      : ActiveConnectionTest(IwarpOptions{.handshakes = {.per_listener = 4, .reply_wait = reply_wait}}) {}

  std::vector<ConnectionId> ConnectMany(int count, SessionId session) {
    std::vector<ConnectionId> connections;
    for (int i = 0; i < count; ++i) {
      connections.push_back(Connect(Bind(EndpointUse::kDedicated), listener_.address(), session));
    }
    return connections;
  }
  // All that come by and by.
  void AwaitPeers(size_t count) {
    RunUntil(
        [&] {
          for (RawPeer peer; listener_.Accept(&peer);) peers_.push_back(std::move(peer));
          return peers_.size() >= count;
        },
        "connections");
    Settle();
    for (RawPeer peer; listener_.Accept(&peer);) peers_.push_back(std::move(peer));
    EXPECT_EQ(peers_.size(), count);
  }

  std::vector<RawPeer> peers_;
};

TEST_P(PacedActiveConnectionTest, SoManyHandshakesAreUnderWayTowardsAListener) {
  ConnectMany(5, SessionId(1));
  AwaitPeers(2);
  ConnectMany(1, SessionId(2));
  AwaitPeers(3);
  ConnectMany(5, SessionId(3));
  AwaitPeers(4);
}

TEST_P(PacedActiveConnectionTest, AReplyAFailureOrAReleaseIsAnothersTurn) {
  const std::vector<ConnectionId> connections = ConnectMany(5, SessionId(1));
  AwaitPeers(2);
  AwaitBytes(peers_[0], 26);
  peers_[0].Send(ThreeWayReply());
  Await<FabricReplied>();
  AwaitPeers(3);
  peers_[1].Close();
  EXPECT_EQ(Await<FabricConnectFailed>().status, NdkStatus::kConnectionRefused);
  AwaitPeers(4);
  Release(connections[2]);
  AwaitPeers(5);
}

TEST_P(PacedActiveConnectionTest, AnAttemptThatWaitsForItsTurnCanBeReleased) {
  const std::vector<ConnectionId> connections = ConnectMany(4, SessionId(1));
  AwaitPeers(2);
  Release(connections[2]);
  Release(connections[0]);
  AwaitPeers(3);
  Release(connections[1]);
  AwaitPeers(3);
}

TEST_P(PacedActiveConnectionTest, WhatIsLeftToTheNextProcessCanBeReleased) {
  const std::vector<ConnectionId> connections = ConnectMany(3, SessionId(1));
  AwaitPeers(2);
  fabric_->MakeWay();
  const ConnectionId late = Connect(Bind(EndpointUse::kDedicated), listener_.address(), SessionId(2));
  AwaitPeers(2);
  EXPECT_EQ(records_.connections.size(), 2u);
  EXPECT_TRUE(fabric_->HasHandshakes());
  for (const ConnectionId connection : connections) Release(connection);
  EXPECT_FALSE(fabric_->HasHandshakes()) << "one that has not begun is none";
  Release(late);
  EXPECT_TRUE(records_.connections.empty());
  AwaitPeers(2);
}

INSTANTIATE_TEST_SUITE_P(Iwarp, PacedActiveConnectionTest, ::testing::Values(IpFamily::kIpv4, IpFamily::kIpv6),
                         FamilyName);

class SilentPeersTest : public PacedActiveConnectionTest {
 protected:
  SilentPeersTest() : PacedActiveConnectionTest(absl::Milliseconds(10)) {}
};

TEST_P(SilentPeersTest, APeerThatDoesNotReplyKeepsNobodyWaitingAndMayReplyLater) {
  const std::vector<ConnectionId> connections = ConnectMany(7, SessionId(1));
  AwaitPeers(7);
  AwaitBytes(peers_[0], 26);
  peers_[0].Send(ThreeWayReply());
  EXPECT_EQ(Await<FabricReplied>().connection, connections[0]);
}

INSTANTIATE_TEST_SUITE_P(Iwarp, SilentPeersTest, ::testing::Values(IpFamily::kIpv4, IpFamily::kIpv6), FamilyName);

// Its time in the queue is not the time for which it waits for its addresses.
class LateTurnTest : public ActiveConnectionTest {
 protected:
  static constexpr absl::Duration kTimeWait = absl::Milliseconds(300);
  LateTurnTest()
      : ActiveConnectionTest(IwarpOptions{.open_wait = kTimeWait,
                                          .time_wait_poll = absl::Milliseconds(10),
                                          .handshakes = {.per_listener = 2, .reply_wait = absl::Hours(1)}}) {}
};

TEST_P(LateTurnTest, AnAttemptHasAllItsTimeOnceItsTurnHasCome) {
  RawPeer first;
  const ConnectionId holds_turn = Requested(first);
  const Bound shared = Bind(EndpointUse::kShared);
  RawPeer former = RawPeer::ConnectFrom(shared.address, listener_.address());
  const ConnectionId late = Connect(shared, listener_.address());
  const absl::Time end = Loop::Now() + kTimeWait;
  RunUntil([&] { return Loop::Now() >= end; }, "the time for addresses");
  const absl::Time turn = Loop::Now();
  Release(holds_turn);
  EXPECT_EQ(Await<FabricConnectFailed>().connection, late);
  EXPECT_GE(Loop::Now() - turn, kTimeWait);
}

INSTANTIATE_TEST_SUITE_P(Iwarp, LateTurnTest, ::testing::Values(IpFamily::kIpv4, IpFamily::kIpv6), FamilyName);

}  // namespace
}  // namespace rdmabroker
