// SPDX-License-Identifier: Apache-2.0

// Where a listener listens, what it delivers, and who is turned down.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "broker/fabric/rdmacm/testing/cm_process.h"
#include "broker/fabric/rdmacm/testing/plain_listener.h"
#include "tests/conformance/ndkpi/standstill.h"
#include "tests/conformance/ndkpi/world.h"
#include "tests/control/patience.h"

namespace rdmabroker::ndkpi {
namespace {

// Ports that no broker and no kernel chooses by itself, so that cases with another range are in nobody's way.
constexpr char kTwoPorts[] = "limits.first_ephemeral_port = 61000\nlimits.last_ephemeral_port = 61001\n";

Call ConnectTo(Party& who, const SocketAddress& destination) {
  return who.Connect(who.NewConnector(), who.NewQueuePair(), destination);
}

void ExpectRefused(Party& who, const SocketAddress& destination) {
  EXPECT_EQ(ConnectTo(who, destination).Status(), NdkStatus::kConnectionRefused);
}

// That somebody can connect there, and gets as far as a connect request.
void ExpectDelivered(World& w, const TestListener& listener) {
  const size_t before = listener.delivered();
  const Call connect = ConnectTo(w.a(), listener.address);
  listener.Next();
  EXPECT_EQ(listener.delivered(), before + 1);
  w.ExpectPending(connect);
}

// An address of `who` that a listener has just left.
SocketAddress FreeAddress(Party& who, bool ipv6 = false) {
  const TestListener listener = who.ListeningAt(ipv6 ? who.At6() : who.At());
  who.Close(listener.object).Wait();
  return listener.address;
}

// A program that does without the broker, and listens at an address of b as long as this lives.
class Outsider {
 public:
  explicit Outsider(World& w) : world_(w) {
    const IpAddress ip = w.b().At().ip;
    if (w.on().adapter == "fake") {
      address = FreeAddress(w.b());
      EXPECT_EQ(w.Tell("occupy " + address.ToString()), "done");
    } else if (w.on().adapter == "iwarp") {
      address = tcp_.emplace(ip).address();
    } else {
      address = rdma_.emplace(ip).Listen();
    }
  }
  ~Outsider() {
    if (world_.on().adapter == "fake") world_.Tell("vacate " + address.ToString());
  }
  Outsider(const Outsider&) = delete;
  Outsider& operator=(const Outsider&) = delete;

  SocketAddress address;

