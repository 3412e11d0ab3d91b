// SPDX-License-Identifier: Apache-2.0

// What anybody may send to a listening port. Each row ends that socket and nothing else: no request is reported, and
// the listener serves the next peer.

#include <random>

#include "broker/fabric/iwarp/testing/fabric_fixture.h"
#include "dataplane/testing/descriptor_shortage.h"
#include "tests/captured_log.h"
#include "tests/random_seed.h"

namespace rdmabroker {
namespace {

using End = RawPeer::End;

class HostilePeerTest : public IwarpFabricTest {
 protected:
  using IwarpFabricTest::IwarpFabricTest;

  // A peer that keeps to the protocol is served.
  void ExpectServed(RawPeer& peer) {
    peer.Send(ThreeWayRequest());
    const ConnectionId connection = Await<FabricConnectRequested>().connection;
    fabric_->Perform(FabricReject{kDevice, connection, {}});
    EXPECT_EQ(AwaitEnd(peer), End::kClosed);
    EXPECT_EQ(peer.received(), Literal(kReplyKey, {0x70, 2, 0, 4, 0, 0, 0, 0}));
    peer.Close();
    EXPECT_EQ(Await<FabricReleased>().connection, connection);
  }
  void ExpectServing(const Bound& listener) {
    RawPeer peer = RawPeer::ConnectTo(listener.address);
    ExpectServed(peer);
  }
};

TEST_P(HostilePeerTest, AnythingButAnMpaRequestEndsItsSocketAndNothingElse) {
  const std::string key(kRequestKey);
  const struct {
    const char* name;
    std::string bytes;
    bool shut_down = false;  // The peer ends its side behind them.
  } rows[] = {
      {"nothing", "", true},
      {"garbage", "G"},
      {"another protocol", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"},
      {"zeros", std::string(4096, '\0')},
      {"one wrong letter", "MPA ID Rex Frame"},
      {"a reply", Literal(kReplyKey, {0x40, 2, 0, 0})},
      {"revision 0", Literal(key, {0x40, 0, 0, 0})},
      {"revision 3", Literal(key, {0x40, 3, 0, 0})},
      {"513 bytes of private data announced", Literal(key, {0x40, 1, 2, 1})},
      {"65535 bytes of private data announced", Literal(key, {0x50, 2, 0xFF, 0xFF})},
      {"513 bytes of private data sent", Literal(key, {0x40, 1, 2, 1}) + std::string(513, 'x')},
      {"enhanced data announced, no room for it", Literal(key, {0x50, 2, 0, 3, 0, 0, 0})},
      {"one byte behind the request", ThreeWayRequest() + "x"},
      {"a second request behind the first", ThreeWayRequest() + ThreeWayRequest()},
      {"megabytes behind the request", TwoWayRequest() + std::string(100'000, 'x')},
      {"cut off in the key", "MPA ID", true},
      {"cut off in the header", key + "\x50", true},
      {"cut off in the private data", ThreeWayRequest().substr(0, ThreeWayRequest().size() - 1), true},
  };
  const Bound listener = Bind(EndpointUse::kListener);
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    RawPeer peer = RawPeer::ConnectTo(listener.address);
    peer.Send(row.bytes);
    if (row.shut_down) peer.ShutDown();
    EXPECT_EQ(AwaitEnd(peer), End::kReset);
    EXPECT_EQ(peer.received(), "");
    EXPECT_TRUE(reports_.empty());
  }
  ExpectServing(listener);
}

// The log names the address, the peer and the cause; a flood leaves one line a second.
TEST_P(HostilePeerTest, WhatIsNoMpaRequestIsLoggedOnceASecond) {
  CapturedLog log;
  const absl::Time begin = absl::Now();
  const Bound listener = Bind(EndpointUse::kListener);
  RawPeer peer = RawPeer::ConnectTo(listener.address);
  peer.Send("MPA ID Rex Frame");
  EXPECT_EQ(AwaitEnd(peer), End::kReset);
  const auto lines = [&] { return log.LinesWith("connect request refused"); };
  ASSERT_EQ(lines().size(), 1u);
  const std::string first = lines()[0];
  EXPECT_EQ(first.find("connect request refused local=" + listener.address.ToString() + " peer="), 0u) << first;
  EXPECT_NE(first.find(" cause=\"MPA request: "), std::string::npos) << first;
  EXPECT_NE(first.find(" left_out=0"), std::string::npos) << first;
  constexpr int kFlood = 100;
  for (int i = 0; i < kFlood; ++i) {
    RawPeer next = RawPeer::ConnectTo(listener.address);
    next.Send("GET / HTTP/1.1\r\n");
    EXPECT_EQ(AwaitEnd(next), End::kReset);
  }
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  EXPECT_LE(static_cast<double>(lines().size()), 1 + seconds);
}

TEST_P(HostilePeerTest, RandomBytesEndTheirSocketsAndNothingElse) {
  const uint32_t seed = RandomSeed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const Bound listener = Bind(EndpointUse::kListener);
  for (int round = 0; round < 100; ++round) {
    // Half of them begin well, and announce more than is allowed.
    std::string bytes = round % 2 == 0 ? std::string(1, static_cast<char>(random() % 'M')) : Literal(kRequestKey, {});
    if (round % 2 != 0)
      bytes += Literal("", {static_cast<int>(random() & 0xFF), 2, static_cast<int>(3 + random() % 9), 0});
    for (uint32_t left = random() % 600; left > 0; --left) bytes.push_back(static_cast<char>(random()));
    RawPeer peer = RawPeer::ConnectTo(listener.address);
    peer.Send(bytes);
    EXPECT_EQ(AwaitEnd(peer), End::kReset);
  }
  EXPECT_TRUE(reports_.empty());
  ExpectServing(listener);
}

TEST_P(HostilePeerTest, ARequestIsTakenByteByByte) {
  const Bound listener = Bind(EndpointUse::kListener);
  RawPeer peer = RawPeer::ConnectTo(listener.address);
  for (const char byte : ThreeWayRequest()) {
    EXPECT_TRUE(reports_.empty());
    peer.Send({&byte, 1});
    Settle();
  }
  Release(Await<FabricConnectRequested>().connection);
}

TEST_P(HostilePeerTest, AnUnboundListenerEndsItsHalfOpenSockets) {
  const Bound listener = Bind(EndpointUse::kListener);
  const Bound other = Bind(EndpointUse::kListener);
  RawPeer peer = RawPeer::ConnectTo(listener.address);
  RawPeer others_peer = RawPeer::ConnectTo(other.address);
  Settle();
  fabric_->Perform(FabricUnbind{kDevice, listener.id});
  EXPECT_EQ(Await<FabricUnbound>().endpoint, listener.id);
  EXPECT_EQ(AwaitEnd(peer), End::kReset);
  ExpectServed(others_peer);
}

// Nothing of the process is left for a while; who comes then is served when there is room again.
TEST_P(HostilePeerTest, APeerThatComesWhenDescriptorsHaveRunOutIsServedLater) {
  const Bound listener = Bind(EndpointUse::kListener);
  RawPeer peer = RawPeer::ConnectTo(listener.address);
  {
    const DescriptorShortage shortage;
    peer.Send(ThreeWayRequest());
    // The listener's turn, and its pause, after which it looks again in vain.
    for (int turns = 0; turns < 3; ++turns) EXPECT_TRUE(loop_.RunTurn(Loop::Now() + kPatience));
    EXPECT_TRUE(reports_.empty());
  }
  Release(Await<FabricConnectRequested>().connection);
}

INSTANTIATE_TEST_SUITE_P(Iwarp, HostilePeerTest, ::testing::Values(IpFamily::kIpv4, IpFamily::kIpv6), FamilyName);

class ImpatientHostilePeerTest : public HostilePeerTest {
 protected:
  ImpatientHostilePeerTest() : HostilePeerTest(IwarpOptions{.request_timeout = absl::Milliseconds(30)}) {}
};

TEST_P(ImpatientHostilePeerTest, APeerThatSaysNothingOrStopsHalfWayIsResetInTime) {
  const Bound listener = Bind(EndpointUse::kListener);
  for (const std::string& bytes : {std::string(), std::string("MPA ID Req"), ThreeWayRequest().substr(0, 22)}) {
    RawPeer peer = RawPeer::ConnectTo(listener.address);
    peer.Send(bytes);
    EXPECT_EQ(AwaitEnd(peer), End::kReset);
  }
  EXPECT_TRUE(reports_.empty());
  ExpectServing(listener);
}

INSTANTIATE_TEST_SUITE_P(Iwarp, ImpatientHostilePeerTest, ::testing::Values(IpFamily::kIpv4, IpFamily::kIpv6),
                         FamilyName);

class CrowdedHostilePeerTest : public HostilePeerTest {
 protected:
  CrowdedHostilePeerTest() : HostilePeerTest(IwarpOptions{.half_open_per_listener = 3, .half_open = 4}) {}
};

TEST_P(CrowdedHostilePeerTest, TheOldestSilentPeerOfAListenerGivesWay) {
  const Bound listener = Bind(EndpointUse::kListener);
  const Bound other = Bind(EndpointUse::kListener);
  RawPeer others_peer = RawPeer::ConnectTo(other.address);
  Settle();
  std::vector<RawPeer> peers;
  for (int i = 0; i < 4; ++i) {
    peers.push_back(RawPeer::ConnectTo(listener.address));
    Settle();
  }
  EXPECT_EQ(AwaitEnd(peers[0]), End::kReset);
  for (size_t i = 1; i < peers.size(); ++i) ExpectServed(peers[i]);
  ExpectServed(others_peer);
}

TEST_P(CrowdedHostilePeerTest, TheOldestSilentPeerOfAllGivesWay) {
  const Bound listener = Bind(EndpointUse::kListener);
  const Bound other = Bind(EndpointUse::kListener);
  std::vector<RawPeer> peers;
  for (const Bound& to : {listener, other, listener, other, listener}) {
    peers.push_back(RawPeer::ConnectTo(to.address));
    Settle();
  }
  EXPECT_EQ(AwaitEnd(peers[0]), End::kReset);
  for (size_t i = 1; i < peers.size(); ++i) ExpectServed(peers[i]);
}

INSTANTIATE_TEST_SUITE_P(Iwarp, CrowdedHostilePeerTest, ::testing::Values(IpFamily::kIpv4, IpFamily::kIpv6),
                         FamilyName);

}  // namespace
}  // namespace rdmabroker
