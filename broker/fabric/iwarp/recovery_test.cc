// SPDX-License-Identifier: Apache-2.0

// The fabric of a process that goes on where another was killed. The former lives are processes that die of SIGKILL;
// the test keeps for them what a supervisor and a store would.

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "broker/fabric/iwarp/kept_transport.h"
#include "broker/fabric/iwarp/testing/fabric_fixture.h"
#include "broker/fabric/iwarp/testing/former_lives.h"
#include "broker/fabric/iwarp/testing/outsider.h"
#include "tests/captured_log.h"

namespace rdmabroker {
namespace {

using Bound = FabricLife::Bound;
using End = RawPeer::End;

constexpr EndpointUse kEveryUse[] = {EndpointUse::kListener, EndpointUse::kDedicated, EndpointUse::kShared,
                                     EndpointUse::kReserved};

// What the core knows of a connection.
struct Known {
  Bound endpoint;
  ConnectionId connection;
  SocketAddress local;
  SocketAddress peer;
  HandoffSecret secret = {};
};

FabricAccept Accepted(ConnectionId connection) { return {kDevice, connection, SessionId(1), QpNumber{3}, {1, 1}, {}}; }

std::string NameOf(const Bound& bound, int number) { return absl::StrCat("e", bound.id.value(), ".", number); }

class RecoveryTest : public ::testing::TestWithParam<IpFamily> {
 protected:
  // --- What a life does ---

  // A peer asks a listener of its own.
  static Known Request(FabricLife& life, RawPeer* peer) {
    const Bound listener = life.Bind(EndpointUse::kListener);
    *peer = RawPeer::ConnectTo(listener.address);
    peer->Send(TwoWayRequest());
    const auto requested = life.Await<FabricConnectRequested>();
    return {listener, requested.connection, requested.local, requested.peer, {}};
  }
  static Known Establish(FabricLife& life, RawPeer* peer) {
    Known known = Request(life, peer);
    life.Perform(Accepted(known.connection));
    known.secret = *life.Await<FabricEstablished>().handoff;
    return known;
  }
  // Connects to `listener`, which takes the request.
  static Known Connect(FabricLife& life, const Bound& from, RawListener& listener, RawPeer* peer) {
    const Known known = {from, ConnectionId(life.NextId()), from.address, listener.address(), {}};
    life.Perform(FabricConnect{
        kDevice, known.connection, from.id, SessionId(1), QpNumber{2}, known.local, known.peer, {1, 1}, {}});
    life.RunUntil([&] { return listener.Accept(peer); }, "a connection");
    life.AwaitBytes(*peer, kRequestLength);
    return known;
  }
  // Asks for a connection to it, and no more.
  static Known Ask(FabricLife& life, const RawListener& listener) {
    const Bound from = life.Bind(EndpointUse::kDedicated);
    const Known known = {from, ConnectionId(life.NextId()), from.address, listener.address(), {}};
    life.Perform(FabricConnect{
        kDevice, known.connection, from.id, SessionId(1), QpNumber{2}, known.local, known.peer, {8, 3}, {'h', 'i'}});
    return known;
  }
  static Known Replied(FabricLife& life, RawListener& listener, RawPeer* peer) {
    const Known known = Connect(life, life.Bind(EndpointUse::kDedicated), listener, peer);
    peer->Send(Literal(kReplyKey, {0x40, 1, 0, 0}));
    life.Await<FabricReplied>();
    return known;
  }
  // What the hand-off socket does for a client.
  static RawPeer Fetch(FabricLife& life, ConnectionId connection, bool acknowledged = true) {
    const Handoff* handoff = life.handoffs().Find(connection);
    if (handoff == nullptr) {
      ADD_FAILURE() << "nothing to hand over";
      return {};
    }
    handoff->on_sending(true);
    RawPeer client(UniqueFd(::dup(handoff->socket.get())));
    if (!acknowledged) return client;
    life.handoffs().Settle(connection, true);
    EXPECT_EQ(life.Await<FabricHandedOff>().connection, connection);
    return client;
  }

  // What a life leaves that dies once it has made a connection, and has stored what it knows of it.
  Known Leave(const std::function<Known(FabricLife&, RawPeer*)>& make, RawPeer* peer) {
    lives_.Live([&](FabricLife& life, LastWords& words) {
      RawPeer its;
      words.Tell(make(life, &its));
      words.Leave(its);
      words.Commit(life);
    });
    *peer = lives_.TakePeer();
    return lives_.Told<Known>();
  }

  // Which it tells of, in this order.
  void LiveWithAListenerAndAReservedPort() {
    lives_.Live([](FabricLife& life, LastWords& words) {
      words.Tell(life.Bind(EndpointUse::kListener));
      words.Tell(life.Bind(EndpointUse::kReserved));
      words.Commit(life);
    });
  }

  // --- What the core asks of the life after it ---

