// SPDX-License-Identifier: Apache-2.0

// The active side: Connect, how it fails and may be tried again, and CompleteConnect.

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/conformance/ndkpi/world.h"
#include "tests/control/patience.h"

namespace rdmabroker::ndkpi {
namespace {

// Ports that no broker and no kernel chooses by itself, so that cases with another range are in nobody's way.
constexpr char kTwoPorts[] = "limits.first_ephemeral_port = 61002\nlimits.last_ephemeral_port = 61003\n";
constexpr char kTwoMorePorts[] = "limits.first_ephemeral_port = 61004\nlimits.last_ephemeral_port = 61005\n";
// So that nobody waits for the kernel to give a silent peer up.
constexpr char kImpatient[] = "timeouts.connect_ms = 1000\n";

SocketAddress AddressOfNobody(World& w) {
  const TestListener listener = w.b().Listening();
  w.b().Close(listener.object).Wait();
  return listener.address;
}

void AddHandshakes(Cases* cases) {
  cases->push_back({90, "ConnectEndsWhenThePeerAccepts", [](World& w) {
                      Handshake made = w.Request();
                      w.ExpectPending(made.connect);
                      w.Finish(made);
                    }});
  cases->push_back({.assertion = 91,
                    .name = "AcceptIsPendingAfterConnect",
                    .run =
                        [](World& w) {
                          const Handshake made = w.Reply();
                          if (w.lacks()) return ExpectTwoWay(made);
                          w.ExpectPending(made.accept);
                          EXPECT_EQ(w.a().CompleteConnect(made.active).Status(), NdkStatus::kSuccess);
                          EXPECT_EQ(made.accept.Status(), NdkStatus::kSuccess);
                        },
                    .lacks = {kTwoWay}});
  cases->push_back({.assertion = 92,
                    .name = "BeforeConnect",
                    .run =
                        [](World& w) {
                          EXPECT_EQ(w.a().CompleteConnect(w.a().NewConnector()).Status(),
                                    NdkStatus::kConnectionInvalid);
                        },
                    .core_only = true});
  cases->push_back({92, "AfterAConnectThatFailed", [](World& w) {
                      const auto connector = w.a().NewConnector();
                      const Call connect = w.a().Connect(connector, w.a().NewQueuePair(), AddressOfNobody(w));
                      EXPECT_EQ(connect.Status(), NdkStatus::kConnectionRefused);
                      EXPECT_EQ(w.a().CompleteConnect(connector).Status(), NdkStatus::kConnectionInvalid);
                    }});
  cases->push_back({92, "OfADeliveredConnector", [](World& w) {
                      EXPECT_EQ(w.b().CompleteConnect(w.Request().passive).Status(), NdkStatus::kConnectionInvalid);
                    }});
  cases->push_back({93, "WhileConnectIsPending", [](World& w) {
                      Handshake made = w.Request();
                      EXPECT_EQ(w.a().CompleteConnect(made.active).Status(), NdkStatus::kConnectionInvalid);
                      w.ExpectPending(made.connect);
                      w.Finish(made);
                    }});
  cases->push_back({94, "ASecondCompleteConnect", [](World& w) {
                      const Connection made = w.Establish();
                      EXPECT_EQ(w.a().CompleteConnect(made.active).Status(), NdkStatus::kConnectionInvalid);
                      w.ExpectCarries(made);
                    }});
  cases->push_back({95, "ThePeerClosesItsConnector", [](World& w) {
                      const Handshake made = w.Reply();
                      w.b().Close(made.passive).Wait();
                      EXPECT_TRUE(Becomes([&w] { return w.HasGivenUp(); }));
                      EXPECT_EQ(w.a().CompleteConnect(made.active).Status(), NdkStatus::kConnectionAborted);
                    }});
  cases->push_back({95, "ThePeersSessionEnds", [](World& w) {
                      const Handshake made = w.Reply();
                      w.End(w.b());
                      EXPECT_TRUE(Becomes([&w] { return w.HasGivenUp(); }));
                      EXPECT_EQ(w.a().CompleteConnect(made.active).Status(), NdkStatus::kConnectionAborted);
                    }});
}

Call ConnectFrom(World& w, const SocketAddress& source) {
  return w.a().Connect(w.a().NewConnector(), w.a().NewQueuePair(), w.b().Listening().address, {.source = source});
}

void AddSources(Cases* cases) {
  cases->push_back({96, "FromAnAddressOfNoDevice", [](World& w) {
                      for (const uint16_t port : {0, 7000}) {
                        EXPECT_EQ(ConnectFrom(w, {w.on().foreign, port}).Status(), NdkStatus::kInvalidAddress);
                      }
                    }});
  cases->push_back({96, "FromAMulticastAddress", [](World& w) {
                      EXPECT_EQ(ConnectFrom(w, *SocketAddress::Parse("224.0.0.1:7000")).Status(),
                                NdkStatus::kInvalidAddress);
                    }});
  cases->push_back({97, "APortIsChosen", [](World& w) {
                      const Connection made = w.Establish();
                      sockaddr_in address = {};
                      uint32_t length = sizeof address;
                      EXPECT_EQ(made.active->GetLocalAddress(reinterpret_cast<sockaddr*>(&address), &length),
                                NdkStatus::kSuccess);
                      EXPECT_GE(ntohs(address.sin_port), 49152);
                      EXPECT_EQ(DataOf(made.passive).peer, w.a().At(ntohs(address.sin_port)));
                    }});
  cases->push_back({98, "NoPortIsLeft",
                    [](World& w) {
                      const TestListener listener = w.b().Listening();
                      const TestListener first = w.a().Listening();
                      w.a().Listening();
                      const auto connector = w.a().NewConnector();
                      QueuePair* const qp = w.a().NewQueuePair();
                      EXPECT_EQ(w.a().Connect(connector, qp, listener.address).Status(), NdkStatus::kTooManyAddresses);
                      w.a().Close(first.object).Wait();
                      const Call connect = w.a().Connect(connector, qp, listener.address);
                      EXPECT_EQ(DataOf(listener.Next()).peer, first.address);
                      EXPECT_TRUE(connect.pending());
                    },
                    kTwoPorts});
}

// What ends a Connect, and may be over when it is tried again.
struct Obstacle {
  int assertion;
  std::string name;
  NdkStatus status;
  // Starts a Connect that ends so.
  Call (*connect)(World& w, const std::shared_ptr<client::Connector>& connector, QueuePair* qp);
  std::string settings = {};
  std::vector<Lack> lacks = {};
};

Call ConnectToRejecting(World& w, const std::shared_ptr<client::Connector>& connector, QueuePair* qp) {
  const TestListener listener = w.b().Listening();
  Call connect = w.a().Connect(connector, qp, listener.address);
  EXPECT_EQ(w.b().Reject(listener.Next()).Status(), NdkStatus::kSuccess);
  return connect;
}

std::vector<Obstacle> Obstacles() {
  using Connector = const std::shared_ptr<client::Connector>&;
  return {
      {100, "NobodyListens", NdkStatus::kConnectionRefused,
       [](World& w, Connector connector, QueuePair* qp) { return w.a().Connect(connector, qp, AddressOfNobody(w)); }},
      {100,
       "ThePeerRejects",
       NdkStatus::kConnectionRefused,
       ConnectToRejecting,
       {},
       {{"siw", "a reject ends the queue pair: Outcome.retry_same_qp is false, and another connects"}}},
      {101, "AHostUnreachable", NdkStatus::kHostUnreachable,
       [](World& w, Connector connector, QueuePair* qp) {
         return w.a().Connect(connector, qp, {w.on().no_host, 7000});
       }},
      {101, "ANetworkUnreachable", NdkStatus::kNetworkUnreachable,
       [](World& w, Connector connector, QueuePair* qp) {
         return w.a().Connect(connector, qp, {w.on().no_route, 7000});
       }},
      {101,
       "ATimeout",
       NdkStatus::kIoTimeout,
       [](World& w, Connector connector, QueuePair* qp) {
         return w.a().Connect(connector, qp, {w.on().silent, 7000});
       },
       kImpatient,
       {{"siw",
         "the kernel keeps the queue pair until TCP has given up: Outcome.retry_same_qp is false, and another"
         " connects"}}},
  };
}

// A queue pair that a failed Connect has ended says so to whoever tries it again.
void ExpectOfNoUse(World& w, QueuePair* qp) {
  const TestListener listener = w.b().Listening();
  const auto connector = w.a().NewConnector();
  const Call connect = w.a().Connect(connector, qp, listener.address);
  EXPECT_TRUE(Becomes([&] { return connect.ended() || listener.delivered() > 0; }));
  if (listener.delivered() > 0) w.b().Accept(listener.Next(), w.b().NewQueuePair());
  client::Outcome outcome = connect.Wait();
  if (outcome.ok()) outcome = w.a().CompleteConnect(connector).Wait();
  EXPECT_EQ(outcome.status, NdkStatus::kConnectionInvalid) << StatusName(outcome.status) << ": " << outcome.hint;
  EXPECT_FALSE(outcome.hint.empty());
}

// The same connector and queue pair connect in the end, and what was posted before is received.
void Overcome(World& w, const Obstacle& obstacle) {
  Handshake made;
  made.active = w.a().NewConnector();
  made.active_qp = w.a().NewQueuePair();
  Buffer early(w.a().side().domain, 8, kMrAllowLocalWrite), late(w.b().side().domain, 8, kMrAllowLocalRead);
  const Sge target = early.sge(), source = late.sge();
  EXPECT_EQ(made.active_qp->Receive(&early, {&target, 1}), NdkStatus::kSuccess);
  const client::Outcome failed = obstacle.connect(w, made.active, made.active_qp).Wait();
  EXPECT_EQ(failed.status, obstacle.status) << StatusName(failed.status) << ": " << failed.hint;
  EXPECT_TRUE(failed.retryable);
  EXPECT_EQ(failed.retry_same_qp, !w.lacks());
  if (w.lacks()) {
    if (failed.status == NdkStatus::kConnectionRefused) {
      ExpectOfNoUse(w, made.active_qp);
      EXPECT_EQ(w.a().side().Next().status, NdkStatus::kCancelled);
    }
    made.active_qp = w.a().NewQueuePair();
    EXPECT_EQ(made.active_qp->Receive(&early, {&target, 1}), NdkStatus::kSuccess);
  }
  const TestListener listener = w.b().Listening();
  made.connect = w.a().Connect(made.active, made.active_qp, listener.address);
  // Until the kernel has let go of the former attempt.
  EXPECT_TRUE(Becomes([&] {
    if (!Becomes([&] { return listener.delivered() > 0 || made.connect.ended(); }) || listener.delivered() > 0) {
      return true;
    }
    made.connect = w.a().Connect(made.active, made.active_qp, listener.address);
    return false;
  }));
  made.passive = listener.Next();
  made.passive_qp = w.b().NewQueuePair();
  w.Finish(made);
  w.ExpectCarries(made);
  late.Fill(2);
  EXPECT_EQ(made.passive_qp->Send(&late, {&source, 1}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(w.b().side().Next().status, NdkStatus::kSuccess);
  const ResultEx result = w.a().side().Next();
  EXPECT_EQ(result.status, NdkStatus::kSuccess);
  EXPECT_EQ(result.request_context, &early);
  EXPECT_EQ(early.bytes(), late.bytes());
}

void AddFailures(Cases* cases) {
  cases->push_back({99, "ARejectComesWithItsData", [](World& w) {
                      const std::string said = "no, not today";
                      const Handshake made = w.Request();
                      EXPECT_EQ(w.b().Reject(made.passive, said).Status(), NdkStatus::kSuccess);
                      EXPECT_EQ(made.connect.Status(), NdkStatus::kConnectionRefused);
                      std::array<char, 512> heard = {};
                      uint32_t length = heard.size();
                      EXPECT_EQ(made.active->GetConnectionData(nullptr, nullptr, heard.data(), &length),
                                NdkStatus::kSuccess);
                      EXPECT_EQ(std::string_view(heard.data(), length).substr(0, said.size()), said);
                    }});
  static const auto* const kObstacles = new std::vector<Obstacle>(Obstacles());
  for (const Obstacle& obstacle : *kObstacles) {
    cases->push_back({.assertion = obstacle.assertion,
                      .name = "TriedAgainAfter" + obstacle.name,
                      .run = [&obstacle](World& w) { Overcome(w, obstacle); },
                      .settings = obstacle.settings,
                      .lacks = obstacle.lacks});
  }
  cases->push_back({102, "AHostThatNeverAnswers",
                    [](World& w) {
                      const client::Outcome outcome =
                          w.a().Connect(w.a().NewConnector(), w.a().NewQueuePair(), {w.on().silent, 7000}).Wait();
                      EXPECT_EQ(outcome.status, NdkStatus::kIoTimeout) << outcome.hint;
                      EXPECT_TRUE(outcome.retryable);
                    },
                    kImpatient});
  cases->push_back({103, "NoRouteLeadsThere", [](World& w) {
                      const client::Outcome outcome =
                          w.a().Connect(w.a().NewConnector(), w.a().NewQueuePair(), {w.on().no_route, 7000}).Wait();
                      EXPECT_EQ(outcome.status, NdkStatus::kNetworkUnreachable) << outcome.hint;
                    }});
}

// How far a handshake has come in which something is busy.
struct Progress {
  std::string name;
  Handshake (*make)(World& w);
};

const std::array<Progress, 3> kProgress = {{
    {"Connecting", [](World& w) { return w.Request(); }},
    {"Replied", [](World& w) { return w.Reply(); }},
    {"Connected",
     [](World& w) {
       Handshake made;
       static_cast<Connection&>(made) = w.Establish();
       return made;
     }},
}};

void AddBusy(Cases* cases) {
  for (const Progress& progress : kProgress) {
    cases->push_back({104, "AQueuePairThatIs" + progress.name, [&progress](World& w) {
                        const Handshake made = progress.make(w);
                        const TestListener listener = w.b().Listening();
                        const Call connect = w.a().Connect(w.a().NewConnector(), made.active_qp, listener.address);
                        EXPECT_EQ(connect.Status(), NdkStatus::kConnectionActive);
                        EXPECT_EQ(listener.delivered(), 0u);
                      }});
    cases->push_back({105, "AConnectorThatIs" + progress.name, [&progress](World& w) {
                        const Handshake made = progress.make(w);
                        const TestListener listener = w.b().Listening();
                        const Call connect = w.a().Connect(made.active, w.a().NewQueuePair(), listener.address);
                        EXPECT_EQ(connect.Status(), NdkStatus::kConnectionActive);
                        EXPECT_EQ(listener.delivered(), 0u);
                      }});
  }
  cases->push_back({104, "AQueuePairThatHasAccepted", [](World& w) {
                      const Connection made = w.Establish();
                      const TestListener listener = w.a().Listening();
                      const Call connect = w.b().Connect(w.b().NewConnector(), made.passive_qp, listener.address);
                      EXPECT_EQ(connect.Status(), NdkStatus::kConnectionActive);
                    }});
  cases->push_back(
      {106, "AConnectorOfAConnectEvent", [](World& w) {
         Handshake made = w.Request();
         const TestListener listener = w.a().Listening();
         const auto endpoint = w.b().NewSharedEndpoint(w.b().At());
         QueuePair* const qp = w.b().NewQueuePair();
         EXPECT_EQ(w.b().Connect(made.passive, qp, listener.address).Status(), NdkStatus::kInvalidDeviceState);
         EXPECT_EQ(w.b().ConnectWithSharedEndpoint(made.passive, qp, endpoint, listener.address).Status(),
                   NdkStatus::kInvalidDeviceState);
         w.Finish(made);
         EXPECT_EQ(w.b().Connect(made.passive, qp, listener.address).Status(), NdkStatus::kInvalidDeviceState);
         EXPECT_EQ(listener.delivered(), 0u);
       }});
}

Call RejectReply(World& w, const Handshake& made) { return w.a().Reject(made.active, "no"); }
Call CloseReplied(World& w, const Handshake& made) { return w.a().Close(made.active); }

// The active side does not complete, but gives up.
void GiveUp(World& w, const Handshake& made, Call (*give_up)(World& w, const Handshake& made)) {
  if (w.lacks()) ExpectTwoWay(made);
  EXPECT_EQ(give_up(w, made).Status(), NdkStatus::kSuccess);
  if (!w.lacks()) {
    EXPECT_EQ(made.accept.Status(), NdkStatus::kConnectionAborted);
    EXPECT_EQ(made.passive_events.count(), 0u);
  } else {
    made.passive_events.Wait();
  }
}

void AddSecondThoughts(Cases* cases) {
  static const Lack kEstablished = {"siw",
                                    "there is no third message: Accept has succeeded, and a DisconnectEvent follows"};
  cases->push_back({.assertion = 107,
                    .name = "RejectAfterConnect",
                    .run =
                        [](World& w) {
                          const Handshake made = w.Reply();
                          GiveUp(w, made, RejectReply);
                          EXPECT_EQ(w.a().CompleteConnect(made.active).Status(), NdkStatus::kConnectionInvalid);
                          EXPECT_EQ(w.a().Reject(made.active).Status(), NdkStatus::kConnectionInvalid);
                          EXPECT_EQ(w.a().Disconnect(made.active).Status(), NdkStatus::kConnectionInvalid);
                          const Call again =
                              w.a().Connect(made.active, w.a().NewQueuePair(), w.b().Listening().address);
                          EXPECT_EQ(again.Status(), NdkStatus::kConnectionInvalid);
                        },
                    .lacks = {kEstablished}});
  cases->push_back({.assertion = 108,
                    .name = "CloseAfterConnect",
                    .run =
                        [](World& w) {
                          const Handshake made = w.Reply();
                          GiveUp(w, made, CloseReplied);
                        },
                    .lacks = {kEstablished}});
}

// Through a shared endpoint, with parameters that Connect would mind.
void ExpectConnectsThrough(World& w, const std::shared_ptr<client::SharedEndpoint>& endpoint,
                           const client::ConnectParameters& parameters) {
  const TestListener listener = w.b().Listening();
  Handshake made;
  made.active = w.a().NewConnector();
  made.active_qp = w.a().NewQueuePair();
  made.connect = w.a().ConnectWithSharedEndpoint(made.active, made.active_qp, endpoint, listener.address, parameters);
  made.passive = listener.Next();
  made.passive_qp = w.b().NewQueuePair();
  w.Finish(made);
  EXPECT_EQ(DataOf(made.active).local, endpoint->address());
}

void AddSharedEndpoints(Cases* cases) {
  cases->push_back({109, "NoSharingViolation", [](World& w) {
                      const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
                      for (const SocketAddress& source : {endpoint->address(), w.a().Listening().address}) {
                        EXPECT_EQ(ConnectFrom(w, source).Status(), NdkStatus::kSharingViolation);
                        ExpectConnectsThrough(w, endpoint, {.source = source});
                      }
                    }});
  cases->push_back({109, "NoInvalidAddress", [](World& w) {
                      const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
                      const SocketAddress foreign = {w.on().foreign, 7000};
                      EXPECT_EQ(ConnectFrom(w, foreign).Status(), NdkStatus::kInvalidAddress);
                      ExpectConnectsThrough(w, endpoint, {.source = foreign});
                    }});
  cases->push_back({109, "NotTooManyAddresses",
                    [](World& w) {
                      const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
                      w.a().Listening();
                      EXPECT_EQ(ConnectFrom(w, w.a().At()).Status(), NdkStatus::kTooManyAddresses);
                      ExpectConnectsThrough(w, endpoint, {.source = w.a().At()});
                    },
                    kTwoMorePorts});
}

// Who has connected completes, with an event callback or without, and learns of the peer's end or does not.
void CompleteAndDisconnect(World& w, bool shared, bool with_event) {
  const TestListener listener = w.b().Listening();
  Handshake made;
  made.active = w.a().NewConnector();
  made.active_qp = w.a().NewQueuePair();
  made.connect = shared ? w.a().ConnectWithSharedEndpoint(made.active, made.active_qp,
                                                          w.a().NewSharedEndpoint(w.a().At()), listener.address)
                        : w.a().Connect(made.active, made.active_qp, listener.address);
  made.passive = listener.Next();
  made.passive_qp = w.b().NewQueuePair();
  made.accept = w.b().Accept(made.passive, made.passive_qp);
  EXPECT_EQ(made.connect.Status(), NdkStatus::kSuccess);
  made.complete = with_event ? w.a().CompleteConnect(made.active, made.active_events.callback())
                             : w.a().CompleteConnect(made.active);
  EXPECT_EQ(made.complete.Status(), NdkStatus::kSuccess);
  EXPECT_EQ(made.accept.Status(), NdkStatus::kSuccess);
  w.ExpectCarries(made);
  const Call passive = w.b().Disconnect(made.passive);
  if (with_event) {
    EXPECT_EQ(made.active_events.Wait().status, NdkStatus::kSuccess);
  }
  EXPECT_EQ(w.a().Disconnect(made.active).Status(), NdkStatus::kSuccess);
  EXPECT_EQ(passive.Status(), NdkStatus::kSuccess);
  w.Settle();
  EXPECT_EQ(made.active_events.count(), with_event ? 1u : 0u);
}

void AddEvents(Cases* cases) {
  for (const bool shared : {false, true}) {
    for (const bool with_event : {false, true}) {
      const std::string name = std::string("AfterConnect") + (shared ? "WithSharedEndpoint" : "") +
                               (with_event ? "WithTheEvent" : "WithoutTheEvent");
      cases->push_back({110, name, [shared, with_event](World& w) { CompleteAndDisconnect(w, shared, with_event); }});
    }
  }
  cases->push_back({111, "NobodyToTellOfTheEnd", [](World& w) {
                      Handshake made = w.Reply();
                      EXPECT_EQ(w.a().CompleteConnect(made.active).Status(), NdkStatus::kSuccess);
                      EXPECT_EQ(made.accept.Status(), NdkStatus::kSuccess);
                      const Call passive = w.b().Close(made.passive);
                      EXPECT_EQ(passive.Status(), NdkStatus::kSuccess);
                      w.Settle();
                      EXPECT_EQ(w.a().Close(made.active).Status(), NdkStatus::kSuccess);
                    }});
}

// Receives of a queue pair that is not connected yet, in their order.
void PostBeforeConnect(World& w) {
  const TestListener listener = w.b().Listening();
  Handshake made;
  made.active = w.a().NewConnector();
  made.active_qp = w.a().NewQueuePair();
  constexpr size_t kEach = 8, kCount = 3;
  Buffer received(w.a().side().domain, kEach * kCount, kMrAllowLocalWrite);
  Buffer sent(w.b().side().domain, kEach * kCount, kMrAllowLocalRead);
  sent.Fill(3);
  for (size_t i = 0; i < kCount; ++i) {
    const Sge target = received.sge(i * kEach, kEach);
    EXPECT_EQ(made.active_qp->Receive(Context(i + 1), {&target, 1}), NdkStatus::kSuccess);
  }
  made.connect = w.a().Connect(made.active, made.active_qp, listener.address);
  made.passive = listener.Next();
  made.passive_qp = w.b().NewQueuePair();
  w.Finish(made);
  // Who accepts over iWARP sends nothing before the peer has.
  w.ExpectCarries(made);
  for (size_t i = 0; i < kCount; ++i) {
    const Sge source = sent.sge(i * kEach, kEach);
    EXPECT_EQ(made.passive_qp->Send(nullptr, {&source, 1}, 0), NdkStatus::kSuccess);
  }
  for (const ResultEx& result : w.b().side().Results(kCount)) EXPECT_EQ(result.status, NdkStatus::kSuccess);
  const std::vector<ResultEx> results = w.a().side().Results(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(results[i].status, NdkStatus::kSuccess);
    EXPECT_EQ(results[i].request_context, Context(i + 1));
  }
  EXPECT_EQ(received.bytes(), sent.bytes());
}

// Longer than the kernel's soft iWARP waits.
constexpr std::chrono::seconds kSlow{15};

// Another's Accept, which nobody completes, is the clock: it ends when all of the broker's timeouts but Connect's are
// over.
void AcceptSlowly(World& w) {
  const TestListener listener = w.b().Listening();
  Handshake made = w.Request(w.a(), w.b(), listener);
  if (w.lacks()) {
    const client::Outcome outcome = made.connect.Wait();
    EXPECT_EQ(outcome.status, NdkStatus::kIoTimeout);
    EXPECT_TRUE(outcome.retryable);
    return;
  }
  const Handshake clock = w.Reply(w.a(), w.b(), listener);
  EXPECT_EQ(clock.accept.Wait(kSlow + kPatience).status, NdkStatus::kIoTimeout);
  w.ExpectPending(made.connect);
  w.Finish(made);
}

void AddWaits(Cases* cases) {
  cases->push_back({112, "ReceivesPostedBeforeConnect", PostBeforeConnect});
  cases->push_back({.assertion = 113,
                    .name = "ThePeerAcceptsAfterAllOtherTimeouts",
                    .run = AcceptSlowly,
                    .settings = "timeouts.establish_ms = " + std::to_string(std::chrono::milliseconds(kSlow).count()) +
                                "\ntimeouts.disconnect_ms = 2000\ntimeouts.handoff_ms = 2000\n"
                                "timeouts.session_grace_ms = 12000\n",
                    .lacks = {{"siw",
                               "the kernel's driver gives up a peer that has not answered for 10 seconds:"
                               " IO_TIMEOUT"}}});
}

}  // namespace

Cases ConnectCases() {
  Cases cases;
  AddHandshakes(&cases);
  AddSources(&cases);
  AddFailures(&cases);
  AddBusy(&cases);
  AddSecondThoughts(&cases);
  AddSharedEndpoints(&cases);
  AddEvents(&cases);
  AddWaits(&cases);
  return cases;
}

}  // namespace rdmabroker::ndkpi
