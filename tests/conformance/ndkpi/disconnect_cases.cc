// SPDX-License-Identifier: Apache-2.0

// How connections end.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/ndkpi/data_link.h"
#include "tests/conformance/ndkpi/order.h"
#include "tests/conformance/ndkpi/world.h"
#include "tests/control/child_process.h"

namespace rdmabroker::ndkpi {
namespace {

constexpr char kShortDisconnect[] = "timeouts.disconnect_ms = 500";
constexpr char kConnectedClient[] = "tests/integration/connected_client";

// Ends the connection from both sides.
void DisconnectBoth(World& w, const Connection& connection) {
  const Call active = w.a().Disconnect(connection.active);
  connection.passive_events.Wait();
  const Call passive = w.b().Disconnect(connection.passive);
  EXPECT_EQ(active.Status(), NdkStatus::kSuccess);
  EXPECT_EQ(passive.Status(), NdkStatus::kSuccess);
}

void PostReceives(QueuePair* qp, size_t count) {
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(qp->Receive(Context(i), {}), NdkStatus::kSuccess);
}

void ExpectCancelled(DataSide& side, size_t count) {
  for (const ResultEx& result : side.Results(count)) EXPECT_EQ(result.status, NdkStatus::kCancelled);
}

// siw_qp_llp_close in drivers/infiniband/sw/siw/siw_qp.c.
std::vector<Lack> AnswersByItself() {
  return {{"siw", "soft iWARP's driver answers a goodbye by itself, before its consumer disconnects"}};
}

// Whether a Disconnect of a, of which b knows, waits for b still. Where the driver answers, it has succeeded.
bool WaitsForThePeer(World& w, const Connection& made, const Call& disconnect) {
  made.passive_events.Wait();
  if (!w.lacks()) {
    w.ExpectPending(disconnect);
    return true;
  }
  EXPECT_EQ(disconnect.Status(), NdkStatus::kSuccess);
  return false;
}

void UntilThePeer(World& w, bool closes) {
  const Connection made = w.Establish();
  const Call disconnect = w.a().Disconnect(made.active);
  if (!WaitsForThePeer(w, made, disconnect)) return;
  closes ? w.b().Close(made.passive) : w.b().Disconnect(made.passive);
  EXPECT_EQ(disconnect.Status(), NdkStatus::kSuccess);
}

void SecondDisconnect(World& w) {
  const Connection made = w.Establish();
  const Call first = w.a().Disconnect(made.active);
  if (!WaitsForThePeer(w, made, first)) {
    EXPECT_EQ(w.a().Disconnect(made.active).Status(), NdkStatus::kConnectionInvalid);
    return;
  }
  EXPECT_EQ(w.a().Disconnect(made.active).Status(), NdkStatus::kInvalidDeviceState);
  w.ExpectPending(first);
  w.b().Disconnect(made.passive);
  EXPECT_EQ(first.Status(), NdkStatus::kSuccess);
}

void NobodyAnswers(World& w) {
  const Connection made = w.Establish();
  EXPECT_EQ(w.a().Disconnect(made.active).Status(), w.lacks() ? NdkStatus::kSuccess : NdkStatus::kIoTimeout);
  EXPECT_EQ(made.active_qp->Send(nullptr, {}, 0), NdkStatus::kConnectionInvalid);
  EXPECT_EQ(w.a().Disconnect(made.active).Status(), NdkStatus::kConnectionInvalid);
}

void AddPending(Cases* cases) {
  cases->push_back({146,
                    "ItIsPendingUntilThePeerDisconnects",
                    [](World& w) { UntilThePeer(w, false); },
                    {},
                    false,
                    AnswersByItself()});
  cases->push_back(
      {146, "ItIsPendingUntilThePeerCloses", [](World& w) { UntilThePeer(w, true); }, {}, false, AnswersByItself()});
  cases->push_back(
      {158, "ASecondWhileTheFirstIsPendingFailsAndDisturbsNothing", SecondDisconnect, {}, false, AnswersByItself()});
  cases->push_back({154, "WithoutAnAnswerItTimesOutAndTheConnectionIsOver", NobodyAnswers, kShortDisconnect, false,
                    AnswersByItself()});
  cases->push_back(
      {157,
       "OfAConnectorThatNeverConnected",
       [](World& w) { EXPECT_EQ(w.a().Disconnect(w.a().NewConnector()).Status(), NdkStatus::kConnectionInvalid); },
       {},
       true});
  cases->push_back({160, "OfBothSidesAtOnce", [](World& w) { w.Disconnect(w.a(), w.b(), w.Establish()); }});
}

void AddEvents(Cases* cases) {
  cases->push_back({147, "ThePeerIsToldOnce", [](World& w) {
                      const Connection made = w.Establish();
                      DisconnectBoth(w, made);
                      w.Settle();
                      EXPECT_EQ(made.passive_events.count(), 1u);
                      EXPECT_EQ(made.active_events.count(), 0u);
                    }});
  cases->push_back({148, "WhoHasDisconnectedIsNotTold", [](World& w) {
                      const Connection made = w.Establish();
                      const Call passive = w.b().Disconnect(made.passive);
                      made.active_events.Wait();
                      EXPECT_EQ(w.a().Disconnect(made.active).Status(), NdkStatus::kSuccess);
                      EXPECT_EQ(passive.Status(), NdkStatus::kSuccess);
                      w.Settle();
                      EXPECT_EQ(made.passive_events.count(), 0u);
                    }});
  cases->push_back({153, "AClosedConnectorIsNotToldAndItsPeerIs", [](World& w) {
                      const Connection made = w.Establish();
                      EXPECT_EQ(w.a().Close(made.active).Status(), NdkStatus::kSuccess);
                      made.passive_events.Wait();
                      w.Settle();
                      EXPECT_EQ(made.active_events.count(), 0u);
                      EXPECT_EQ(made.passive_events.count(), 1u);
                    }});
  cases->push_back({152, "APeerThatIsKilledIsToldOnce", [](World& w) {
                      const TestListener listener = w.a().Listening();
                      ChildProcess peer({kConnectedClient, w.broker().control_socket(), w.on().device, "1",
                                         listener.address.ToString()});
                      const DisconnectEvents events;
                      const auto connector = listener.Next();
                      EXPECT_EQ(w.a().Accept(connector, w.a().NewQueuePair(), {}, events.callback()).Status(),
                                NdkStatus::kSuccess);
                      peer.ReadLine();
                      ASSERT_EQ(peer.ReadLine(), "there");
                      peer.Kill();
                      events.Wait();
                      w.Settle();
                      EXPECT_EQ(events.count(), 1u);
                    }});
  const std::string no_reason = "libibverbs and the kernel's connection manager tell no reason";
  cases->push_back({.assertion = 159,
                    .name = "ABreakHasAReason",
                    .run =
                        [](World& w) {
                          const Connection made = w.Establish();
                          Buffer source(w.a().side().domain, 64, kAllAccess);
                          const Sge sge = source.sge();
                          ASSERT_EQ(made.active_qp->Write(nullptr, {&sge, 1}, {}, 0), NdkStatus::kSuccess);
                          w.a().side().Next();
                          if (w.lacks()) {
                            EXPECT_EQ(made.passive_events.Wait().provider_error, 0u);
                            return;
                          }
                          for (const DisconnectEvents& events : {made.active_events, made.passive_events}) {
                            const client::DisconnectEvent event = events.Wait();
                            EXPECT_EQ(event.status, NdkStatus::kConnectionAborted);
                            EXPECT_NE(event.provider_error, 0u);
                          }
                        },
                    .lacks = {{"rxe", no_reason}, {"siw", no_reason}}});
  cases->push_back({159, "AGoodbyeHasNoReason", [](World& w) {
                      const Connection made = w.Establish();
                      w.a().Disconnect(made.active);
                      const client::DisconnectEvent event = made.passive_events.Wait();
                      EXPECT_EQ(event.status, NdkStatus::kSuccess);
                      EXPECT_EQ(event.provider_error, 0u);
                    }});
}

// The side that establishes first ends the connection at once: as soon as it can, in its own completion.
void EventComesAfter(World& w, bool accept) {
  const Order order;
  const TestListener listener = w.b().Listening();
  const Handshake made = w.Request(w.a(), w.b(), listener);
  // `told` is the side whose completion is to come before its event.
  const auto& told = accept ? made.passive : made.active;
  const auto& ends = accept ? made.active : made.passive;
  const client::DisconnectEventCallback event = [order](const client::DisconnectEvent&) { order.Add("event"); };
  const auto finish = [&](const Call& call, const std::shared_ptr<client::Connector>& connector) {
    return [order, connector, is_told = connector == told, ends,
            done = call.completion()](const client::Outcome& outcome) {
      if (is_told) order.Add("completion");
      if (!is_told) ends->Close({});
      done(outcome);
    };
  };
  const Call accepted = w.calls().Make("Accept", [&](const Call& call) {
    return made.passive->Accept(made.passive_qp, {}, event, finish(call, made.passive));
  });
  EXPECT_EQ(made.connect.Status(), NdkStatus::kSuccess);
  const Call completed = w.calls().Make("CompleteConnect", [&](const Call& call) {
    return made.active->CompleteConnect(event, finish(call, made.active));
  });
  if (w.lacks()) {
    EXPECT_EQ(completed.Status(), NdkStatus::kConnectionAborted);
    w.Settle();
    EXPECT_EQ(order.all(), (std::vector<std::string>{"completion"}));
    return;
  }
  EXPECT_EQ((accept ? accepted : completed).Status(), NdkStatus::kSuccess);
  EXPECT_TRUE(Eventually([&] { return order.all().size() == 2; }));
  EXPECT_EQ(order.all(), (std::vector<std::string>{"completion", "event"}));
}

void AddReceives(Cases* cases) {
  cases->push_back(
      {149,
       "APeersGoodbyeFlushesNothing",
       [](World& w) {
         const Connection made = w.Establish();
         PostReceives(made.passive_qp, 2);
         w.a().Disconnect(made.active);
         made.passive_events.Wait();
         w.Settle();
         if (w.lacks()) return ExpectCancelled(w.b().side(), 2);
         ExpectNoResult(w.b().side());
       },
       {},
       false,
       {{"siw", "soft iWARP's driver cancels the receives of a connection as soon as its peer has gone"}}});
  cases->push_back({150, "TheAnswerToAGoodbyeCancelsWhatIsPosted", [](World& w) {
                      const Connection made = w.Establish();
                      PostReceives(made.passive_qp, 2);
                      DisconnectBoth(w, made);
                      ExpectCancelled(w.b().side(), 2);
                    }});
  cases->push_back({151, "ADisconnectCancelsWhatIsPosted", [](World& w) {
                      const Connection made = w.Establish();
                      PostReceives(made.active_qp, 2);
                      DisconnectBoth(w, made);
                      ExpectCancelled(w.a().side(), 2);
                    }});
  cases->push_back({151, "WhatIsPostedHasEndedWhenTheDisconnectEnds", [](World& w) {
                      constexpr size_t kReceives = 2;
                      const Connection made = w.Establish();
                      PostReceives(made.active_qp, kReceives);
                      ResultEx results[kReceives];
                      size_t ended = 0;
                      const Call active = w.calls().Make("Disconnect", [&](const Call& call) {
                        return made.active->Disconnect([&, done = call.completion()](const client::Outcome& outcome) {
                          ended = w.a().side().cq->GetResultsEx(results);
                          done(outcome);
                        });
                      });
                      made.passive_events.Wait();
                      w.b().Disconnect(made.passive);
                      EXPECT_EQ(active.Status(), NdkStatus::kSuccess);
                      ASSERT_EQ(ended, kReceives);
                      for (const ResultEx& result : results) EXPECT_EQ(result.status, NdkStatus::kCancelled);
                    }});
  for (const bool closes : {false, true}) {
    cases->push_back({162, std::string("AReceiveEndsAtTheLatestWithTheLocal") + (closes ? "Close" : "Disconnect"),
                      [closes](World& w) {
                        const Connection made = w.Establish();
                        PostReceives(made.passive_qp, 1);
                        w.a().Close(made.active);
                        made.passive_events.Wait();
                        closes ? w.b().Close(made.passive) : w.b().Disconnect(made.passive);
                        ExpectCancelled(w.b().side(), 1);
                      }});
  }
}

void AddRequests(Cases* cases) {
  cases->push_back(
      {155, "WhenItEndsNoRequestTouchesMemoryAnyMore", [](World& w) {
         constexpr size_t kWrites = 8;
         const Connection made = w.Establish();
         DataSide& a = w.a().side();
         Buffer source(a.domain, 65536, kAllAccess, 7), target(w.b().side().domain, 65536, kAllAccess);
         const Sge sge = source.sge();
         for (size_t i = 0; i < kWrites; ++i) {
           for (const OpFlags flags : {OpFlags{0}, kOpSilentSuccess}) {
             ASSERT_EQ(made.active_qp->Write(Context(i), {&sge, 1}, target.remote(), flags), NdkStatus::kSuccess);
           }
         }
         DisconnectBoth(w, made);
         // Without waiting.
         ResultEx results[2 * kWrites];
         const size_t ended = a.cq->GetResultsEx(results);
         EXPECT_GE(ended, kWrites);
         // A data path that says goodbye by itself does so behind what was posted; a device's driver cancels that.
         if (w.a().adapter()->client_ends_connections()) {
           EXPECT_EQ(ended, kWrites);
           for (size_t i = 0; i < ended; ++i) EXPECT_EQ(results[i].status, NdkStatus::kSuccess);
           EXPECT_EQ(target.bytes(), source.bytes());
         }
         EXPECT_EQ(source.region()->Deregister(), NdkStatus::kSuccess);
       }});
  cases->push_back({156, "TheConnectorCannotConnectAgain", [](World& w) {
                      const TestListener listener = w.b().Listening();
                      const Connection made = w.Establish(w.a(), w.b(), listener);
                      DisconnectBoth(w, made);
                      const Call again = w.a().Connect(made.active, w.a().NewQueuePair(), listener.address);
                      EXPECT_FALSE(IsSuccess(again.Status()));
                      EXPECT_EQ(listener.delivered(), 1u);
                    }});
  cases->push_back({156, "TheQueuePairCannotBeConnectedAgain", [](World& w) {
                      const TestListener listener = w.b().Listening();
                      const Connection made = w.Establish(w.a(), w.b(), listener);
                      DisconnectBoth(w, made);
                      const Call again = w.a().Connect(w.a().NewConnector(), made.active_qp, listener.address);
                      EXPECT_FALSE(IsSuccess(again.Status()));
                      EXPECT_EQ(listener.delivered(), 1u);
                    }});
}

}  // namespace

Cases DisconnectCases() {
  Cases cases;
  AddPending(&cases);
  AddEvents(&cases);
  AddReceives(&cases);
  AddRequests(&cases);
  cases.push_back({161, "NoEventComesBeforeAcceptsCompletion", [](World& w) { EventComesAfter(w, true); }});
  cases.push_back({161,
                   "NoEventComesBeforeCompleteConnectsCompletion",
                   [](World& w) { EventComesAfter(w, false); },
                   {},
                   false,
                   {{"siw",
                     "without a third message the acceptor may end the connection before CompleteConnect, which"
                     " then fails with CONNECTION_ABORTED; no event comes"}}});
  return cases;
}

}  // namespace rdmabroker::ndkpi