  static void Adopt(FabricLife& life, const Bound& bound, EndpointUse use) {
    life.Perform(FabricAdoptEndpoint{kDevice, bound.id, use, {bound.address.ip}, bound.address.port});
  }
  static void Adopt(FabricLife& life, const Known& known, AdoptedStage stage) {
    life.Perform(FabricAdoptConnection{kDevice, known.connection, known.endpoint.id, stage, known.local, known.peer});
  }
  static void AdoptAll(FabricLife& life, const Known& known, AdoptedStage stage) {
    Adopt(life, known.endpoint, EndpointUse::kListener);
    Adopt(life, known, stage);
    life.Perform(FabricAdopted{kDevice});
  }
  // What Ask has asked for, and the life before has not begun.
  static void AdoptWaiting(FabricLife& life, const Known& known, RawListener& listener, RawPeer* peer) {
    Adopt(life, known.endpoint, EndpointUse::kDedicated);
    Adopt(life, known, AdoptedStage::kConnecting);
    life.RunUntil([&] { return listener.Accept(peer); }, "a connection");
    life.AwaitBytes(*peer, kRequestLength + 2);
  }
  static void Unbind(FabricLife& life, const Bound& bound) {
    life.Perform(FabricUnbind{kDevice, bound.id});
    EXPECT_EQ(life.Await<FabricUnbound>().endpoint, bound.id);
  }
  // Of the endpoint nothing is left to the next life.
  void LetGo(FabricLife& life, const Bound& bound) {
    Unbind(life, bound);
    life.keep().Committed();
    lives_.records() = life.records();
  }
  static void ExpectQuiet(FabricLife& life) {
    life.Settle();
    EXPECT_TRUE(life.reports().empty());
  }
  static void ExpectServed(FabricLife& life, RawPeer& peer) {
    peer.Send(TwoWayRequest());
    life.Release(life.Await<FabricConnectRequested>().connection);
    EXPECT_EQ(life.AwaitEnd(peer), End::kReset);
  }
  // How the line begins that tells of it, up to the cause.
  static std::string LossOf(const Known& known) {
    return "connection lost with the process before connection=" + std::to_string(known.connection.value()) +
           " peer=" + known.peer.ToString() + " status=STATUS_CONNECTION_ABORTED cause=\"";
  }
  // Both ways.
  static void ExpectConnected(FabricLife& life, RawPeer& one, RawPeer& other) {
    for (RawPeer* from : {&one, &other}) {
      RawPeer& to = from == &one ? other : one;
      to.Poll();
      const size_t before = to.received().size();
      from->Send("data");
      life.AwaitBytes(to, before + 4);
    }
  }
  // The client's end is the transport's: nobody else has it any more.
  void ExpectOnlyTheClientHasIt(FabricLife& life, RawPeer& client, RawPeer& peer) {
    life.keep().Committed();
    EXPECT_TRUE(life.records().connections.empty());
    ExpectConnected(life, client, peer);
    client.Close();
    EXPECT_EQ(life.AwaitEnd(peer), End::kClosed);
  }

  // Waits until what is kept by that name has been reset.
  void AwaitHangUp(const std::string& name) {
    for (const KeptDescriptor& kept : lives_.supervisor().stored()) {
      pollfd reset = {.fd = kept.fd.get(), .events = 0, .revents = 0};
      if (kept.name == name) {
        EXPECT_EQ(::poll(&reset, 1, -1), 1);
      }
    }
  }

  static constexpr size_t kRequestLength = 24;  // Revision 2, without private data.

