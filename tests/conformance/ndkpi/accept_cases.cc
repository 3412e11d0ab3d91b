// SPDX-License-Identifier: Apache-2.0

// The passive side: what becomes of a connector that a listener has delivered.

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/ndkpi/order.h"
#include "tests/conformance/ndkpi/world.h"

namespace rdmabroker::ndkpi {
namespace {

constexpr char kStrict[] = "limits.accept_on_closing_listener = false\n";

void AddEnds(Cases* cases) {
  cases->push_back({.assertion = 114,
                    .name = "AcceptEndsWhenThePeerCompletes",
                    .run =
                        [](World& w) {
                          const Handshake made = w.Reply();
                          if (w.lacks()) return ExpectTwoWay(made);
                          w.ExpectPending(made.accept);
                          EXPECT_EQ(w.a().CompleteConnect(made.active).Status(), NdkStatus::kSuccess);
                          EXPECT_EQ(made.accept.Status(), NdkStatus::kSuccess);
                          w.ExpectCarries(made);
                        },
                    .lacks = {kTwoWay}});
  cases->push_back({.assertion = 116,
                    .name = "ThePeerNeverCompletes",
                    .run =
                        [](World& w) {
                          const Handshake made = w.Reply();
                          if (w.lacks()) return ExpectTwoWay(made);
                          EXPECT_EQ(made.accept.Status(), NdkStatus::kIoTimeout);
                          EXPECT_EQ(made.passive_events.count(), 0u);
                        },
                    .settings = "timeouts.establish_ms = 500\n",
                    .lacks = {{"siw", "there is no third message, and nothing to wait for: Accept succeeds"}}});
}

// A connect request whose peer has given up, which kernels tell nobody. They have noticed by the time that a later
// request comes, as they take messages in their order.
Handshake Abandon(World& w, void (*give_up)(World& w, const Handshake& made)) {
  const TestListener listener = w.b().Listening();
  Handshake made = w.Request(w.a(), w.b(), listener);
  give_up(w, made);
  EXPECT_EQ(made.connect.Status(), NdkStatus::kCancelled);
  w.Request(w.a(), w.b(), listener);
  return made;
}

void CloseConnecting(World& w, const Handshake& made) {
  EXPECT_EQ(w.a().Close(made.active).Status(), NdkStatus::kSuccess);
}
void EndSession(World& w, const Handshake&) { w.End(w.a()); }

void AcceptAbandoned(World& w, void (*give_up)(World& w, const Handshake& made)) {
  const Handshake made = Abandon(w, give_up);
  const Call accept = w.b().Accept(made.passive, made.passive_qp, {}, made.passive_events.callback());
  EXPECT_EQ(accept.Status(), NdkStatus::kConnectionAborted);
  EXPECT_EQ(made.passive_events.count(), 0u);
}

void RejectAbandoned(World& w) {
  const Handshake made = Abandon(w, CloseConnecting);
  const bool known = w.HasGivenUp();
  const NdkStatus status = w.b().Reject(made.passive).Status();
  EXPECT_TRUE(status == NdkStatus::kConnectionAborted || (!known && status == NdkStatus::kSuccess))
      << StatusName(status);
}

// What a delivered connector is told, once, and what of it is told too late.
struct Decision {
  std::string name;
  Call (*make)(World& w, const Handshake& made);
};

const Decision kAccept = {
    "Accept", [](World& w, const Handshake& made) { return w.b().Accept(made.passive, w.b().NewQueuePair()); }};
const Decision kReject = {"Reject", [](World& w, const Handshake& made) { return w.b().Reject(made.passive); }};

void ExpectDecided(World& w, const Handshake& made) {
  for (const Decision& decision : {kAccept, kReject}) {
    EXPECT_EQ(decision.make(w, made).Status(), NdkStatus::kConnectionInvalid) << decision.name;
  }
}

void AddDecisions(Cases* cases) {
  cases->push_back({115, "ThePeerHasClosedItsConnector", [](World& w) { AcceptAbandoned(w, CloseConnecting); }});
  cases->push_back({115, "ThePeersSessionHasEnded", [](World& w) { AcceptAbandoned(w, EndSession); }});
  cases->push_back({117, "RejectOfAPeerThatHasGivenUp", RejectAbandoned});
  cases->push_back({118, "WhileAcceptIsPending", [](World& w) {
                      Handshake made = w.Reply();
                      ExpectDecided(w, made);
                      EXPECT_EQ(w.a().CompleteConnect(made.active).Status(), NdkStatus::kSuccess);
                      EXPECT_EQ(made.accept.Status(), NdkStatus::kSuccess);
                      w.ExpectCarries(made);
                    }});
  cases->push_back({118, "AfterAccept", [](World& w) {
                      Handshake made = w.Request();
                      w.Finish(made);
                      ExpectDecided(w, made);
                      w.ExpectCarries(made);
                    }});
  cases->push_back({118, "AfterReject", [](World& w) {
                      const Handshake made = w.Request();
                      EXPECT_EQ(w.b().Reject(made.passive).Status(), NdkStatus::kSuccess);
                      ExpectDecided(w, made);
                      EXPECT_EQ(made.connect.Status(), NdkStatus::kConnectionRefused);
                    }});
}

// A connect request that was to be accepted with a queue pair that another connection has.
Handshake AcceptWithAQueuePairInUse(World& w) {
  const Connection busy = w.Establish();
  Handshake made = w.Request();
  EXPECT_EQ(w.b().Accept(made.passive, busy.passive_qp).Status(), NdkStatus::kConnectionActive);
  w.ExpectPending(made.connect);
  return made;
}

void AddQueuePairs(Cases* cases) {
  cases->push_back({119, "ThenItIsRejected", [](World& w) {
                      const Handshake made = AcceptWithAQueuePairInUse(w);
                      EXPECT_EQ(w.b().Reject(made.passive).Status(), NdkStatus::kSuccess);
                      EXPECT_EQ(made.connect.Status(), NdkStatus::kConnectionRefused);
                    }});
  cases->push_back({119, "ThenItIsClosed", [](World& w) {
                      const Handshake made = AcceptWithAQueuePairInUse(w);
                      EXPECT_EQ(w.b().Close(made.passive).Status(), NdkStatus::kSuccess);
                      EXPECT_EQ(made.connect.Status(), NdkStatus::kConnectionRefused);
                    }});
  cases->push_back({119, "ThenItIsAcceptedWithAnother", [](World& w) {
                      Handshake made = AcceptWithAQueuePairInUse(w);
                      w.Finish(made);
                    }});
  cases->push_back({119, "OfAnotherConnectRequest", [](World& w) {
                      const Handshake accepting = w.Reply();
                      const Handshake made = w.Request();
                      EXPECT_EQ(w.b().Accept(made.passive, accepting.passive_qp).Status(),
                                NdkStatus::kConnectionActive);
                      w.ExpectPending(made.connect);
                    }});
}

// The listener is closed with a connect request undecided.
struct Closing : Handshake {
  Call close{"no Close"};
};

Closing CloseWithARequest(World& w) {
  Closing made;
  const TestListener listener = w.b().Listening();
  static_cast<Handshake&>(made) = w.Request(w.a(), w.b(), listener);
  made.close = w.b().Close(listener.object);
  w.ExpectPending(made.close);
  return made;
}

void AddClosingListeners(Cases* cases) {
  cases->push_back({124, "AcceptIsAllowed", [](World& w) {
                      Closing made = CloseWithARequest(w);
                      w.Finish(made);
                      w.ExpectCarries(made);
                      w.ExpectPending(made.close);
                      w.b().Close(made.passive);
                      EXPECT_EQ(made.close.Status(), NdkStatus::kSuccess);
                    }});
  cases->push_back({124, "AcceptIsForbidden",
                    [](World& w) {
                      const Closing made = CloseWithARequest(w);
                      EXPECT_EQ(w.b().Accept(made.passive, made.passive_qp).Status(), NdkStatus::kConnectionAborted);
                      EXPECT_EQ(made.connect.Status(), NdkStatus::kConnectionRefused);
                    },
                    kStrict});
  cases->push_back({120, "OfAConnectorWhoseAcceptFailed",
                    [](World& w) {
                      const Closing made = CloseWithARequest(w);
                      EXPECT_EQ(w.b().Accept(made.passive, made.passive_qp).Status(), NdkStatus::kConnectionAborted);
                      for (const Decision& decision : {kAccept, kReject}) {
                        EXPECT_FALSE(IsSuccess(decision.make(w, made).Status())) << decision.name;
                      }
                      const Call connect = w.b().Connect(made.passive, made.passive_qp, w.a().Listening().address);
                      EXPECT_FALSE(IsSuccess(connect.Status()));
                    },
                    kStrict});
}

void AddRefusals(Cases* cases) {
  cases->push_back({121, "AConnectorThatIsClosedUndecided", [](World& w) {
                      const Handshake made = w.Request();
                      EXPECT_EQ(w.b().Close(made.passive).Status(), NdkStatus::kSuccess);
                      EXPECT_EQ(made.connect.Status(), NdkStatus::kConnectionRefused);
                    }});
  cases->push_back({122, "RejectOfAConnectRequest", [](World& w) {
                      const Handshake made = w.Request();
                      EXPECT_EQ(made.passive->Reject(""), NdkStatus::kSuccess);
                      EXPECT_EQ(made.connect.Status(), NdkStatus::kConnectionRefused);
                    }});
  cases->push_back({122, "RejectOfAReply", [](World& w) {
                      const Handshake made = w.Reply();
                      EXPECT_EQ(made.active->Reject(""), NdkStatus::kSuccess);
                      made.accept.Wait();
                      EXPECT_EQ(w.a().CompleteConnect(made.active).Status(), NdkStatus::kConnectionInvalid);
                    }});
  cases->push_back({123, "AConnectorThatNobodyDelivered", [](World& w) {
                      const auto connector = w.b().NewConnector();
                      EXPECT_EQ(w.b().Accept(connector, w.b().NewQueuePair()).Status(), NdkStatus::kConnectionInvalid);
                    }});
}

// Holds the callbacks of a party back as long as it lives.
class Holdup {
 public:
  explicit Holdup(Party& party) {
    EXPECT_EQ(party.session().ListAdapters([held = held_](const client::Outcome&, const auto&) { held.Run(); }),
              NdkStatus::kPending);
    held_.Await();
  }
  ~Holdup() { held_.Release(); }
  Holdup(const Holdup&) = delete;
  Holdup& operator=(const Holdup&) = delete;

