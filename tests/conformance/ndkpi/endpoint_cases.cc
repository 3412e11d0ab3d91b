// SPDX-License-Identifier: Apache-2.0

// Who holds an address, and until when.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/ndkpi/standstill.h"
#include "tests/conformance/ndkpi/world.h"

namespace rdmabroker::ndkpi {
namespace {

// What can want an address for itself. The destination of a Connect is one of b's listeners.
struct Claim {
  std::string name;
  Call (*make)(World& w, Party& who, const SocketAddress& address);
};

const Claim kListen = {
    "Listen", [](World&, Party& who, const SocketAddress& address) { return who.Listen(who.NewListener(), address); }};
const Claim kConnect = {"Connect", [](World& w, Party& who, const SocketAddress& address) {
                          return who.Connect(who.NewConnector(), who.NewQueuePair(), w.b().Listening().address,
                                             {.source = address});
                        }};
const Claim kCreateSharedEndpoint = {"CreateSharedEndpoint", [](World&, Party& who, const SocketAddress& address) {
                                       return who.CreateSharedEndpoint(address);
                                     }};
const std::array<Claim, 3> kClaims = {kListen, kConnect, kCreateSharedEndpoint};

// What holds one of a's addresses.
struct Holder {
  std::string name;
  SocketAddress (*take)(World& w);
};

// Of a connector that has connected from a port of its own choice.
SocketAddress LocalAddressOf(const std::shared_ptr<client::Connector>& connector) { return DataOf(connector).local; }

const Holder kListener = {"AListener", [](World& w) { return w.a().Listening().address; }};
const Holder kSharedEndpoint = {"ASharedEndpoint",
                                [](World& w) { return w.a().NewSharedEndpoint(w.a().At())->address(); }};
const Holder kConnector = {"AConnectedConnector", [](World& w) { return LocalAddressOf(w.Establish().active); }};

// Numbers of the assertions that say what a claim gets where a holder is.
struct Conflict {
  int assertion;
  const Claim* claim;
  const Holder* holder;
};

void ExpectSharingViolation(const Call& call) { EXPECT_EQ(call.Status(), NdkStatus::kSharingViolation); }

void ExpectFree(World& w, const SocketAddress& address) {
  const TestListener listener = w.NewParty().ListeningAt(address);
  EXPECT_EQ(w.a().Close(listener.object).Status(), NdkStatus::kSuccess);
}

// By the same client, and to the very end of the close: the fabric has not let go of it any earlier.
void ExpectFreeWithItsClose(World& w, const std::shared_ptr<client::BrokerObject>& holder,
                            const SocketAddress& address) {
  const TestListener next = w.a().NewListener();
  Call close("no Close");
  {
    const Standstill nothing_is_unbound(w);
    close = w.a().Close(holder);
    // The broker answers once more, for which it needs no fabric.
    w.a().NewConnector();
    EXPECT_FALSE(nothing_is_unbound && close.ended());
  }
  EXPECT_EQ(close.Status(), NdkStatus::kSuccess);
  EXPECT_EQ(w.a().Listen(next, address).Status(), NdkStatus::kSuccess);
}

void ExpectHeld(World& w, const SocketAddress& address) {
  Party& other = w.NewParty();
  for (const Claim& claim : kClaims) ExpectSharingViolation(claim.make(w, other, address));
  w.End(other);
}

void AddConflicts(Cases* cases) {
  static const std::array<Conflict, 7> kConflicts = {{{44, &kListen, &kListener},
                                                      {45, &kConnect, &kListener},
                                                      {46, &kCreateSharedEndpoint, &kListener},
                                                      {47, &kListen, &kSharedEndpoint},
                                                      {48, &kConnect, &kSharedEndpoint},
                                                      {49, &kCreateSharedEndpoint, &kSharedEndpoint},
                                                      {50, &kListen, &kConnector}}};
  for (const Conflict& conflict : kConflicts) {
    const std::string name = conflict.claim->name + "Where" + conflict.holder->name + "Is";
    cases->push_back({conflict.assertion, name, [&conflict](World& w) {
                        const SocketAddress held = conflict.holder->take(w);
                        ExpectSharingViolation(conflict.claim->make(w, w.a(), held));
                      }});
    cases->push_back({conflict.assertion, name + "OfAnotherClient", [&conflict](World& w) {
                        const SocketAddress held = conflict.holder->take(w);
                        ExpectSharingViolation(conflict.claim->make(w, w.NewParty(), held));
                      }});
  }
}

// a's listener that is closing while `connections` that it has accepted are open. Their passive sides are a's.
struct ClosingListener {
  TestListener listener;
  std::vector<Connection> connections;
  Call close{"no Close"};
};

ClosingListener CloseWithAccepted(World& w, size_t connections) {
  ClosingListener made = {.listener = w.a().Listening()};
  while (made.connections.size() < connections) {
    made.connections.push_back(w.Establish(w.b(), w.a(), made.listener));
  }
  made.close = w.a().Close(made.listener.object);
  return made;
}

void AddClosingListeners(Cases* cases) {
  cases->push_back({52, "A_ItsCloseIsPending", [](World& w) { w.ExpectPending(CloseWithAccepted(w, 1).close); }});
  cases->push_back({52, "B_ANewConnectIsRefused", [](World& w) {
                      const ClosingListener closing = CloseWithAccepted(w, 1);
                      const Call connect =
                          w.b().Connect(w.b().NewConnector(), w.b().NewQueuePair(), closing.listener.address);
                      EXPECT_EQ(connect.Status(), NdkStatus::kConnectionRefused);
                      EXPECT_EQ(closing.listener.delivered(), 1u);
                    }});
  static const std::array<std::string, 3> kParts = {"C_", "D_", "E_"};
  for (size_t i = 0; i < kClaims.size(); ++i) {
    cases->push_back({52, kParts[i] + kClaims[i].name + "GetsSharingViolation", [i](World& w) {
                        const ClosingListener closing = CloseWithAccepted(w, 1);
                        ExpectSharingViolation(kClaims[i].make(w, w.NewParty(), closing.listener.address));
                      }});
  }
  cases->push_back({53, "TheAddressIsFreeWhenTheConnectorIsClosed", [](World& w) {
                      const ClosingListener closing = CloseWithAccepted(w, 1);
                      w.ExpectPending(closing.close);
                      w.a().Close(closing.connections[0].passive);
                      EXPECT_EQ(closing.close.Status(), NdkStatus::kSuccess);
                      ExpectFree(w, closing.listener.address);
                    }});
  std::array<size_t, 3> order = {0, 1, 2};
  do {
    std::string name = "ClosedInTheOrder";
    for (const size_t i : order) name += std::to_string(i + 1);
    cases->push_back({54, name, [order](World& w) {
                        const ClosingListener closing = CloseWithAccepted(w, 3);
                        for (const size_t i : order) {
                          w.ExpectPending(closing.close);
                          ExpectHeld(w, closing.listener.address);
                          w.a().Close(closing.connections[i].passive).Wait();
                        }
                        EXPECT_EQ(closing.close.Status(), NdkStatus::kSuccess);
                        ExpectFree(w, closing.listener.address);
                      }});
  } while (std::next_permutation(order.begin(), order.end()));
  cases->push_back({55, "DisconnectingReleasesNothing", [](World& w) {
                      const ClosingListener closing = CloseWithAccepted(w, 1);
                      w.Disconnect(w.b(), w.a(), closing.connections[0]);
                      w.ExpectPending(closing.close);
                      ExpectHeld(w, closing.listener.address);
                    }});
}

void AddListeners(Cases* cases) {
  cases->push_back({56, "AListenerWithoutConnectorsIsFreeAtOnce", [](World& w) {
                      const TestListener listener = w.a().Listening();
                      EXPECT_EQ(w.a().Close(listener.object).Status(), NdkStatus::kSuccess);
                      ExpectFree(w, listener.address);
                    }});
  cases->push_back({56, "AListenersCloseEndsWhenItsAddressIsFree", [](World& w) {
                      const TestListener listener = w.a().Listening();
                      ExpectFreeWithItsClose(w, listener.object, listener.address);
                    }});
  cases->push_back({57, "AListenerOutlivesItsConnectors", [](World& w) {
                      const TestListener listener = w.a().Listening();
                      const Connection first = w.Establish(w.b(), w.a(), listener);
                      EXPECT_EQ(w.a().Close(first.passive).Status(), NdkStatus::kSuccess);
                      ExpectHeld(w, listener.address);
                      w.Establish(w.b(), w.a(), listener);
                    }});
}

void AddConnectors(Cases* cases) {
  cases->push_back({51, "TwoConnectsFromOneAddressToTwoPeers", [](World& w) {
                      const Connection first = w.Establish();
                      const SocketAddress held = LocalAddressOf(first.active);
                      ExpectSharingViolation(kConnect.make(w, w.a(), held));
                    }});
  cases->push_back({58, "AConnectorsAddressIsHeldUntilItsClose", [](World& w) {
                      const Connection connection = w.Establish();
                      const SocketAddress held = LocalAddressOf(connection.active);
                      w.Disconnect(w.a(), w.b(), connection);
                      ExpectHeld(w, held);
                      EXPECT_EQ(w.a().Close(connection.active).Status(), NdkStatus::kSuccess);
                      ExpectFree(w, held);
                    }});
  cases->push_back({59, "APortThatWasChosenIsHeldUntilTheClose", [](World& w) {
                      const Connection connection = w.Establish();
                      const SocketAddress held = LocalAddressOf(connection.active);
                      ExpectSharingViolation(kListen.make(w, w.NewParty(), held));
                      EXPECT_EQ(w.a().Close(connection.active).Status(), NdkStatus::kSuccess);
                      ExpectFree(w, held);
                    }});
  cases->push_back({70, "OfARefusedConnectIsFreeAfterTheClose", [](World& w) {
                      const TestListener gone = w.b().Listening();
                      w.b().Close(gone.object).Wait();
                      const TestListener chosen = w.a().Listening();
                      w.a().Close(chosen.object).Wait();
                      const auto connector = w.a().NewConnector();
                      const Call connect =
                          w.a().Connect(connector, w.a().NewQueuePair(), gone.address, {.source = chosen.address});
                      EXPECT_EQ(connect.Status(), NdkStatus::kConnectionRefused);
                      EXPECT_EQ(w.a().Close(connector).Status(), NdkStatus::kSuccess);
                      ExpectFree(w, chosen.address);
                    }});
}

void AddSharedEndpoints(Cases* cases) {
  cases->push_back({60, "ASharedEndpointIsHeldUntilItsConnectorsAreClosed", [](World& w) {
                      const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
                      const TestListener one = w.b().Listening(), other = w.b().Listening();
                      const Connection first = w.EstablishThrough(endpoint, w.a(), w.b(), one);
                      const Connection second = w.EstablishThrough(endpoint, w.a(), w.b(), other);
                      const Call close = w.a().Close(endpoint);
                      for (const Connection* connection : {&first, &second}) {
                        w.ExpectPending(close);
                        ExpectHeld(w, endpoint->address());
                        w.a().Close(connection->active).Wait();
                      }
                      EXPECT_EQ(close.Status(), NdkStatus::kSuccess);
                      ExpectFree(w, endpoint->address());
                      const TestListener third = w.b().Listening();
                      Handshake from_it = w.Request(w.a(), w.b(), third, {.source = endpoint->address()});
                      w.Finish(from_it);
                      w.Close(from_it);
                      const auto again = w.NewParty().NewSharedEndpoint(endpoint->address());
                      EXPECT_EQ(again->address(), endpoint->address());
                    }});
  cases->push_back({61, "ASharedEndpointWithoutConnectorsIsFreeAtOnce", [](World& w) {
                      const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
                      EXPECT_EQ(w.a().Close(endpoint).Status(), NdkStatus::kSuccess);
                      ExpectFree(w, endpoint->address());
                    }});
  cases->push_back({61, "ASharedEndpointsCloseEndsWhenItsAddressIsFree", [](World& w) {
                      const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
                      ExpectFreeWithItsClose(w, endpoint, endpoint->address());
                    }});
  cases->push_back({60, "AConnectorThatWentElsewhereDoesNotHoldIt", [](World& w) {
                      const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
                      const TestListener gone = w.b().Listening(), there = w.b().Listening();
                      w.b().Close(gone.object).Wait();
                      const auto connector = w.a().NewConnector();
                      const Call refused =
                          w.a().ConnectWithSharedEndpoint(connector, w.a().NewQueuePair(), endpoint, gone.address);
                      EXPECT_EQ(refused.Status(), NdkStatus::kConnectionRefused);
                      const Call connect = w.a().Connect(connector, w.a().NewQueuePair(), there.address);
                      there.Next();
                      EXPECT_EQ(w.a().Close(endpoint).Status(), NdkStatus::kSuccess);
                      w.ExpectPending(connect);
                    }});
  cases->push_back({62, "ASharedEndpointOutlivesItsConnectors", [](World& w) {
                      const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
                      const TestListener one = w.b().Listening(), other = w.b().Listening();
                      const Connection first = w.EstablishThrough(endpoint, w.a(), w.b(), one);
                      EXPECT_EQ(w.a().Close(first.active).Status(), NdkStatus::kSuccess);
                      ExpectHeld(w, endpoint->address());
                      w.EstablishThrough(endpoint, w.a(), w.b(), other);
                    }});
}

void AddPeersOfSharedEndpoints(Cases* cases) {
  cases->push_back({63, "TwoPeersThroughOneSharedEndpointSeeOneAddress", [](World& w) {
                      const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
                      const TestListener one = w.b().Listening(), other = w.b().Listening();
                      for (const TestListener* listener : {&one, &other}) {
                        const Connection made = w.EstablishThrough(endpoint, w.a(), w.b(), *listener);
                        EXPECT_EQ(DataOf(made.active).local, endpoint->address());
                        EXPECT_EQ(DataOf(made.passive).peer, endpoint->address());
                      }
                    }});
  cases->push_back({64, "ASecondConnectionOfOnePairOfAddresses", [](World& w) {
                      const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
                      const TestListener listener = w.b().Listening();
                      w.EstablishThrough(endpoint, w.a(), w.b(), listener);
                      const Call second = w.a().ConnectWithSharedEndpoint(w.a().NewConnector(), w.a().NewQueuePair(),
                                                                          endpoint, listener.address);
                      EXPECT_EQ(second.Status(), NdkStatus::kAddressAlreadyExists);
                    }});
  cases->push_back({65, "ASecondConnectionOfOnePairWhileTheFirstIsConnecting", [](World& w) {
                      const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
                      const TestListener listener = w.b().Listening();
                      const auto first = w.a().NewConnector();
                      w.a().ConnectWithSharedEndpoint(first, w.a().NewQueuePair(), endpoint, listener.address);
                      listener.Next();
                      const Call second = w.a().ConnectWithSharedEndpoint(w.a().NewConnector(), w.a().NewQueuePair(),
                                                                          endpoint, listener.address);
                      EXPECT_EQ(second.Status(), NdkStatus::kAddressAlreadyExists);
                    }});
  cases->push_back({66, "ASecondConnectionOfOnePairAfterTheFirst", [](World& w) {
                      const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
                      const TestListener listener = w.b().Listening();
                      const Connection first = w.EstablishThrough(endpoint, w.a(), w.b(), listener);
                      w.Disconnect(w.a(), w.b(), first);
                      w.EstablishThrough(endpoint, w.a(), w.b(), listener);
                    }});
}

void AddAddresses(Cases* cases) {
  cases->push_back({67, "OnePortOfTwoAddresses", [](World& w) {
                      const TestListener one = w.a().Listening();
                      w.b().ListeningAt(w.b().At(one.address.port));
                    }});
  cases->push_back({68, "OnePortOfTwoFamilies", [](World& w) {
                      const TestListener one = w.a().Listening();
                      w.a().ListeningAt(w.a().At6(one.address.port));
                    }});
  cases->push_back({69, "AnAcceptedConnectorHasItsListenersAddress", [](World& w) {
                      const TestListener listener = w.b().Listening();
                      const Connection made = w.Establish(w.a(), w.b(), listener);
                      sockaddr_storage local = {};
                      uint32_t length = sizeof local;
                      ASSERT_EQ(made.passive->GetLocalAddress(reinterpret_cast<sockaddr*>(&local), &length),
                                NdkStatus::kSuccess);
                      EXPECT_EQ(DataOf(made.passive).local, listener.address);
                    }});
}

}  // namespace

Cases EndpointCases() {
  Cases cases;
  AddConflicts(&cases);
  AddConnectors(&cases);
  AddClosingListeners(&cases);
  AddListeners(&cases);
  AddSharedEndpoints(&cases);
  AddPeersOfSharedEndpoints(&cases);
  AddAddresses(&cases);
  return cases;
}

}  // namespace rdmabroker::ndkpi
