// SPDX-License-Identifier: Apache-2.0

// What completion queues tell of, when, and what results say.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/ndkpi/data_link.h"

namespace rdmabroker::ndkpi {
namespace {

constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();

// Exactly so many by now, where nothing that would bring about another is under way.
void ExpectNotifications(DataSide& side, int count) {
  EXPECT_TRUE(Eventually([&] { return side.notifications >= count; }));
  AwaitCallbacks(side);
  EXPECT_EQ(side.notifications, count);
}

// What can come to b's queue.
struct Arrival {
  std::string name;
  void (*make)(const DataLink& link);
};

const Arrival kReceive = {"AReceive", [](const DataLink& link) {
                            link.PostReceivesAtB(1);
                            link.SendToB();
                            link.Settle();
                          }};
const Arrival kSolicitedReceive = {"ASolicitedReceive", [](const DataLink& link) {
                                     link.PostReceivesAtB(1);
                                     link.SendToB(kOpSendAndSolicitEvent);
                                     link.Settle();
                                   }};
const Arrival kFailure = {"ACancelledRequest", [](const DataLink& link) {
                            link.PostReceivesAtB(1);
                            link.at_b->Flush();
                          }};
// Taken out, so that it has come for sure.
const Arrival kOwnRequest = {"AnInitiatorsRequest", [](const DataLink& link) {
                               ASSERT_EQ(link.at_b->Write(nullptr, {}, {}, 0), NdkStatus::kSuccess);
                               EXPECT_EQ(link.b.Next().type, OperationType::kWrite);
                             }};

void ExpectAfter(World& w, CqNotify armed, const Arrival& arrival, int notifications) {
  const DataLink link(w);
  link.b.cq->Arm(armed);
  arrival.make(link);
  ExpectNotifications(link.b, notifications);
}

void AddUnarmed(Cases* cases) {
  for (const Arrival* const arrival : {&kReceive, &kSolicitedReceive, &kOwnRequest, &kFailure}) {
    cases->push_back({164, "NothingTellsAnUnarmedQueueOf" + arrival->name, [arrival](World& w) {
                        const DataLink link(w);
                        arrival->make(link);
                        ExpectNotifications(link.b, 0);
                      }});
  }
  cases->push_back({165, "OneArmAndTwoCompletions", [](World& w) {
                      const DataLink link(w);
                      link.PostReceivesAtB(2);
                      link.b.cq->Arm(CqNotify::kAny);
                      link.SendToB();
                      link.SendToB();
                      link.Settle();
                      ExpectNotifications(link.b, 1);
                      link.b.Results(2);
                    }});
}

void RaceArmsWithCompletions(World& w) {
  constexpr int kRounds = 50;
  const DataLink link(w);
  for (int round = 1; round <= kRounds; ++round) {
    link.PostReceivesAtB(1);
    std::thread sender([&] { link.SendToB(); });
    ResultEx result;
    const bool taken = link.b.cq->GetResultsEx({&result, 1}) == 1;
    link.b.cq->Arm(CqNotify::kAny);
    sender.join();
    // What was taken out before the arm is not what satisfies it.
    if (taken) {
      ExpectNotifications(link.b, 0);
      link.PostReceivesAtB(1);
      link.SendToB();
    }
    EXPECT_TRUE(Eventually([&] { return link.b.notifications == 1; })) << "in round " << round;
    link.b.Next();
    link.b.notifications = 0;
  }
}

void AddArms(Cases* cases) {
  cases->push_back({166, "WhatCameUnreportedIsToldAtOnce", [](World& w) {
                      const DataLink link(w);
                      kReceive.make(link);
                      link.b.cq->Arm(CqNotify::kAny);
                      ExpectNotifications(link.b, 1);
                    }});
  cases->push_back({166, "WhatCameSolicitedAndUnreportedIsToldAtOnce", [](World& w) {
                      const DataLink link(w);
                      kSolicitedReceive.make(link);
                      link.b.cq->Arm(CqNotify::kSolicited);
                      ExpectNotifications(link.b, 1);
                    }});
  cases->push_back({166, "WhatWasTakenOutUnreportedIsNotTold", [](World& w) {
                      const DataLink link(w);
                      kReceive.make(link);
                      EXPECT_EQ(link.b.Next().status, NdkStatus::kSuccess);
                      link.b.cq->Arm(CqNotify::kAny);
                      ExpectNotifications(link.b, 0);
                      kReceive.make(link);
                      ExpectNotifications(link.b, 1);
                    }});
  cases->push_back({167, "BetweenTheLastResultAndTheArm", [](World& w) {
                      const DataLink link(w);
                      ExpectNoResult(link.b);
                      kReceive.make(link);
                      link.b.cq->Arm(CqNotify::kAny);
                      ExpectNotifications(link.b, 1);
                      EXPECT_EQ(link.b.Next().status, NdkStatus::kSuccess);
                    }});
  cases->push_back({167, "AtTheMomentOfTheArm", RaceArmsWithCompletions});
  const std::vector<Lack> tells_of_all = {
      {"siw", "the driver does not tell which receives are solicited: each counts"}};
  cases->push_back({.assertion = 169,
                    .name = "A_AnUnsolicitedSendDoesNotFireSolicited",
                    .run = [](World& w) { ExpectAfter(w, CqNotify::kSolicited, kReceive, w.lacks() ? 1 : 0); },
                    .lacks = tells_of_all});
  cases->push_back({169, "B_ASolicitedSendFiresSolicited",
                    [](World& w) { ExpectAfter(w, CqNotify::kSolicited, kSolicitedReceive, 1); }});
  cases->push_back(
      {169, "C_AnErrorCompletionFiresSolicited", [](World& w) { ExpectAfter(w, CqNotify::kSolicited, kFailure, 1); }});
  for (const Arrival* const arrival : {&kReceive, &kSolicitedReceive, &kOwnRequest}) {
    cases->push_back({170, arrival->name + "DoesNotFireErrors",
                      [arrival](World& w) { ExpectAfter(w, CqNotify::kErrors, *arrival, 0); }});
  }
  for (const Arrival* const arrival : {&kSolicitedReceive, &kFailure}) {
    cases->push_back(
        {171, arrival->name + "FiresAny", [arrival](World& w) { ExpectAfter(w, CqNotify::kAny, *arrival, 1); }});
  }
}

struct Merge {
  std::string name;
  CqNotify first;
  CqNotify second;
  CqNotify merged;
};

const std::array<Merge, 9> kMerges = {
    {{"AnyAndAny", CqNotify::kAny, CqNotify::kAny, CqNotify::kAny},
     {"AnyAndErrors", CqNotify::kAny, CqNotify::kErrors, CqNotify::kAny},
     {"AnyAndSolicited", CqNotify::kAny, CqNotify::kSolicited, CqNotify::kAny},
     {"ErrorsAndAny", CqNotify::kErrors, CqNotify::kAny, CqNotify::kAny},
     {"ErrorsAndErrors", CqNotify::kErrors, CqNotify::kErrors, CqNotify::kErrors},
     {"ErrorsAndSolicited", CqNotify::kErrors, CqNotify::kSolicited, CqNotify::kSolicited},
     {"SolicitedAndAny", CqNotify::kSolicited, CqNotify::kAny, CqNotify::kAny},
     {"SolicitedAndErrors", CqNotify::kSolicited, CqNotify::kErrors, CqNotify::kSolicited},
     {"SolicitedAndSolicited", CqNotify::kSolicited, CqNotify::kSolicited, CqNotify::kSolicited}}};

// An initiator's request tells ANY from the others, a solicited receive ERRORS.
void ExpectMerged(World& w, const Merge& merge) {
  const DataLink link(w);
  link.b.cq->Arm(merge.first);
  link.b.cq->Arm(merge.second);
  kOwnRequest.make(link);
  ExpectNotifications(link.b, merge.merged == CqNotify::kAny ? 1 : 0);
  kSolicitedReceive.make(link);
  ExpectNotifications(link.b, merge.merged == CqNotify::kErrors ? 0 : 1);
}

// The notification of a queue of b, which lasts until it is told to return.
struct SlowNotification {
  std::atomic<int> running = 0;
  std::atomic<int> begun = 0;
  std::atomic<bool> overlapped = false;
  std::atomic<bool> may_return = false;