 private:
  World& world_;
  std::optional<PlainListener> tcp_;
  std::optional<CmProcess> rdma_;
};

void ListenBesideTcp(World& w) {
  const PlainListener tcp(IpAddress::Any(IpFamily::kIpv4));
  const SocketAddress address = w.b().At(tcp.address().port);
  if (w.lacks()) {
    EXPECT_EQ(w.b().Listen(w.b().NewListener(), address).Status(), NdkStatus::kSharingViolation);
    return;
  }
  ExpectDelivered(w, w.b().ListeningAt(address));
}

void AddOutsiders(Cases* cases) {
  cases->push_back({71, "ListenWhereAnOutsiderListens", [](World& w) {
                      const TestListener listener = w.b().NewListener();
                      SocketAddress address;
                      {
                        const Outsider outsider(w);
                        address = outsider.address;
                        EXPECT_EQ(w.b().Listen(listener, address).Status(), NdkStatus::kSharingViolation);
                      }
                      EXPECT_EQ(w.b().Listen(listener, address).Status(), NdkStatus::kSuccess);
                    }});
  cases->push_back({.assertion = 72,
                    .name = "ATcpSocketOfThePortIsInNobodysWay",
                    .run = ListenBesideTcp,
                    .lacks = {{"iwarp", "its ports are TCP's: SHARING_VIOLATION"},
                              {"siw", "its ports are TCP's: SHARING_VIOLATION"}}});
}

// Fills a buffer, to see whether it changes.
struct AddressBuffer {
  AddressBuffer() { std::memset(&storage, 0xA5, sizeof storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  bool Unchanged() const {
    const AddressBuffer fresh;
    return std::memcmp(&storage, &fresh.storage, sizeof storage) == 0;
  }

  sockaddr_storage storage;
};

void ExpectTooSmall(const client::Listener& listener, uint32_t needed) {
  for (const uint32_t size : {needed - 1, 4U, 0U}) {
    AddressBuffer buffer;
    uint32_t length = size;
    EXPECT_EQ(listener.GetLocalAddress(buffer.get(), &length), NdkStatus::kBufferTooSmall);
    EXPECT_EQ(length, needed);
    EXPECT_TRUE(buffer.Unchanged());
  }
  AddressBuffer buffer;
  uint32_t length = needed;
  EXPECT_EQ(listener.GetLocalAddress(buffer.get(), &length), NdkStatus::kSuccess);
  EXPECT_EQ(length, needed);
}

void ExpectNoAddress(const TestListener& listener) {
  AddressBuffer buffer;
  uint32_t length = sizeof buffer.storage;
  EXPECT_EQ(listener.object->GetLocalAddress(buffer.get(), &length), NdkStatus::kInvalidDeviceState);
  EXPECT_TRUE(buffer.Unchanged());
}

void AddAddresses(Cases* cases) {
  cases->push_back(
      {.assertion = 73,
       .name = "AnAddressOfNoDevice",
       .run =
           [](World& w) {
             EXPECT_EQ(w.b().Listen(w.b().NewListener(), {w.on().foreign, 0}).Status(), NdkStatus::kInvalidAddress);
             EXPECT_EQ(w.b().Listen(w.b().NewListener(), {w.on().foreign, 7000}).Status(), NdkStatus::kInvalidAddress);
           },
       .core_only = true});
  cases->push_back({74, "APortIsChosen", [](World& w) {
                      const TestListener listener = w.b().Listening();
                      sockaddr_in address = {};
                      uint32_t length = sizeof address;
                      EXPECT_EQ(listener.object->GetLocalAddress(reinterpret_cast<sockaddr*>(&address), &length),
                                NdkStatus::kSuccess);
                      EXPECT_EQ(address.sin_family, AF_INET);
                      EXPECT_EQ(std::memcmp(&address.sin_addr, w.b().At().ip.bytes.data(), 4), 0);
                      EXPECT_GE(ntohs(address.sin_port), 49152);
                      EXPECT_EQ(ntohs(address.sin_port), listener.address.port);
                      ExpectDelivered(w, listener);
                    }});
  cases->push_back({75, "NoPortIsLeft",
                    [](World& w) {
                      const TestListener first = w.b().Listening();
                      w.b().Listening();
                      const TestListener third = w.b().NewListener();
                      EXPECT_EQ(w.b().Listen(third, w.b().At()).Status(), NdkStatus::kTooManyAddresses);
                      w.b().Close(first.object).Wait();
                      EXPECT_EQ(w.b().Listen(third, w.b().At()).Status(), NdkStatus::kSuccess);
                      EXPECT_EQ(third.object->address(), first.address);
                    },
                    kTwoPorts});
  cases->push_back({76, "ABufferIsTooSmallForIpv4",
                    [](World& w) { ExpectTooSmall(*w.b().Listening().object, sizeof(sockaddr_in)); }});
  cases->push_back({76, "ABufferIsTooSmallForIpv6",
                    [](World& w) { ExpectTooSmall(*w.b().ListeningAt(w.b().At6()).object, sizeof(sockaddr_in6)); }});
  cases->push_back({.assertion = 77,
                    .name = "BeforeListen",
                    .run = [](World& w) { ExpectNoAddress(w.b().NewListener()); },
                    .core_only = true});
  cases->push_back({.assertion = 77,
                    .name = "AfterAListenThatFailed",
                    .run =
                        [](World& w) {
                          const TestListener listener = w.b().NewListener();
                          w.b().Listen(listener, {w.on().foreign, 0}).Wait();
                          ExpectNoAddress(listener);
                        },
                    .core_only = true});
  cases->push_back({78, "AListenerThatListens", [](World& w) {
                      const TestListener listener = w.b().Listening();
                      for (const SocketAddress& address : {listener.address, w.b().At(), w.b().At6()}) {
                        EXPECT_EQ(w.b().Listen(listener, address).Status(), NdkStatus::kAddressAlreadyAssociated);
                      }
                      EXPECT_EQ(listener.object->address(), listener.address);
                      ExpectDelivered(w, listener);
                    }});
  cases->push_back({78, "AListenerWhoseListenIsPending", [](World& w) {
                      const TestListener listener = w.b().NewListener();
                      Call first("no Listen"), second = first;
                      {
                        const Standstill nothing_is_bound(w);
                        first = w.b().Listen(listener, w.b().At());
                        second = w.b().Listen(listener, w.b().At());
                        EXPECT_EQ(second.Status(), NdkStatus::kAddressAlreadyAssociated);
                      }
                      EXPECT_EQ(first.Status(), NdkStatus::kSuccess);
                    }});
}

// Listens while somebody tries to connect all the time.
void ExpectNoEventBeforeListen(World& w) {
  const TestListener listener = w.b().NewListener();
  const SocketAddress address = FreeAddress(w.b());
  ExpectRefused(w.a(), address);
  std::atomic<bool> listens = false, too_early = false, delivered = false;
  listener.Handle([&](const std::shared_ptr<client::Connector>&) {
    too_early = !listens;
    delivered = true;
  });
  const Call listen = w.calls().Make("Listen", [&](const Call& call) {
    return listener.object->Listen(address, [&listens, done = call.completion()](const client::Outcome& outcome) {
      listens = outcome.ok();
      done(outcome);
    });
  });
  Call connect = ConnectTo(w.a(), address);
  EXPECT_TRUE(Becomes([&] {
    if (!delivered && connect.ended()) connect = ConnectTo(w.a(), address);
    return delivered.load();
  }));
  EXPECT_EQ(listen.Status(), NdkStatus::kSuccess);
  EXPECT_FALSE(too_early);
  w.Settle();
}

void AddEvents(Cases* cases) {
  cases->push_back({79, "EachRequestIsOneEventWithAConnectorOfItsOwn", [](World& w) {
                      const std::array<TestListener, 2> listeners = {w.b().Listening(), w.b().Listening()};
                      constexpr size_t kEach = 3;
                      std::vector<Call> connects;
                      for (size_t i = 0; i < kEach; ++i) {
                        for (const TestListener& listener : listeners) {
                          connects.push_back(ConnectTo(w.a(), listener.address));
                        }
                      }
                      std::set<std::shared_ptr<client::Connector>> connectors;
                      std::set<SocketAddress> peers;
                      for (const TestListener& listener : listeners) {
                        for (size_t i = 0; i < kEach; ++i) {
                          const auto connector = listener.Next();
                          ASSERT_NE(connector, nullptr);
                          EXPECT_EQ(DataOf(connector).local, listener.address);
                          EXPECT_TRUE(connectors.insert(connector).second);
                          EXPECT_TRUE(peers.insert(DataOf(connector).peer).second);
                        }
                      }
                      for (const Call& connect : connects) w.ExpectPending(connect);
                      for (const TestListener& listener : listeners) EXPECT_EQ(listener.delivered(), kEach);
                    }});
  cases->push_back({80, "NoneBeforeListenHasSucceeded", ExpectNoEventBeforeListen});
}

// As long as it lives, the broker's process stands still.
class Frozen {
 public:
  explicit Frozen(World& w) : broker_(w.broker().Daemon()) { EXPECT_EQ(::kill(broker_, SIGSTOP), 0); }
  ~Frozen() { ::kill(broker_, SIGCONT); }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

 private:
  const pid_t broker_;
};

// Where a data path needs no broker to answer a goodbye, that comes after the pause has been sent, as one thread does
// both; elsewhere the two calls follow each other at once.
void ResumeBeforeThePauseIsAnswered(World& w) {
  const TestListener listener = w.b().Listening();
  const Connection made = w.Establish();
  const Call goodbye = w.a().Disconnect(made.active);
  made.passive_events.Wait();
  w.Settle();
  if (w.b().adapter()->client_ends_connections()) {
    const Frozen frozen(w);
    listener.object->ControlConnectEvents(true);
    EXPECT_EQ(w.b().Disconnect(made.passive).Status(), NdkStatus::kSuccess);
    listener.object->ControlConnectEvents(false);
  } else {
    for (const bool pause : {true, false}) listener.object->ControlConnectEvents(pause);
    w.b().Disconnect(made.passive);
  }
  EXPECT_EQ(goodbye.Status(), NdkStatus::kSuccess);
  // What follows from the answer is on its way after the first, and has come after the second.
  w.Settle();
  w.Settle();
  ExpectDelivered(w, listener);
}

void AddPauses(Cases* cases) {
  cases->push_back({81, "APausedListenerTurnsPeersDown", [](World& w) {
                      const TestListener listener = w.b().Listening();
                      listener.object->ControlConnectEvents(true);
                      ExpectRefused(w.a(), listener.address);
                      w.Settle();
                      EXPECT_EQ(listener.delivered(), 0u);
                      listener.object->ControlConnectEvents(false);
                      w.Settle();
                      ExpectDelivered(w, listener);
                    }});
  cases->push_back({82, "A_WhatWasDeliveredCanBeAccepted", [](World& w) {
                      const TestListener listener = w.b().Listening();
                      Handshake made = w.Request(w.a(), w.b(), listener);
                      listener.object->ControlConnectEvents(true);
                      ExpectRefused(w.a(), listener.address);
                      w.ExpectPending(made.connect);
                      w.Finish(made);
                      w.ExpectCarries(made);
                    }});
  cases->push_back({82, "B_WhatIsConnectedStaysSo", [](World& w) {
                      const TestListener listener = w.b().Listening();
                      const Connection made = w.Establish(w.a(), w.b(), listener);
                      listener.object->ControlConnectEvents(true);
                      ExpectRefused(w.a(), listener.address);
                      w.ExpectCarries(made);
                      EXPECT_EQ(made.active_events.count() + made.passive_events.count(), 0u);
                    }});
  cases->push_back({83, "A_PausedTwiceAndResumedOnce", [](World& w) {
                      const TestListener listener = w.b().Listening();
                      for (const bool pause : {true, true}) listener.object->ControlConnectEvents(pause);
                      ExpectRefused(w.a(), listener.address);
                      for (const bool pause : {false, false}) listener.object->ControlConnectEvents(pause);
                      w.Settle();
                      ExpectDelivered(w, listener);
                      listener.object->ControlConnectEvents(true);
                      ExpectRefused(w.a(), listener.address);
                      EXPECT_EQ(listener.delivered(), 1u);
                    }});
  cases->push_back({83, "B_PausedBeforeListen", [](World& w) {
                      TestListener listener = w.b().NewListener();
                      listener.object->ControlConnectEvents(true);
                      EXPECT_EQ(w.b().Listen(listener, w.b().At()).Status(), NdkStatus::kSuccess);
                      listener.address = AddressOf(listener);
                      ExpectRefused(w.a(), listener.address);
                      w.Settle();
                      EXPECT_EQ(listener.delivered(), 0u);
                      listener.object->ControlConnectEvents(false);
                      w.Settle();
                      ExpectDelivered(w, listener);
                    }});
  cases->push_back({83, "C_ResumedBeforeThePauseIsAnswered", ResumeBeforeThePauseIsAnswered});
  cases->push_back({84, "APausedListenerHoldsItsAddress", [](World& w) {
                      const TestListener listener = w.b().Listening();
                      listener.object->ControlConnectEvents(true);
                      w.Settle();
                      for (Party* who : {&w.b(), &w.NewParty()}) {
                        EXPECT_EQ(who->Listen(who->NewListener(), listener.address).Status(),
                                  NdkStatus::kSharingViolation);
                      }
                    }});
}

// How a connect request that has been delivered ends to be undecided.
struct Decision {
  std::string name;
  std::function<void(World&, const Handshake&)> make;
  std::vector<Lack> lacks = {};
};

constexpr char kToldLate[] = "the kernel's connection manager tells that a peer has given up when it is answered";

const std::array<Decision, 4> kDecisions = {{
    {"Rejected", [](World&, const Handshake& made) { EXPECT_EQ(made.passive->Reject(""), NdkStatus::kSuccess); }},
    {"Accepted",
     [](World& w, const Handshake& made) {
       w.b().Accept(made.passive, made.passive_qp);
       EXPECT_EQ(made.connect.Status(), NdkStatus::kSuccess);
     }},
    {"Closed", [](World& w, const Handshake& made) { w.b().Close(made.passive).Wait(); }},
    {"GivenUpByItsPeer",
     [](World& w, const Handshake& made) {
       w.a().Close(made.active).Wait();
       if (!w.lacks()) {
         EXPECT_TRUE(Becomes([&w] { return w.HasGivenUp(); }));
         return;
       }
       EXPECT_EQ(w.b().Accept(made.passive, made.passive_qp).Status(), NdkStatus::kConnectionAborted);
     },
     {{"rxe", kToldLate}, {"siw", kToldLate}}},
}};

void ExpectRoomAfter(World& w, const Decision& decision) {
  const TestListener listener = w.b().Listening();
  const Handshake first = w.Request(w.a(), w.b(), listener), second = w.Request(w.a(), w.b(), listener);
  ExpectRefused(w.a(), listener.address);
  w.ExpectPending(first.connect);
  w.ExpectPending(second.connect);
  EXPECT_EQ(listener.delivered(), 2u);
  decision.make(w, first);
  w.Settle();
  ExpectDelivered(w, listener);
}

void AddRefusals(Cases* cases) {
  cases->push_back({85, "NobodyHasTheAddress", [](World& w) { ExpectRefused(w.a(), FreeAddress(w.b())); }});
  cases->push_back({85, "NobodyHasTheIpv6Address", [](World& w) { ExpectRefused(w.a(), FreeAddress(w.b(), true)); }});
  cases->push_back({85, "ASharedEndpointHasTheAddress",
                    [](World& w) { ExpectRefused(w.a(), w.b().NewSharedEndpoint(w.b().At())->address()); }});
  cases->push_back({85, "AConnectorHasTheAddress", [](World& w) {
                      const Connection made = w.Establish();
                      ExpectRefused(w.b(), DataOf(made.active).local);
                    }});
  for (const Decision& decision : kDecisions) {
    cases->push_back({86, "BeyondTheBacklogUntilOneIs" + decision.name,
                      [&decision](World& w) { ExpectRoomAfter(w, decision); }, "limits.backlog = 2\n", false,
                      decision.lacks});
  }
  cases->push_back({87, "AListenerThatWasClosed", [](World& w) {
                      const TestListener listener = w.b().Listening();
                      EXPECT_EQ(w.b().Close(listener.object).Status(), NdkStatus::kSuccess);
                      ExpectRefused(w.a(), listener.address);
                      EXPECT_EQ(listener.delivered(), 0u);
                    }});
  cases->push_back({87, "AListenerThatIsClosing", [](World& w) {
                      const TestListener listener = w.b().Listening();
                      const Connection made = w.Establish(w.a(), w.b(), listener);
                      const Call close = w.b().Close(listener.object);
                      ExpectRefused(w.a(), listener.address);
                      w.ExpectPending(close);
                      EXPECT_EQ(listener.delivered(), 1u);
                    }});
}

// Listens at all of the device's addresses of a family, of which a and b have one each.
void ListenEverywhere(World& w, size_t family) {
  const TestListener listener = w.b().ListeningAt({IpAddress::Any(family == 0 ? IpFamily::kIpv4 : IpFamily::kIpv6), 0});
  EXPECT_TRUE(listener.address.ip.IsAny());
  for (const auto& ips : w.on().ips) {
    const SocketAddress concrete = {ips[family], listener.address.port};
    TestListener there = listener;
    there.address = concrete;
    const Connection made = w.Establish(w.a(), w.b(), there);
    EXPECT_EQ(DataOf(made.passive).local, concrete);
    EXPECT_EQ(DataOf(made.active).peer, concrete);
    EXPECT_EQ(w.b().Listen(w.b().NewListener(), concrete).Status(), NdkStatus::kSharingViolation);
  }
}

void AddFamilies(Cases* cases) {
  cases->push_back({88, "AConnectionOverIpv6", [](World& w) {
                      const TestListener listener = w.b().ListeningAt(w.b().At6());
                      EXPECT_EQ(listener.address.ip, w.b().At6().ip);
                      const Connection made = w.Establish(w.a(), w.b(), listener);
                      EXPECT_EQ(DataOf(made.active).local.ip, w.a().At6().ip);
                      EXPECT_EQ(DataOf(made.passive).local, listener.address);
                      w.ExpectCarries(made);
                    }});
  cases->push_back({89, "AllIpv4AddressesOfTheDevice", [](World& w) { ListenEverywhere(w, 0); }});
  cases->push_back({89, "AllIpv6AddressesOfTheDevice", [](World& w) { ListenEverywhere(w, 1); }});
  cases->push_back({89, "AllAddressesWhereAListenerHasOne", [](World& w) {
                      const TestListener listener = w.b().Listening();
                      const SocketAddress all = {IpAddress::Any(IpFamily::kIpv4), listener.address.port};
                      EXPECT_EQ(w.b().Listen(w.b().NewListener(), all).Status(), NdkStatus::kSharingViolation);
                    }});
}

}  // namespace

Cases ListenerCases() {
  Cases cases;
  AddOutsiders(&cases);
  AddAddresses(&cases);
  AddEvents(&cases);
  AddPauses(&cases);
  AddRefusals(&cases);
  AddFamilies(&cases);
  return cases;
}

}  // namespace rdmabroker::ndkpi