  FormerLives lives_{GetParam()};
};

// --- Endpoints ---

TEST_P(RecoveryTest, AListenersPortIsNeverFreeAndWhoConnectsMeanwhileIsServed) {
  lives_.Live([](FabricLife& life, LastWords& words) {
    words.Tell(life.Bind(EndpointUse::kListener));
    words.Commit(life);
  });
  const auto listener = lives_.Told<Bound>();
  ExpectExclusive(listener.address, EndpointUse::kListener);
  RawPeer early = RawPeer::ConnectTo(listener.address);
  const auto life = lives_.GoOn();
  Adopt(*life, listener, EndpointUse::kListener);
  life->Perform(FabricAdopted{kDevice});
  ExpectExclusive(listener.address, EndpointUse::kListener);
  ExpectServed(*life, early);
  RawPeer late = RawPeer::ConnectTo(listener.address);
  ExpectServed(*life, late);
}

// An older version of the broker may have set other options on the listener.
TEST_P(RecoveryTest, WhatAKeptListenerAcceptsHasTheOptionsOfConnections) {
  lives_.Live([](FabricLife& life, LastWords& words) {
    words.Tell(life.Bind(EndpointUse::kListener));
    words.Commit(life);
  });
  const auto bound = lives_.Told<Bound>();
  for (const KeptDescriptor& kept : lives_.supervisor().stored()) {
    const int off = 0;
    const linger no = {};
    ASSERT_EQ(::setsockopt(kept.fd.get(), SOL_SOCKET, SO_REUSEADDR, &off, sizeof off), 0);
    ASSERT_EQ(::setsockopt(kept.fd.get(), SOL_SOCKET, SO_KEEPALIVE, &off, sizeof off), 0);
    ASSERT_EQ(::setsockopt(kept.fd.get(), SOL_SOCKET, SO_LINGER, &no, sizeof no), 0);
  }
  const auto life = lives_.GoOn();
  Adopt(*life, bound, EndpointUse::kListener);
  RawPeer peer = RawPeer::ConnectTo(bound.address);
  peer.Send(TwoWayRequest());
  const auto requested = life->Await<FabricConnectRequested>();
  const int accepted = SocketBetween(requested.local, requested.peer);
  EXPECT_NE(OptionOf(accepted, SOL_SOCKET, SO_REUSEADDR), 0);
  EXPECT_NE(OptionOf(accepted, SOL_SOCKET, SO_REUSEPORT), 0);
  EXPECT_NE(OptionOf(accepted, SOL_SOCKET, SO_KEEPALIVE), 0);
  EXPECT_NE(OptionOf(accepted, SOL_SOCKET, SO_LINGER), 0) << "its process's death would not reset it";
  life->Release(requested.connection);
}

TEST_P(RecoveryTest, EveryEndpointIsHeldAsItWasAndFreeOnceItIsUnbound) {
  for (const EndpointUse use : kEveryUse) {
    SCOPED_TRACE(static_cast<int>(use));
    lives_.Live([use](FabricLife& life, LastWords& words) {
      words.Tell(life.Bind(use));
      words.Commit(life);
    });
    const auto bound = lives_.Told<Bound>();
    ExpectExclusive(bound.address, use);
    const auto life = lives_.GoOn();
    Adopt(*life, bound, use);
    life->Perform(FabricAdopted{kDevice});
    life->keep().Committed();
    ExpectExclusive(bound.address, use);
    EXPECT_EQ(lives_.KeptNames(), std::vector<std::string>{NameOf(bound, 1)});
    Unbind(*life, bound);
    EXPECT_EQ(BindAsOutsider(bound.address, false, false), EADDRINUSE) << "the records still need it";
    life->keep().Committed();
    EXPECT_EQ(BindAsOutsider(bound.address, false, false), 0);
    EXPECT_TRUE(lives_.KeptNames().empty());
  }
}

TEST_P(RecoveryTest, AnEndpointThatWasNotKeptIsBoundAgain) {
  LiveWithAListenerAndAReservedPort();
  const auto listener = lives_.Told<Bound>();
  const auto reserved = lives_.Told<Bound>();
  ASSERT_TRUE(lives_.supervisor().Remove(NameOf(listener, 1)).ok());
  ASSERT_TRUE(lives_.supervisor().Remove(NameOf(reserved, 1)).ok());
  UniqueFd outsider;
  ASSERT_EQ(BindAsOutsider(reserved.address, false, false, &outsider), 0);
  const auto life = lives_.GoOn();
  Adopt(*life, listener, EndpointUse::kListener);
  ExpectExclusive(listener.address, EndpointUse::kListener);
  RawPeer peer = RawPeer::ConnectTo(listener.address);
  ExpectServed(*life, peer);
  Adopt(*life, reserved, EndpointUse::kReserved);
  outsider.Reset();
  life->RunUntil([&] { return BindAsOutsider(reserved.address, false, false) != 0; }, "the fabric to hold the address");
  ExpectExclusive(reserved.address, EndpointUse::kReserved);
}

// Of one that goes on meanwhile, with what it has.
TEST_P(RecoveryTest, AnAddressThatSomebodyHasTakenIsToldOfOnceAndHeldOnceItIsFree) {
  LiveWithAListenerAndAReservedPort();
  const auto listener = lives_.Told<Bound>();
  const auto reserved = lives_.Told<Bound>();
  UniqueFd outsiders[2];
  for (const Bound* bound : {&listener, &reserved}) {
    ASSERT_TRUE(lives_.supervisor().Remove(NameOf(*bound, 1)).ok());
    ASSERT_EQ(BindAsOutsider(bound->address, false, false, &outsiders[bound == &reserved]), 0);
  }
  ASSERT_EQ(::listen(outsiders[0].get(), 1), 0);
  CapturedLog log;
  const auto life = lives_.GoOn();
  Adopt(*life, listener, EndpointUse::kListener);
  Adopt(*life, reserved, EndpointUse::kReserved);
  life->Perform(FabricAdopted{kDevice});
  const auto told_of = [&log](const Bound& bound) {
    return log.LinesWith("address of an endpoint not held address=" + bound.address.ToString() +
                         " cause=\"Address already in use\" retry_seconds=1");
  };
  EXPECT_EQ(told_of(listener).size(), 1u);
  life->RunUntil([&] { return !told_of(reserved).empty(); }, "a line about the other, a second later");
  RawPeer others = RawPeer::ConnectTo(listener.address);
  ExpectQuiet(*life);
  outsiders[0].Reset();
  life->RunUntil([&] { return BindAsOutsider(listener.address, true, false) != 0; }, "the fabric to hold the address");
  RawPeer peer = RawPeer::ConnectTo(listener.address);
  ExpectServed(*life, peer);
  EXPECT_EQ(BindAsOutsider(reserved.address, false, false), EADDRINUSE);
  Unbind(*life, reserved);
  EXPECT_EQ(told_of(listener).size(), 1u);
  EXPECT_EQ(told_of(reserved).size(), 1u);
}

// Whatever bears its name.
TEST_P(RecoveryTest, WhatIsNotTheEndpointsIsPutAside) {
  const int family = GetParam() == IpFamily::kIpv4 ? AF_INET : AF_INET6;
  Bound bound;
  Bound other;
  {
    const auto life = lives_.GoOn();
    bound = life->Bind(EndpointUse::kListener);
    other = life->Bind(EndpointUse::kListener);
    Unbind(*life, bound);
    Unbind(*life, other);
    life->keep().Committed();
  }
  auto keep = [&, number = 0](const UniqueFd& fd) mutable {
    EXPECT_TRUE(fd);
    EXPECT_TRUE(lives_.supervisor().Store(NameOf(bound, ++number), fd.get()).ok());
  };
  UniqueFd elsewhere, let_go;
  EXPECT_EQ(BindAsOutsider(other.address, false, false, &elsewhere), 0);
  EXPECT_EQ(::fcntl(elsewhere.get(), F_SETFL, O_NONBLOCK), 0);
  keep(elsewhere);
  EXPECT_EQ(BindAsOutsider(bound.address, true, true, &let_go), 0);
  EXPECT_EQ(::fcntl(let_go.get(), F_SETFL, O_NONBLOCK), 0);
  keep(let_go);
  keep(UniqueFd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0)));
  keep(UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  keep(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
  elsewhere.Reset(), let_go.Reset();
  const auto life = lives_.GoOn();
  Adopt(*life, bound, EndpointUse::kListener);
  life->keep().Committed();
  ExpectExclusive(bound.address, EndpointUse::kListener);
  EXPECT_EQ(BindAsOutsider(other.address, false, false), 0);
  EXPECT_EQ(lives_.KeptNames(), std::vector<std::string>{NameOf(bound, 6)}) << "no name is used again";
  RawPeer peer = RawPeer::ConnectTo(bound.address);
  ExpectServed(*life, peer);
}

TEST_P(RecoveryTest, ABindThatComesAgainIsAnsweredWithWhatIsHeld) {
  lives_.Live([](FabricLife& life, LastWords& words) { words.Tell(life.Bind(EndpointUse::kListener)); });
  const auto listener = lives_.Told<Bound>();
  RawPeer early = RawPeer::ConnectTo(listener.address);
  const auto life = lives_.GoOn();
  life->Perform(FabricBind{kDevice, listener.id, EndpointUse::kListener, {listener.address.ip}, listener.address.port});
  EXPECT_EQ(life->Await<FabricBound>().endpoint, listener.id);
  life->Perform(FabricAdopted{kDevice});
  ExpectServed(*life, early);
  EXPECT_EQ(lives_.KeptNames(), std::vector<std::string>{NameOf(listener, 1)});
}

TEST_P(RecoveryTest, ABindThatComesAgainAndFailsLeavesNothing) {
  lives_.Live([](FabricLife& life, LastWords& words) { words.Tell(life.Bind(EndpointUse::kListener)); });
  const auto listener = lives_.Told<Bound>();
  const IpAddress absent = *IpAddress::Parse(GetParam() == IpFamily::kIpv4 ? "203.0.113.1" : "2001:db8::1");
  const auto life = lives_.GoOn();
  life->Perform(
      FabricBind{kDevice, listener.id, EndpointUse::kListener, {listener.address.ip, absent}, listener.address.port});
  EXPECT_EQ(life->Await<FabricBindFailed>().endpoint, listener.id);
  life->keep().Committed();
  EXPECT_TRUE(lives_.KeptNames().empty());
  EXPECT_EQ(BindAsOutsider(listener.address, false, false), 0);
}

TEST_P(RecoveryTest, ARepurposeThatComesAgainIsAnswered) {
  for (const EndpointUse use : {EndpointUse::kListener, EndpointUse::kShared}) {
    SCOPED_TRACE(static_cast<int>(use));
    lives_.Live([use](FabricLife& life, LastWords& words) {
      const Bound bound = life.Bind(EndpointUse::kReserved);
      words.Tell(bound);
      words.Commit(life);
      life.Perform(FabricRepurpose{kDevice, bound.id, use});
      life.Await<FabricBound>();
    });
    const auto bound = lives_.Told<Bound>();
    RawPeer early;
    if (use == EndpointUse::kListener) early = RawPeer::ConnectTo(bound.address);
    RawListener listener(GetParam());
    const auto life = lives_.GoOn();
    Adopt(*life, bound, EndpointUse::kReserved);
    life->Perform(FabricRepurpose{kDevice, bound.id, use});
    EXPECT_EQ(life->Await<FabricBound>().endpoint, bound.id);
    life->Perform(FabricAdopted{kDevice});
    ExpectExclusive(bound.address, use);
    RawPeer peer;
    if (use == EndpointUse::kListener) {
      ExpectServed(*life, early);
    } else {
      Connect(*life, bound, listener, &peer);
    }
    Unbind(*life, bound);
    life->keep().Committed();
  }
}

TEST_P(RecoveryTest, AnUnbindThatComesAgainIsAnswered) {
  for (const bool carried_out : {false, true}) {
    SCOPED_TRACE(carried_out);
    lives_.Live([carried_out](FabricLife& life, LastWords& words) {
      const Bound bound = life.Bind(EndpointUse::kListener);
      words.Tell(bound);
      words.Commit(life);
      if (carried_out) Unbind(life, bound);
    });
    const auto bound = lives_.Told<Bound>();
    const auto life = lives_.GoOn();
    Adopt(*life, bound, EndpointUse::kListener);
    Unbind(*life, bound);
    life->Perform(FabricAdopted{kDevice});
    life->keep().Committed();
    EXPECT_TRUE(lives_.KeptNames().empty());
    EXPECT_EQ(BindAsOutsider(bound.address, false, false), 0);
  }
}

// The supervisor closes its duplicate some time after the commit.
TEST_P(RecoveryTest, AnAddressThatWasLetGoOfIsBoundAgainThoughItIsStillKept) {
  const auto life = lives_.GoOn();
  for (const EndpointUse former : kEveryUse) {
    for (const EndpointUse use : kEveryUse) {
      SCOPED_TRACE(::testing::Message() << static_cast<int>(former) << " then " << static_cast<int>(use));
      const Bound before = life->Bind(former);
      Unbind(*life, before);
      const Bound after = {EndpointId(life->NextId()), before.address};
      life->Perform(FabricBind{kDevice, after.id, use, {after.address.ip}, after.address.port});
      FabricBound done;
      ASSERT_TRUE(life->Take(&done)) << "the address is not free";
      ExpectExclusive(after.address, use);
      life->keep().Committed();
      ExpectExclusive(after.address, use);
      Unbind(*life, after);
      life->keep().Committed();
    }
  }
}

TEST_P(RecoveryTest, AnAddressThatGoesIsNoLongerKept) {
  const auto life = lives_.GoOn();
  const Bound listener = life->Bind(EndpointUse::kListener);
  life->Perform(FabricRebind{kDevice, listener.id, {}});
  life->keep().Committed();
  EXPECT_TRUE(lives_.KeptNames().empty());
  life->Perform(FabricRebind{kDevice, listener.id, {listener.address.ip}});
  EXPECT_EQ(lives_.KeptNames(), std::vector<std::string>{NameOf(listener, 2)});
}

// --- Transports ---

TEST_P(RecoveryTest, ATransportThatWasNotFetchedIsOfferedAgain) {
  RawPeer peer;
  const Known known = Leave(Establish, &peer);
  const auto life = lives_.GoOn();
  AdoptAll(*life, known, AdoptedStage::kEstablished);
  ExpectQuiet(*life);
  ASSERT_NE(life->handoffs().Find(known.connection), nullptr);
  EXPECT_EQ(life->handoffs().Find(known.connection)->secret, known.secret);
  EXPECT_EQ(life->StateOf(known.connection).role, iwarp::Role::kResponder);
  RawPeer client = Fetch(*life, known.connection);
  ExpectOnlyTheClientHasIt(*life, client, peer);
  life->Release(known.connection);
}

TEST_P(RecoveryTest, ATransportThatWasFetchedGoesOnUndisturbed) {
  enum class Death { kAfterwards, kBeforeTheSupervisorKnew, kBeforeTheFabricKnew };
  for (const Death death : {Death::kAfterwards, Death::kBeforeTheSupervisorKnew, Death::kBeforeTheFabricKnew}) {
    SCOPED_TRACE(static_cast<int>(death));
    lives_.Live([death](FabricLife& life, LastWords& words) {
      RawPeer peer;
      const Known known = Establish(life, &peer);
      words.Tell(known);
      words.Leave(peer);
      words.Commit(life);
      words.Leave(Fetch(life, known.connection, death != Death::kBeforeTheFabricKnew));
      words.Store(life);
      if (death == Death::kAfterwards) words.Commit(life);
    });
    const auto known = lives_.Told<Known>();
    RawPeer peer = lives_.TakePeer();
    RawPeer client = lives_.TakePeer();
    ExpectConnected(*lives_.GoOn(), client, peer);
    const auto life = lives_.GoOn();
    AdoptAll(*life, known, AdoptedStage::kEstablished);
    if (death == Death::kBeforeTheFabricKnew) {
      EXPECT_EQ(life->Await<FabricHandedOff>().connection, known.connection);
    }
    ExpectQuiet(*life);
    EXPECT_EQ(life->handoffs().Find(known.connection), nullptr);
    life->Release(known.connection);
    ExpectOnlyTheClientHasIt(*life, client, peer);
    LetGo(*life, known.endpoint);
  }
}

TEST_P(RecoveryTest, ATransportThatIsReleasedBeforeItIsFetchedIsReset) {
  for (const AdoptedStage stage : {AdoptedStage::kEstablished, AdoptedStage::kOver}) {
    SCOPED_TRACE(static_cast<int>(stage));
    RawPeer peer;
    const Known known = Leave(Establish, &peer);
    const auto life = lives_.GoOn();
    AdoptAll(*life, known, stage);
    ExpectQuiet(*life);
    peer.Poll();
    EXPECT_EQ(peer.end(), End::kNone);
    life->Release(known.connection);
    EXPECT_EQ(life->AwaitEnd(peer), End::kReset);
    EXPECT_TRUE(life->records().connections.empty());
    life->keep().Committed();
    EXPECT_EQ(lives_.KeptNames(), std::vector<std::string>{NameOf(known.endpoint, 1)});
    LetGo(*life, known.endpoint);
  }
}

TEST_P(RecoveryTest, ATransportThatIsLostIsReported) {
  enum class Loss { kSocket, kRecord, kOtherSocket, kReset };
  for (const Loss loss : {Loss::kSocket, Loss::kRecord, Loss::kOtherSocket, Loss::kReset}) {
    SCOPED_TRACE(static_cast<int>(loss));
    RawPeer peer;
    const Known known = Leave(Establish, &peer);
    if (loss == Loss::kSocket || loss == Loss::kOtherSocket) {
      EXPECT_TRUE(lives_.supervisor().Remove(TransportName(known.connection)).ok());
    }
    if (loss == Loss::kOtherSocket) {
      EXPECT_TRUE(lives_.supervisor().Store(TransportName(known.connection), peer.fd()).ok());
    }
    if (loss == Loss::kRecord) lives_.records().connections[known.connection] = "not a record";
    if (loss == Loss::kReset) peer.Reset(), AwaitHangUp(TransportName(known.connection));
    const auto life = lives_.GoOn();
    CapturedLog log;
    AdoptAll(*life, known, AdoptedStage::kEstablished);
    const auto report = life->Await<FabricDisconnected>();
    EXPECT_EQ(log.LinesWith(LossOf(known) + "its client had not fetched the transport\"").size(), 1u);
    EXPECT_EQ(report.connection, known.connection);
    EXPECT_EQ(report.status, NdkStatus::kConnectionAborted);
    EXPECT_EQ(life->handoffs().Find(known.connection), nullptr);
    life->Release(known.connection);
    EXPECT_TRUE(life->records().connections.empty());
    LetGo(*life, known.endpoint);
    EXPECT_TRUE(lives_.KeptNames().empty());
  }
}

TEST_P(RecoveryTest, ALastStepThatTheCoreWasNotToldOfIsAnsweredWhenItComesAgain) {
  RawListener listener(GetParam());
  for (const bool active : {false, true}) {
    SCOPED_TRACE(active);
    const auto ask = [active](FabricLife& life, ConnectionId connection) {
      if (active) return life.Perform(FabricComplete{kDevice, connection, {1, 1}});
      life.Perform(Accepted(connection));
    };
    RawPeer peer;
    const Known known = Leave(
        [&](FabricLife& life, RawPeer* its) {
          Known made = active ? Replied(life, listener, its) : Request(life, its);
          ask(life, made.connection);
          made.secret = *life.Await<FabricEstablished>().handoff;
          return made;
        },
        &peer);
    const auto life = lives_.GoOn();
    Adopt(*life, known.endpoint, active ? EndpointUse::kDedicated : EndpointUse::kListener);
    Adopt(*life, known, active ? AdoptedStage::kReplied : AdoptedStage::kRequested);
    ask(*life, known.connection);
    const auto established = life->Await<FabricEstablished>();
    EXPECT_EQ(established.connection, known.connection);
    EXPECT_EQ(established.handoff, known.secret);
    RawPeer client = Fetch(*life, known.connection);
    ExpectOnlyTheClientHasIt(*life, client, peer);
    life->Release(known.connection);
    LetGo(*life, known.endpoint);
  }
}

// --- Handshakes ---

TEST_P(RecoveryTest, AConnectThatWasUnderWayFailsAndItsAddressesAreFreeAtOnce) {
  RawListener listener(GetParam());
  RawPeer peer;
  const Known known = Leave(
      [&](FabricLife& life, RawPeer* its) { return Connect(life, life.Bind(EndpointUse::kDedicated), listener, its); },
      &peer);
  const auto life = lives_.GoOn();
  EXPECT_EQ(life->AwaitEnd(peer), End::kReset) << "no TIME_WAIT is in the next attempt's way";
  Adopt(*life, known.endpoint, EndpointUse::kDedicated);
  Adopt(*life, known, AdoptedStage::kConnecting);
  life->Perform(FabricAdopted{kDevice});
  const auto failed = life->Await<FabricConnectFailed>();
  EXPECT_EQ(failed.connection, known.connection);
  EXPECT_EQ(failed.status, NdkStatus::kConnectionAborted);
  EXPECT_TRUE(failed.qp_reusable);
  EXPECT_NE(failed.explanation.find("connect again"), std::string::npos) << failed.explanation;
  life->Release(known.connection);
  RawPeer next;
  life->Release(Connect(*life, known.endpoint, listener, &next).connection);
}

// --- What a life leaves that makes way ---

TEST_P(RecoveryTest, WhatIsAskedOfALifeThatMakesWayIsBegunByTheNextAndOnce) {
  RawListener listener(GetParam());
  lives_.Live([&](FabricLife& life, LastWords& words) {
    life.MakeWay();
    words.Tell(Ask(life, listener));
    ExpectQuiet(life);
    EXPECT_FALSE(life.HasHandshakes());
    words.Commit(life);
  });
  const auto known = lives_.Told<Known>();
  RawPeer peer;
  EXPECT_FALSE(listener.Accept(&peer)) << "it has begun";
  lives_.Live([&](FabricLife& life, LastWords& words) {
    RawPeer its;
    AdoptWaiting(life, known, listener, &its);
    EXPECT_EQ(its.received(), Literal(kRequestKey, {0x50, 2, 0, 6, 0x80, 8, 0xC0, 3, 'h', 'i'}));
    words.Commit(life);
  });
  const auto life = lives_.GoOn();
  Adopt(*life, known.endpoint, EndpointUse::kDedicated);
  Adopt(*life, known, AdoptedStage::kConnecting);
  EXPECT_EQ(life->Await<FabricConnectFailed>().status, NdkStatus::kConnectionAborted);
  life->Release(known.connection);
  EXPECT_FALSE(listener.Accept(&peer)) << "it has begun twice";
}

TEST_P(RecoveryTest, WhatWaitedForItsTurnInALifeThatMakesWayIsBegunByTheNext) {
  // Of one session one at a time.
  FormerLives lives(GetParam(), {.handshakes = {.per_listener = 2, .reply_wait = absl::Hours(1)}});
  RawListener listener(GetParam());
  RawPeer peer;
  lives.Live([&](FabricLife& life, LastWords& words) {
    const Known first = Connect(life, life.Bind(EndpointUse::kDedicated), listener, &peer);
    words.Tell(Ask(life, listener));
    life.MakeWay();
    EXPECT_TRUE(life.HasHandshakes());
    peer.Send(Literal(kReplyKey, {0x40, 1, 0, 0}));
    life.Await<FabricReplied>();
    life.Perform(FabricComplete{kDevice, first.connection, {1, 1}});
    life.Await<FabricEstablished>();
    ExpectQuiet(life);
    EXPECT_FALSE(life.HasHandshakes());
    words.Commit(life);
  });
  const auto known = lives.Told<Known>();
  EXPECT_FALSE(listener.Accept(&peer)) << "its turn has come";
  const auto life = lives.GoOn();
  AdoptWaiting(*life, known, listener, &peer);
  peer.Send(Literal(kReplyKey, {0x40, 1, 0, 0}));
  EXPECT_EQ(life->Await<FabricReplied>().connection, known.connection);
  life->Perform(FabricComplete{kDevice, known.connection, {1, 1}});
  EXPECT_EQ(life->Await<FabricEstablished>().connection, known.connection);
}

TEST_P(RecoveryTest, WhoComesToAListenerWhoseLifeMakesWayIsServedByTheNext) {
  lives_.Live([](FabricLife& life, LastWords& words) {
    const Bound listener = life.Bind(EndpointUse::kListener);
    RawPeer early = RawPeer::ConnectTo(listener.address);
    life.MakeWay();
    EXPECT_TRUE(life.HasHandshakes()) << "who has come by then";
    early.Send(TwoWayRequest());
    life.Perform(Accepted(life.Await<FabricConnectRequested>().connection));
    life.Await<FabricEstablished>();
    EXPECT_FALSE(life.HasHandshakes());
    const Bound another = life.Bind(EndpointUse::kListener);
    for (const Bound& bound : {listener, another}) {
      RawPeer late = RawPeer::ConnectTo(bound.address);
      late.Send(TwoWayRequest());
      words.Leave(late);
      words.Tell(bound);
    }
    ExpectQuiet(life);
    EXPECT_FALSE(life.HasHandshakes());
    words.Commit(life);
  });
  const auto life = lives_.GoOn();
  for (int i = 0; i < 2; ++i) Adopt(*life, lives_.Told<Bound>(), EndpointUse::kListener);
  for (int i = 0; i < 2; ++i) {
    RawPeer late = lives_.TakePeer();
    life->Release(life->Await<FabricConnectRequested>().connection);
    EXPECT_EQ(life->AwaitEnd(late), End::kReset);
  }
}

TEST_P(RecoveryTest, AReplyThatWasNotAnsweredEndsWithItsProcess) {
  RawListener listener(GetParam());
  RawPeer peer;
  const Known known = Leave([&](FabricLife& life, RawPeer* its) { return Replied(life, listener, its); }, &peer);
  const auto life = lives_.GoOn();
  EXPECT_EQ(life->AwaitEnd(peer), End::kReset);
  CapturedLog log;
  Adopt(*life, known, AdoptedStage::kReplied);
  EXPECT_EQ(log.LinesWith(LossOf(known) + "its handshake was under way\"").size(), 1u);
  life->Perform(FabricComplete{kDevice, known.connection, {1, 1}});
  life->Perform(FabricAdopted{kDevice});
  const auto failed = life->Await<FabricFailed>();
  EXPECT_EQ(failed.connection, known.connection);
  EXPECT_EQ(failed.status, NdkStatus::kConnectionAborted);
  EXPECT_NE(failed.explanation.find("connect again"), std::string::npos) << failed.explanation;
  ExpectQuiet(*life);
  life->Perform(FabricReject{kDevice, known.connection, {}});
  EXPECT_EQ(life->Await<FabricReleased>().connection, known.connection);
}

TEST_P(RecoveryTest, ARequestThatWasNotDecidedEndsWithItsProcessAndItsPeerConnectsAgain) {
  for (const AdoptedStage stage : {AdoptedStage::kRequested, AdoptedStage::kOver}) {
    SCOPED_TRACE(static_cast<int>(stage));
    RawPeer peer;
    const Known known = Leave(Request, &peer);
    const auto life = lives_.GoOn();
    EXPECT_EQ(life->AwaitEnd(peer), End::kReset);
    Adopt(*life, known.endpoint, EndpointUse::kListener);
    Adopt(*life, known, stage);
    if (stage == AdoptedStage::kRequested) {
      life->Perform(Accepted(known.connection));
      EXPECT_EQ(life->Await<FabricFailed>().status, NdkStatus::kConnectionAborted);
    }
    life->Perform(FabricAdopted{kDevice});
    ExpectQuiet(*life);
    life->Perform(FabricRefuse{kDevice, known.connection});
    EXPECT_EQ(life->Await<FabricReleased>().connection, known.connection);
    RawPeer next = RawPeer::ConnectTo(known.endpoint.address);
    next.Send(TwoWayRequest());
    const ConnectionId incoming = life->Await<FabricConnectRequested>().connection;
    EXPECT_GT(incoming.value(), known.connection.value()) << "an adopted connection's id is minted again";
    life->Release(incoming);
    Unbind(*life, known.endpoint);
    life->keep().Committed();
  }
}

// --- The whole ---

TEST_P(RecoveryTest, WhatNobodyAdoptsEndsAndItsPeersLearnOfIt) {
  RawPeer peer;
  const Known known = Leave(Establish, &peer);
  RawPeer early = RawPeer::ConnectTo(known.endpoint.address);
  lives_.records() = {};
  const auto life = lives_.GoOn();
  CapturedLog log;
  life->Perform(FabricAdopted{kDevice});
  EXPECT_EQ(log.LinesWith("belong to nothing here, and are closed addresses=1 transports=1").size(), 1u);
  EXPECT_EQ(life->AwaitEnd(early), End::kReset);
  life->keep().Committed();
  EXPECT_EQ(life->AwaitEnd(peer), End::kClosed);
  EXPECT_TRUE(lives_.KeptNames().empty());
  EXPECT_EQ(BindAsOutsider(known.endpoint.address, true, false), 0);
}

TEST_P(RecoveryTest, AProcessThatDiesAsItTakesOverIsTakenOverFrom) {
  RawPeer peer;
  const Known known = Leave(Establish, &peer);
  lives_.Live([&](FabricLife&, LastWords&) {});
  lives_.Live([&](FabricLife& life, LastWords&) { Adopt(life, known.endpoint, EndpointUse::kListener); });
  lives_.Live([&](FabricLife& life, LastWords& words) {
    AdoptAll(life, known, AdoptedStage::kEstablished);
    words.Commit(life);
  });
  RawPeer early = RawPeer::ConnectTo(known.endpoint.address);
  ExpectExclusive(known.endpoint.address, EndpointUse::kListener);
  const auto life = lives_.GoOn();
  AdoptAll(*life, known, AdoptedStage::kEstablished);
  ExpectServed(*life, early);
  ASSERT_NE(life->handoffs().Find(known.connection), nullptr);
  EXPECT_EQ(life->handoffs().Find(known.connection)->secret, known.secret);
  RawPeer client = Fetch(*life, known.connection);
  ExpectOnlyTheClientHasIt(*life, client, peer);
}

TEST_P(RecoveryTest, AProcessThatEndsInOrderLeavesEverythingAsItIs) {
  RawPeer peer;
  auto life = lives_.GoOn();
  const Known known = Establish(*life, &peer);
  lives_.records() = life->records();
  life.reset();
  RawPeer early = RawPeer::ConnectTo(known.endpoint.address);
  life = lives_.GoOn();
  AdoptAll(*life, known, AdoptedStage::kEstablished);
  ExpectServed(*life, early);
  RawPeer client = Fetch(*life, known.connection);
  ExpectOnlyTheClientHasIt(*life, client, peer);
}

INSTANTIATE_TEST_SUITE_P(Iwarp, RecoveryTest, ::testing::Values(IpFamily::kIpv4, IpFamily::kIpv6), FamilyName);

}  // namespace
}  // namespace rdmabroker