  void Run() {
    if (running++ > 0) overlapped = true;
    ++begun;
    EXPECT_TRUE(Eventually([this] { return may_return.load(); }));
    --running;
  }
};

void ExpectNoOverlap(World& w) {
  const auto slow = std::make_shared<SlowNotification>();
  CompletionQueue* const queue = w.b().NewCompletionQueue(16, [slow](NdkStatus) { slow->Run(); });
  const DataLink link(w, w.a().NewQueuePair(),
                      w.b().NewQueuePair({.receive_cq = queue, .initiator_cq = queue, .receive_queue_depth = 4}));
  link.PostReceivesAtB(2);
  queue->Arm(CqNotify::kAny);
  link.SendToB();
  EXPECT_TRUE(Eventually([&] { return slow->begun == 1; }));
  ResultsOf(queue, 1);
  queue->Arm(CqNotify::kAny);
  link.SendToB();
  ResultsOf(queue, 1);
  EXPECT_EQ(slow->begun, 1) << "the first has not returned";
  slow->may_return = true;
  EXPECT_TRUE(Eventually([&] { return slow->begun == 2; })) << "it was due";
  AwaitCallbacks(link.b);
  EXPECT_EQ(slow->begun, 2);
  EXPECT_FALSE(slow->overlapped);
}

// Adapters may make queues deeper than they are asked to.
constexpr uint32_t kOverrun = 300;

struct Notices {
  std::atomic<int> count = 0;
  std::atomic<NdkStatus> last = NdkStatus::kSuccess;
};

void Overrun(World& w) {
  const auto notices = std::make_shared<Notices>();
  CompletionQueue* const small = w.b().NewCompletionQueue(3, [notices](NdkStatus status) {
    notices->last = status;
    ++notices->count;
  });
  const QueuePairAttributes attributes = {
      .receive_cq = small, .initiator_cq = small, .receive_queue_depth = kOverrun, .initiator_queue_depth = 4};
  const DataLink link(w, w.a().NewQueuePair({.initiator_queue_depth = kOverrun}), w.b().NewQueuePair(attributes));
  const DataLink idle(w, w.a().NewQueuePair({.context = Context(7), .receive_queue_depth = 1}),
                      w.b().NewQueuePair(attributes));
  link.PostReceivesAtB(kOverrun);
  // Two arms for errors are one, which is there still.
  for (int i = 0; i < 2; ++i) small->Arm(CqNotify::kErrors);
  for (uint32_t i = 0; i < kOverrun && link.at_a->Send(nullptr, {}, 0) == NdkStatus::kSuccess; ++i) {
  }
  EXPECT_TRUE(Eventually([&] { return notices->count == 1; }));
  EXPECT_EQ(notices->last, NdkStatus::kBufferOverflow);
  ExpectEnded(link.connection.passive_events);
  ExpectEnded(idle.connection.passive_events);
  // Nothing that it sends arrives any more.
  ASSERT_EQ(idle.at_a->Receive(Context(1), {}), NdkStatus::kSuccess);
  idle.at_b->Send(nullptr, {}, 0);
  idle.at_a->Flush();
  ResultEx result;
  EXPECT_TRUE(Eventually([&] {
    return idle.a.cq->GetResultsEx({&result, 1}) == 1 && result.qp_context == Context(7);
  }));
  EXPECT_EQ(result.request_context, Context(1));
  EXPECT_EQ(result.status, NdkStatus::kCancelled);
  EXPECT_EQ(notices->count, 1);
}

void AddLimits(Cases* cases) {
  cases->push_back({163, "ADepthBeyondTheMaximum", [](World& w) {
                      Adapter* const adapter = w.a().side().adapter;
                      EXPECT_EQ(adapter->CreateCompletionQueue(adapter->info().max_cq_depth + 1, {}).status,
                                NdkStatus::kInvalidParameter);
                    }});
  cases->push_back({175, "A_ADepthBeyondTheMaximum", [](World& w) {
                      DataSide& side = w.a().side();
                      EXPECT_EQ(side.cq->Resize(side.adapter->info().max_cq_depth + 1), NdkStatus::kInvalidParameter);
                    }});
  cases->push_back({.assertion = 175,
                    .name = "B_AResizeLosesNothing",
                    .run =
                        [](World& w) {
                          const DataLink link(w);
                          link.PostReceivesAtB(8);
                          for (int i = 0; i < 5; ++i) link.SendToB();
                          link.Settle();
                          const bool offered = (link.b.adapter->info().adapter_flags & kCqResizeSupported) != 0;
                          EXPECT_EQ(offered, !w.lacks());
                          const NdkStatus expected = w.lacks() ? NdkStatus::kNotSupported : NdkStatus::kSuccess;
                          EXPECT_EQ(link.b.cq->Resize(5), expected);
                          // The oldest are in the middle of the queue when it is resized again.
                          auto results = link.b.Results(2);
                          for (int i = 0; i < 2; ++i) link.SendToB();
                          link.Settle();
                          EXPECT_EQ(link.b.cq->Resize(2000), expected);
                          link.SendToB();
                          const auto rest = link.b.Results(6);
                          results.insert(results.end(), rest.begin(), rest.end());
                          for (uintptr_t i = 0; i < 8; ++i) EXPECT_EQ(results[i].request_context, Context(i));
                        },
                    .lacks = {{"siw", "the driver cannot resize: NOT_SUPPORTED"}}});
}

// Values that a moderated queue could take.
constexpr std::array<std::array<uint32_t, 2>, 4> kModerations = {{{0, 0}, {10, 10}, {kMost, 1}, {10, kMost}}};

void AddModeration(Cases* cases) {
  cases->push_back({.assertion = 176,
                    .name = "A_WithoutTheFlag",
                    .run =
                        [](World& w) {
                          DataSide& side = w.a().side();
                          const bool offered =
                              (side.adapter->info().adapter_flags & kCqInterruptModerationSupported) != 0;
                          EXPECT_EQ(offered, w.lacks());
                          for (const auto& [interval, count] : kModerations) {
                            EXPECT_EQ(side.cq->ControlInterruptModeration(interval, count),
                                      offered ? NdkStatus::kSuccess : NdkStatus::kNotSupported);
                          }
                        },
                    .lacks = {{"fake", "interrupt moderation is offered: SUCCESS"},
                              {"iwarp", "interrupt moderation is offered: SUCCESS"}}});
  const std::string none = "no interrupt moderation; what it is asked for is checked all the same";
  cases->push_back({.assertion = 176,
                    .name = "B_BothAtTheirMaximum",
                    .run =
                        [](World& w) {
                          DataSide& side = w.a().side();
                          const uint32_t flags = side.adapter->info().adapter_flags;
                          EXPECT_EQ((flags & kCqInterruptModerationSupported) == 0, w.lacks());
                          EXPECT_EQ(side.cq->ControlInterruptModeration(kMost, kMost), NdkStatus::kInvalidParameterMix);
                        },
                    .lacks = {{"rxe", none}, {"siw", none}}});
  cases->push_back({176, "C_NeverPending", [](World& w) {
                      CompletionQueue* const queue = w.a().side().cq;
                      for (const auto& [interval, count] : kModerations) {
                        EXPECT_NE(queue->ControlInterruptModeration(interval, count), NdkStatus::kPending);
                      }
                      EXPECT_NE(queue->ControlInterruptModeration(kMost, kMost), NdkStatus::kPending);
                    }});
}

size_t Take(CompletionQueue* queue, std::span<Result> results) { return queue->GetResults(results); }
size_t Take(CompletionQueue* queue, std::span<ResultEx> results) { return queue->GetResultsEx(results); }

template <typename AnyResult>
void ExpectAtMost(World& w) {
  DataSide& side = w.a().side();
  QueuePair* const qp = w.a().NewQueuePair();
  for (uintptr_t i = 0; i < 5; ++i) ASSERT_EQ(qp->Receive(Context(i), {}), NdkStatus::kSuccess);
  std::array<AnyResult, 8> results;
  EXPECT_EQ(Take(side.cq, std::span(results)), 0u);
  side.cq->Arm(CqNotify::kAny);
  qp->Flush();
  ExpectNotifications(side, 1);
  EXPECT_EQ(Take(side.cq, std::span(results).first(0)), 0u);
  EXPECT_EQ(Take(side.cq, std::span(results).first(2)), 2u);
  EXPECT_EQ(results[2].request_context, nullptr) << "more than asked for";
  EXPECT_EQ(Take(side.cq, std::span(results).first(2)), 2u);
  EXPECT_EQ(Take(side.cq, std::span(results)), 1u);
  EXPECT_EQ(results[0].request_context, Context(4));
  EXPECT_EQ(Take(side.cq, std::span(results)), 0u);
}

// Both ends of a connection, and what requests of all kinds need.
struct Traffic {
  explicit Traffic(World& w)
      : link(w, Context(0xA), Context(0xB)),
        at_a(link.a.domain, 64, kAllAccess | kMrRdmaReadSink),
        at_b(link.b.domain, 64, kAllAccess) {}

