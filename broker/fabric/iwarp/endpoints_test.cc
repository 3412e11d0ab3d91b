// SPDX-License-Identifier: Apache-2.0

#include <sys/socket.h>

#include "broker/fabric/iwarp/testing/fabric_fixture.h"
#include "broker/fabric/iwarp/testing/outsider.h"

namespace rdmabroker {
namespace {

using End = RawPeer::End;

constexpr EndpointUse kEveryUse[] = {EndpointUse::kListener, EndpointUse::kDedicated, EndpointUse::kShared,
                                     EndpointUse::kReserved};

class EndpointsTest : public IwarpFabricTest {
 protected:
  using IwarpFabricTest::IwarpFabricTest;

  void Unbind(const Bound& bound) {
    fabric_->Perform(FabricUnbind{kDevice, bound.id});
    EXPECT_EQ(Await<FabricUnbound>().endpoint, bound.id);
  }
  void Repurpose(const Bound& bound, EndpointUse use) {
    fabric_->Perform(FabricRepurpose{kDevice, bound.id, use});
    EXPECT_EQ(Await<FabricBound>().endpoint, bound.id);
  }
  // Binds the same address anew.
  Bound Again(const Bound& former, EndpointUse use) {
    const Bound bound = {EndpointId(++last_id_), former.address};
    fabric_->Perform(FabricBind{kDevice, bound.id, use, {bound.address.ip}, bound.address.port});
    FabricBound done;
    EXPECT_TRUE(Take(&done)) << "the address is not free";
    return bound;
  }
  // Both sides on this fabric, established and fetched by clients.
  void Connect(const Bound& from, const Bound& listener, RawPeer* active, RawPeer* passive) {
    const ConnectionId connection(++last_id_);
    fabric_->Perform(FabricConnect{
        kDevice, connection, from.id, SessionId(1), QpNumber{2}, from.address, listener.address, {1, 1}, {}});
    const ConnectionId incoming = Await<FabricConnectRequested>().connection;
    fabric_->Perform(FabricAccept{kDevice, incoming, SessionId(1), QpNumber{3}, {1, 1}, {}});
    Await<FabricReplied>();
    fabric_->Perform(FabricComplete{kDevice, connection, {1, 1}});
    Await<FabricEstablished>();
    Await<FabricEstablished>();
    Fetch(connection, active);
    Fetch(incoming, passive);
  }
  void Fetch(ConnectionId connection, RawPeer* client) {
    const int socket = handoffs_.Find(connection)->socket.get();
    EXPECT_NE(OptionOf(socket, SOL_SOCKET, SO_KEEPALIVE), 0) << "the end of the peer's host would stay unnoticed";
    *client = RawPeer(UniqueFd(::dup(socket)));
    handoffs_.Settle(connection, true);
    Await<FabricHandedOff>();
    Release(connection);
  }
};

TEST_P(EndpointsTest, ThereIsOneDevice) {
  EXPECT_EQ(device_.id, kDevice);
  EXPECT_EQ(device_.name, "iwarp0");
  EXPECT_EQ(device_.port_space, PortSpace::kTcp);
  EXPECT_TRUE(device_.client_ends_connections);
  EXPECT_NE(device_.network_namespace, 0u);
  EXPECT_EQ(device_.info.technology, RdmaTechnology::kIwarp);
  EXPECT_EQ(device_.info.max_caller_data, 508u);
  EXPECT_EQ(device_.info.max_callee_data, 508u);
  EXPECT_NE(std::find(device_.addresses.begin(), device_.addresses.end(), LoopbackOf(GetParam())),
            device_.addresses.end());
}

TEST_P(EndpointsTest, AnAddressThatComesIsHeldOnceNobodyElseHasThePort) {
  const Bound listener = Bind(EndpointUse::kListener);
  fabric_->Perform(FabricRebind{kDevice, listener.id, {}});
  UniqueFd outsider;
  ASSERT_EQ(BindAsOutsider(listener.address, false, false, &outsider), 0);
  fabric_->Perform(FabricRebind{kDevice, listener.id, {listener.address.ip}});
  outsider.Reset();
  RunUntil([&] { return BindAsOutsider(listener.address, false, false) != 0; }, "the fabric to hold the address");
  ExpectExclusive(listener.address, EndpointUse::kListener);
  Unbind(listener);
}

// It would go with its process, and whoever waits in its queue, too.
TEST_P(EndpointsTest, AListenerThatNobodyKeepsIsServedWhileItsFabricMakesWay) {
  const Bound listener = Bind(EndpointUse::kListener);
  fabric_->MakeWay();
  RawPeer peer = RawPeer::ConnectTo(listener.address);
  peer.Send(TwoWayRequest());
  Release(Await<FabricConnectRequested>().connection);
}

TEST_P(EndpointsTest, NobodyOutsideGetsInBesideAnEndpoint) {
  for (const EndpointUse use : kEveryUse) {
    SCOPED_TRACE(static_cast<int>(use));
    const Bound bound = Bind(use);
    ExpectExclusive(bound.address, use);
    Unbind(bound);
    EXPECT_EQ(BindAsOutsider(bound.address, false, false), 0);
  }
}

// What clients still have of connections, or the kernel as TIME_WAIT, neither blocks the address nor opens it.
TEST_P(EndpointsTest, WhatIsLeftOfConnectionsNeitherBlocksAnAddressNorOpensIt) {
  for (const bool active_closes_first : {false, true}) {
    for (const bool close : {false, true}) {
      for (const EndpointUse use : kEveryUse) {
        SCOPED_TRACE(::testing::Message() << "use " << static_cast<int>(use) << ", closed " << close
                                          << ", by the active side " << active_closes_first);
        Bound listener = Bind(EndpointUse::kListener);
        Bound from = Bind(EndpointUse::kShared);
        RawPeer active, passive;
        Connect(from, listener, &active, &passive);
        if (close) (active_closes_first ? active : passive).Close(), AwaitEnd(active_closes_first ? passive : active);
        if (close) active.Close(), passive.Close();
        Unbind(listener);
        Unbind(from);
        for (const Bound& former : {listener, from}) {
          const Bound again = Again(former, use);
          ExpectExclusive(again.address, use);
          Unbind(again);
        }
      }
    }
  }
}

TEST_P(EndpointsTest, AReservationOverWhatIsLeftBecomesAListenerOrASharedEndpoint) {
  Bound listener = Bind(EndpointUse::kListener);
  Bound from = Bind(EndpointUse::kShared);
  RawPeer active, passive;
  Connect(from, listener, &active, &passive);
  Unbind(listener);
  Unbind(from);
  listener = Again(listener, EndpointUse::kReserved);
  from = Again(from, EndpointUse::kReserved);
  Repurpose(listener, EndpointUse::kListener);
  ExpectExclusive(listener.address, EndpointUse::kListener);
  Repurpose(from, EndpointUse::kShared);
  ExpectExclusive(from.address, EndpointUse::kShared);
  const Bound other = Bind(EndpointUse::kListener);
  RawPeer second_active, second_passive;
  Connect(from, other, &second_active, &second_passive);
  RawPeer third_active, third_passive;
  Connect(Bind(EndpointUse::kDedicated), listener, &third_active, &third_passive);
  third_active.Send("data");
  AwaitBytes(third_passive, 4);
}

TEST_P(EndpointsTest, ADedicatedEndpointConnectsAgainToTheSamePeerAtOnce) {
  const Bound listener = Bind(EndpointUse::kListener);
  const Bound from = Bind(EndpointUse::kDedicated);
  for (int attempt = 0; attempt < 5; ++attempt) {
    const ConnectionId connection(++last_id_);
    fabric_->Perform(FabricConnect{
        kDevice, connection, from.id, SessionId(1), QpNumber{2}, from.address, listener.address, {1, 1}, {}});
    const ConnectionId incoming = Await<FabricConnectRequested>().connection;
    fabric_->Perform(FabricReject{kDevice, incoming, {}});
    EXPECT_EQ(Await<FabricConnectFailed>().status, NdkStatus::kConnectionRefused);
    Await<FabricReleased>();
    Release(connection);
  }
}

TEST_P(EndpointsTest, ManyPeersThatComeAtOnceAreAllServedWithinFewTurns) {
  constexpr size_t kPeers = 200;  // More than a listener accepts in one turn.
  const Bound listener = Bind(EndpointUse::kListener);
  std::vector<RawPeer> peers;
  for (size_t i = 0; i < kPeers; ++i) {
    peers.push_back(RawPeer::ConnectTo(listener.address));
    peers.back().Send(ThreeWayRequest());
  }
  const uint64_t before = loop_.turn();
  for (size_t i = 0; i < kPeers; ++i) Release(Await<FabricConnectRequested>().connection);
  EXPECT_LT(loop_.turn() - before, kPeers / 4);
  for (RawPeer& peer : peers) EXPECT_EQ(AwaitEnd(peer), End::kReset);
}

INSTANTIATE_TEST_SUITE_P(Iwarp, EndpointsTest, ::testing::Values(IpFamily::kIpv4, IpFamily::kIpv6), FamilyName);

}  // namespace
}  // namespace rdmabroker