 private:
  const HeldCallback held_;
};

// The acceptor hears of nothing until its peer has completed and disconnected.
void DisconnectAtOnce(World& w) {
  Handshake made = w.Request();
  auto accepted = std::make_shared<std::atomic<bool>>(false), too_early = std::make_shared<std::atomic<bool>>(false);
  made.accept = w.calls().Make("Accept", [&](const Call& call) {
    return made.passive->Accept(
        made.passive_qp, {},
        [=, note = made.passive_events.callback()](const client::DisconnectEvent& event) {
          *too_early = !*accepted;
          note(event);
        },
        [=, done = call.completion()](const client::Outcome& outcome) {
          *accepted = outcome.ok();
          done(outcome);
        });
  });
  EXPECT_EQ(made.connect.Status(), NdkStatus::kSuccess);
  Call disconnect("no Disconnect");
  {
    const Holdup holdup(w.b());
    EXPECT_EQ(w.a().CompleteConnect(made.active).Status(), NdkStatus::kSuccess);
    disconnect = w.a().Disconnect(made.active);
    w.a().Settle();
  }
  EXPECT_EQ(made.accept.Status(), NdkStatus::kSuccess);
  EXPECT_EQ(made.passive_events.Wait().status, NdkStatus::kSuccess);
  EXPECT_FALSE(*too_early);
  EXPECT_EQ(w.b().Disconnect(made.passive).Status(), NdkStatus::kSuccess);
  EXPECT_EQ(disconnect.Status(), NdkStatus::kSuccess);
  EXPECT_EQ(made.passive_events.count(), 1u);
}

using Query = NdkStatus (client::Connector::*)(sockaddr*, uint32_t*) const;

std::string Ask(const std::shared_ptr<client::Connector>& connector, Query query) {
  sockaddr_storage address = {};
  uint32_t length = sizeof address;
  EXPECT_EQ(((*connector).*query)(reinterpret_cast<sockaddr*>(&address), &length), NdkStatus::kSuccess);
  EXPECT_EQ(length, address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  return {reinterpret_cast<const char*>(&address), length};
}

// Before the connection is established, as far as both know of it, and then.
void CompareAddresses(World& w, const SocketAddress& at) {
  const TestListener listener = w.b().ListeningAt(at);
  Handshake made = w.Request(w.a(), w.b(), listener);
  const std::string peer = Ask(made.passive, &client::Connector::GetPeerAddress);
  w.Finish(made);
  EXPECT_EQ(peer, Ask(made.active, &client::Connector::GetLocalAddress));
  EXPECT_EQ(peer, Ask(made.passive, &client::Connector::GetPeerAddress));
  EXPECT_EQ(Ask(made.active, &client::Connector::GetPeerAddress),
            Ask(made.passive, &client::Connector::GetLocalAddress));
}

void AddAddresses(Cases* cases) {
  cases->push_back({125, "AcceptEndsBeforeTheDisconnectEvent", DisconnectAtOnce});
  cases->push_back({126, "BothSidesAgreeOverIpv4", [](World& w) { CompareAddresses(w, w.b().At()); }});
  cases->push_back({126, "BothSidesAgreeOverIpv6", [](World& w) { CompareAddresses(w, w.b().At6()); }});
  cases->push_back(
      {.assertion = 127,
       .name = "AnIdleConnectorHasNoAddress",
       .run =
           [](World& w) {
             const auto connector = w.a().NewConnector();
             sockaddr_storage address = {};
             for (const Query query : {&client::Connector::GetLocalAddress, &client::Connector::GetPeerAddress}) {
               uint32_t length = sizeof address;
               EXPECT_EQ(((*connector).*query)(reinterpret_cast<sockaddr*>(&address), &length),
                         NdkStatus::kConnectionInvalid);
             }
           },
       .core_only = true});
}

}  // namespace

Cases AcceptCases() {
  Cases cases;
  AddEnds(&cases);
  AddDecisions(&cases);
  AddQueuePairs(&cases);
  AddClosingListeners(&cases);
  AddRefusals(&cases);
  AddAddresses(&cases);
  return cases;
}

}  // namespace rdmabroker::ndkpi