  // What the case's own request got, after those that it needed.
  ResultEx Last(size_t results) { return link.a.Results(results).back(); }

  DataLink link;
  Buffer at_a;
  Buffer at_b;
};

// A request of a that succeeds.
struct Operation {
  std::string name;
  OperationType type;
  ResultEx (*carry_out)(Traffic& t, void* context);
  const std::vector<Lack>* lacks = nullptr;
  void (*expect_lack)(World& w) = nullptr;
};

ResultEx CarryOutReceive(Traffic& t, void* context) {
  const Sge to = t.at_a.sge(), from = t.at_b.sge(0, 5);
  EXPECT_EQ(t.link.at_a->Receive(context, {&to, 1}), NdkStatus::kSuccess);
  EXPECT_EQ(t.link.at_b->Send(nullptr, {&from, 1}, 0), NdkStatus::kSuccess);
  return t.link.a.Next();
}

ResultEx CarryOutSend(Traffic& t, void* context) {
  const Sge to = t.at_b.sge(), from = t.at_a.sge();
  EXPECT_EQ(t.link.at_b->Receive(nullptr, {&to, 1}), NdkStatus::kSuccess);
  EXPECT_EQ(t.link.at_a->Send(context, {&from, 1}, 0), NdkStatus::kSuccess);
  return t.link.a.Next();
}

ResultEx CarryOutRead(Traffic& t, void* context) {
  const Sge to = t.at_a.sge();
  EXPECT_EQ(t.link.at_a->Read(context, {&to, 1}, t.at_b.remote(), 0), NdkStatus::kSuccess);
  return t.link.a.Next();
}

ResultEx CarryOutWrite(Traffic& t, void* context) {
  const Sge from = t.at_a.sge();
  EXPECT_EQ(t.link.at_a->Write(context, {&from, 1}, t.at_b.remote(), 0), NdkStatus::kSuccess);
  return t.link.a.Next();
}

NdkStatus Bind(Traffic& t, const Window& window, void* context) {
  return t.link.at_a->Bind(context, t.at_a.region(), window.get(), t.at_a.bytes().data(), 64, kOpAllowRemoteRead);
}

ResultEx CarryOutBind(Traffic& t, void* context) {
  const Window window(t.link.a);
  EXPECT_EQ(Bind(t, window, context), NdkStatus::kSuccess);
  return t.link.a.Next();
}

ResultEx CarryOutInvalidate(Traffic& t, void* context) {
  const Window window(t.link.a);
  EXPECT_EQ(Bind(t, window, nullptr), NdkStatus::kSuccess);
  EXPECT_EQ(t.link.at_a->Invalidate(context, window.get(), 0), NdkStatus::kSuccess);
  return t.Last(2);
}

ResultEx CarryOutFastRegister(Traffic& t, void* context) {
  FastRegion fast(t.link.a, true);
  EXPECT_EQ(fast.PostTo(t.link.at_a, context, kOpAllowRemoteRead), NdkStatus::kSuccess);
  return t.link.a.Next();
}

ResultEx CarryOutInvalidateRegion(Traffic& t, void* context) {
  FastRegion fast(t.link.a, true);
  EXPECT_EQ(fast.PostTo(t.link.at_a, nullptr, kOpAllowRemoteRead), NdkStatus::kSuccess);
  EXPECT_EQ(t.link.at_a->Invalidate(context, fast.region(), 0), NdkStatus::kSuccess);
  return t.Last(2);
}

// The window's token, by the peer.
ResultEx CarryOutReceiveAndInvalidate(Traffic& t, void* context) {
  const Window window(t.link.a);
  EXPECT_EQ(Bind(t, window, nullptr), NdkStatus::kSuccess);
  t.link.a.Next();
  EXPECT_EQ(t.link.at_a->Receive(context, {}), NdkStatus::kSuccess);
  EXPECT_EQ(t.link.at_b->SendAndInvalidate(nullptr, {}, 0, window.get()->remote_token()), NdkStatus::kSuccess);
  return t.link.a.Next();
}

const std::array<Operation, 9> kOperations = {
    {{"Receive", OperationType::kReceive, CarryOutReceive},
     {"Send", OperationType::kSend, CarryOutSend},
     {"Read", OperationType::kRead, CarryOutRead},
     {"Write", OperationType::kWrite, CarryOutWrite},
     {"Bind", OperationType::kBind, CarryOutBind, &kNoWindows, ExpectNoWindows},
     {"Invalidate", OperationType::kInvalidate, CarryOutInvalidate, &kNoWindows, ExpectNoWindows},
     {"ReceiveAndInvalidate", OperationType::kReceiveAndInvalidate, CarryOutReceiveAndInvalidate, &kNoWindows,
      ExpectNoWindows},
     {"FastRegister", OperationType::kFastRegister, CarryOutFastRegister, &kNoFastRegister, ExpectNoFastRegister},
     {"InvalidateOfARegion", OperationType::kInvalidate, CarryOutInvalidateRegion, &kNoFastRegister,
      ExpectNoFastRegister}}};

void ExpectContexts(World& w, const Operation& operation) {
  if (w.lacks()) return operation.expect_lack(w);
  Traffic t(w);
  int here = 0;
  for (void* const context :
       {Context(0), Context(1), Context(std::numeric_limits<uintptr_t>::max()), static_cast<void*>(&here)}) {
    const ResultEx result = operation.carry_out(t, context);
    EXPECT_EQ(result.type, operation.type);
    EXPECT_EQ(result.status, NdkStatus::kSuccess);
    EXPECT_EQ(result.request_context, context);
    EXPECT_EQ(result.qp_context, Context(0xA));
  }
}

void ExpectNoProviderError(World& w, const Operation& operation) {
  if (w.lacks()) return operation.expect_lack(w);
  Traffic t(w);
  const ResultEx result = operation.carry_out(t, nullptr);
  EXPECT_EQ(result.type, operation.type);
  EXPECT_EQ(result.status, NdkStatus::kSuccess);
  EXPECT_EQ(result.provider_error, 0u);
}

void ExpectLength(World& w, uint32_t length) {
  const DataLink link(w);
  Buffer from(link.a.domain, 100'001, kMrAllowLocalRead);
  Buffer to(link.b.domain, 100'001, kMrAllowLocalWrite);
  const Sge in = to.sge(), out = from.sge(0, length);
  ASSERT_EQ(link.at_b->Receive(nullptr, {&in, 1}), NdkStatus::kSuccess);
  ASSERT_EQ(link.at_a->Send(nullptr, {&out, 1}, kOpSilentSuccess), NdkStatus::kSuccess);
  const ResultEx received = link.b.Next();
  EXPECT_EQ(received.status, NdkStatus::kSuccess);
  EXPECT_EQ(received.bytes_transferred, length);
}

void AddResults(Cases* cases) {
  for (const Operation& operation : kOperations) {
    const std::vector<Lack> lacks = operation.lacks == nullptr ? std::vector<Lack>() : *operation.lacks;
    cases->push_back({.assertion = 177,
                      .name = "ContextsOf" + operation.name,
                      .run = [&operation](World& w) { ExpectContexts(w, operation); },
                      .lacks = lacks});
    cases->push_back({.assertion = 179,
                      .name = "NoProviderErrorOf" + operation.name,
                      .run = [&operation](World& w) { ExpectNoProviderError(w, operation); },
                      .lacks = lacks});
  }
  cases->push_back({177, "ContextsOfCancelledRequests", [](World& w) {
                      QueuePair* const qp = w.a().NewQueuePair(Context(5));
                      for (const uintptr_t i : {0u, 1u, 2u}) {
                        ASSERT_EQ(qp->Receive(Context(i), {}), NdkStatus::kSuccess);
                      }
                      qp->Flush();
                      const auto results = w.a().side().Results(3);
                      for (uintptr_t i = 0; i < 3; ++i) {
                        EXPECT_EQ(results[i].qp_context, Context(5));
                        EXPECT_EQ(results[i].request_context, Context(i));
                      }
                    }});
  for (const uint32_t length : {0u, 1u, 1000u, 65'536u, 100'001u}) {
    cases->push_back(
        {178, "AReceiveOf" + std::to_string(length) + "Bytes", [length](World& w) { ExpectLength(w, length); }});
  }
}

// b's token is invalidated by a's send, for which b has a receive of its own or of a shared queue.
void Invalidate(const DataLink& link, const RemoteMemory& remote, SharedReceiveQueue* srq = nullptr) {
  ASSERT_EQ(link.b.Next().status, NdkStatus::kSuccess);
  ASSERT_EQ(srq != nullptr ? srq->Receive(nullptr, {}) : link.at_b->Receive(nullptr, {}), NdkStatus::kSuccess);
  ASSERT_EQ(link.at_a->SendAndInvalidate(nullptr, {}, kOpSilentSuccess, remote.token), NdkStatus::kSuccess);
}

void ExpectInvalidated(DataSide& side, RemoteToken token) {
  const ResultEx received = side.Next();
  EXPECT_EQ(received.status, NdkStatus::kSuccess);
  EXPECT_EQ(received.type, OperationType::kReceiveAndInvalidate);
  EXPECT_EQ(received.invalidated_token, token);
}

void ExpectPlainResult(DataSide& side) {
  Result received;
  EXPECT_TRUE(Eventually([&] { return side.cq->GetResults({&received, 1}) == 1; }));
  EXPECT_EQ(received.status, NdkStatus::kSuccess);
  EXPECT_EQ(received.request_context, Context(0));
}

// How the result of a receive that invalidates a window is taken out, and of what queue the receive was.
struct Invalidation {
  std::string name;
  bool plain;
  bool shared;
};

const std::array<Invalidation, 4> kInvalidations = {{{"AWindowsToken", false, false},
                                                     {"AWindowsTokenByThePlainForm", true, false},
                                                     {"AWindowsTokenOfASharedReceive", false, true},
                                                     {"AWindowsTokenOfASharedReceiveByThePlainForm", true, true}}};

void InvalidateWindow(World& w, const Invalidation& how) {
  if (w.lacks()) return ExpectNoWindows(w);
  SharedReceiveQueue* const srq =
      how.shared ? w.b().NewSharedReceiveQueue({.depth = 4, .max_receive_request_sge = 1}) : nullptr;
  const DataLink link(w, w.a().NewQueuePair(),
                      w.b().NewQueuePair({.srq = srq, .receive_queue_depth = 4, .initiator_queue_depth = 4}));
  Buffer shared(link.b.domain, 64, kAllAccess);
  const Window window(link.b);
  void* const at = shared.bytes().data();
  ASSERT_EQ(link.at_b->Bind(nullptr, shared.region(), window.get(), at, 64, kOpAllowRemoteRead), NdkStatus::kSuccess);
  const RemoteMemory remote = window.remote(shared);
  Invalidate(link, remote, srq);
  if (!how.plain) return ExpectInvalidated(link.b, remote.token);
  ExpectPlainResult(link.b);
  // What this side takes for bound it would invalidate once more, which Soft-RoCE's driver does not survive.
  ASSERT_EQ(shared.region()->Deregister(), NdkStatus::kSuccess) << "the window counts as bound";
  NdkStatus again = link.at_b->Invalidate(nullptr, window.get(), 0);
  if (again == NdkStatus::kSuccess) again = link.b.Next().status;
  EXPECT_EQ(again, NdkStatus::kInvalidDeviceRequest) << "the token is invalid, though nobody was told so";
}

void AddInvalidations(Cases* cases) {
  for (const Invalidation& how : kInvalidations) {
    cases->push_back({.assertion = 180,
                      .name = how.name,
                      .run = [&how](World& w) { InvalidateWindow(w, how); },
                      .lacks = kNoWindows});
  }
  cases->push_back({.assertion = 180,
                    .name = "AFastRegisteredRegionsToken",
                    .run =
                        [](World& w) {
                          if (w.lacks()) return ExpectNoFastRegister(w);
                          const DataLink link(w);
                          FastRegion fast(link.b, true);
                          ASSERT_EQ(fast.PostTo(link.at_b, nullptr, kOpAllowRemoteRead), NdkStatus::kSuccess);
                          Invalidate(link, fast.remote());
                          ExpectInvalidated(link.b, fast.remote().token);
                        },
                    .lacks = kNoFastRegister});
}

void ExpectInitiatorsOrder(World& w) {
  constexpr uintptr_t kRequests = 30;
  Traffic t(w);
  t.link.PostReceivesAtB(kRequests);
  const Sge here = t.at_a.sge();
  const std::span<const Sge> sges(&here, 1);
  for (uintptr_t i = 0; i < kRequests; ++i) {
    const NdkStatus posted = i % 3 == 0   ? t.link.at_a->Read(Context(i), sges, t.at_b.remote(), 0)
                             : i % 3 == 1 ? t.link.at_a->Write(Context(i), sges, t.at_b.remote(), 0)
                                          : t.link.at_a->Send(Context(i), {}, 0);
    ASSERT_EQ(posted, NdkStatus::kSuccess);
  }
  const auto results = t.link.a.Results(kRequests);
  for (uintptr_t i = 0; i < kRequests; ++i) EXPECT_EQ(results[i].request_context, Context(i));
}

void FlushOneOfTwo(World& w) {
  const DataLink one(w, nullptr, Context(1));
  const DataLink other(w, nullptr, Context(2));
  one.PostReceivesAtB(2);
  other.PostReceivesAtB(2);
  other.at_b->Flush();
  for (const ResultEx& result : other.b.Results(2)) {
    EXPECT_EQ(result.qp_context, Context(2));
    EXPECT_EQ(result.status, NdkStatus::kCancelled);
  }
  ExpectNoResult(one.b);
  one.SendToB();
  one.SendToB();
  for (const ResultEx& result : one.b.Results(2)) {
    EXPECT_EQ(result.qp_context, Context(1));
    EXPECT_EQ(result.status, NdkStatus::kSuccess);
  }
}

}  // namespace

Cases CompletionQueueCases() {
  Cases cases;
  AddLimits(&cases);
  AddUnarmed(&cases);
  AddArms(&cases);
  for (const Merge& merge : kMerges) {
    cases.push_back({168, merge.name, [&merge](World& w) { ExpectMerged(w, merge); }});
  }
  cases.push_back({172, "TheSecondWaitsForTheFirst", ExpectNoOverlap});
  cases.push_back({173, "AnOverrunEndsEveryQueuePairOfTheQueue", Overrun});
  cases.push_back({174, "AtMostSoManyPlainResults", ExpectAtMost<Result>});
  cases.push_back({174, "AtMostSoManyExtendedResults", ExpectAtMost<ResultEx>});
  AddModeration(&cases);
  AddResults(&cases);
  AddInvalidations(&cases);
  cases.push_back({181, "OfInitiatorRequests", ExpectInitiatorsOrder});
  cases.push_back({181, "OfReceives", [](World& w) {
                     const DataLink link(w);
                     link.PostReceivesAtB(30);
                     for (int i = 0; i < 30; ++i) link.SendToB();
                     const auto results = link.b.Results(30);
                     for (uintptr_t i = 0; i < 30; ++i) EXPECT_EQ(results[i].request_context, Context(i));
                   }});
  cases.push_back({182, "FlushingOneLeavesTheOtherAlone", FlushOneOfTwo});
  return cases;
}

}  // namespace rdmabroker::ndkpi
