// SPDX-License-Identifier: Apache-2.0

// What closes wait for, and what comes before and after them.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "client/blocking.h"
#include "tests/conformance/ndkpi/data_link.h"
#include "tests/conformance/ndkpi/order.h"
#include "tests/conformance/ndkpi/world.h"
#include "tests/control/child_process.h"
#include "tests/control/patience.h"
#include "tests/integration/running_broker.h"

namespace rdmabroker::ndkpi {
namespace {

const std::vector<Lack> kAnswersGoodbyes = {
    {"siw", "the driver answers a goodbye for its consumer: Disconnect may succeed before the close cancels it"}};

// An object of either kind. A queue pair is none that Party::NewQueuePair has made.
using Closable = std::variant<std::shared_ptr<client::BrokerObject>, DataObject*>;

Call CloseWith(World& w, const Closable& object, const std::function<void()>& first) {
  return w.calls().Make("Close", [&](const Call& c) {
    const auto completion = [first, done = c.close_completion()] {
      if (first) first();
      done();
    };
    return std::visit([&](const auto& one) { return one->Close(completion); }, object);
  });
}

Call Close(World& w, const Closable& object) { return CloseWith(w, object, {}); }

// Its completion is held up.
Call CloseHeld(World& w, const Closable& object, const HeldCallback& held) {
  return CloseWith(w, object, [held] { held.Run(); });
}

// Its completion must not come before the callback has returned.
Call CloseBehind(World& w, const Closable& object, const HeldCallback& held) {
  Call close = CloseWith(w, object,
                         [held] { EXPECT_TRUE(held.returned()) << "the close completes while a callback is running"; });
  EXPECT_TRUE(close.pending());
  return close;
}

// The callback runs, and `close` ends when it has returned. `other` has a session of its own.
void ExpectToWaitFor(const HeldCallback& held, const Call& close, Party& other) {
  held.Await();
  other.Settle();
  EXPECT_FALSE(close.ended());
  held.Release();
  EXPECT_EQ(close.Status(), NdkStatus::kSuccess);
}

// The antecedent's close ends with the successor's, and not before.
void ExpectToWaitForTheClose(World& w, const Closable& antecedent, const Closable& successor) {
  const Call close = Close(w, antecedent);
  w.ExpectPending(close);
  EXPECT_EQ(Close(w, successor).Status(), NdkStatus::kSuccess);
  EXPECT_EQ(close.Status(), NdkStatus::kSuccess);
}

void ExpectClosed(World& w, const std::vector<DataObject*>& objects) {
  for (DataObject* const object : objects) EXPECT_EQ(Close(w, object).Status(), NdkStatus::kSuccess);
}

// Data objects of a party that no other uses.
struct OwnQueues {
  explicit OwnQueues(Party& party, CqNotification notification = {})
      : adapter(party.side().adapter),
        domain(adapter->CreateProtectionDomain().object),
        cq(adapter->CreateCompletionQueue(64, std::move(notification)).object) {}

  SharedReceiveQueue* NewSrq(SrqNotification notification = {}) const {
    return domain
        ->CreateSharedReceiveQueue(
            {.depth = 16, .max_receive_request_sge = 1, .notify_threshold = 0, .notification = std::move(notification)})
        .object;
  }
  QueuePair* NewQueuePair(CompletionQueue* receive_cq, CompletionQueue* initiator_cq,
                          SharedReceiveQueue* srq = nullptr) const {
    return domain
        ->CreateQueuePair({.receive_cq = receive_cq,
                           .initiator_cq = initiator_cq,
                           .srq = srq,
                           .context = nullptr,
                           .receive_queue_depth = 16,
                           .initiator_queue_depth = 16,
                           .max_receive_request_sge = 1,
                           .max_initiator_request_sge = 1,
                           .inline_data_size = 0})
        .object;
  }
  QueuePair* NewQueuePair() const { return NewQueuePair(cq, cq); }
  MemoryWindow* NewWindow() const { return domain->CreateMemoryWindow().object; }

  Adapter* const adapter;
  ProtectionDomain* const domain;
  CompletionQueue* const cq;
};

// --- 16 and 17 ---

// An object of a's that nothing keeps open, and what it has been made on, to be closed after it.
struct Alone {
  Closable object;
  std::vector<DataObject*> rest = {};
};

struct Kind {
  std::string name;
  Alone (*make)(World& w);
  bool is_window = false;
};

template <typename Make>
Alone OnOwnQueues(World& w, const Make& make) {
  const OwnQueues queues(w.a());
  return {static_cast<DataObject*>(make(queues)), {queues.cq, queues.domain}};
}

MemoryRegion* NewRegion(const OwnQueues& queues) { return queues.domain->CreateMemoryRegion(false).object; }

const std::vector<Kind>& BrokerKinds() {
  static const auto* const kKinds =
      new std::vector<Kind>{{"Adapter", [](World& w) -> Alone { return {w.a().Reopen()}; }},
                            {"Listener", [](World& w) -> Alone { return {w.a().NewListener().object}; }},
                            {"ListeningListener", [](World& w) -> Alone { return {w.a().Listening().object}; }},
                            {"SharedEndpoint", [](World& w) -> Alone { return {w.a().NewSharedEndpoint(w.a().At())}; }},
                            {"Reservation", [](World& w) -> Alone { return {w.a().NewReservation(w.a().At())}; }},
                            {"Connector", [](World& w) -> Alone { return {w.a().NewConnector()}; }},
                            {"ConnectedConnector", [](World& w) -> Alone { return {w.Establish().active}; }},
                            {"DeliveredConnector", [](World& w) -> Alone {
                               const TestListener listener = w.a().Listening();
                               return {w.Request(w.b(), w.a(), listener).passive};
                             }}};
  return *kKinds;
}

const std::vector<Kind>& DataKinds() {
  static const auto* const kKinds = new std::vector<Kind>{
      {"CompletionQueue",
       [](World& w) -> Alone {
         const OwnQueues queues(w.a());
         return {queues.cq, {queues.domain}};
       }},
      {"ProtectionDomain",
       [](World& w) -> Alone {
         const OwnQueues queues(w.a());
         return {queues.domain, {queues.cq}};
       }},
      {"MemoryRegion", [](World& w) { return OnOwnQueues(w, NewRegion); }},
      {"RegisteredMemoryRegion",
       [](World& w) {
         static std::array<uint8_t, 64> memory;
         return OnOwnQueues(w, [](const OwnQueues& queues) {
           MemoryRegion* const region = NewRegion(queues);
           EXPECT_EQ(region->Register(memory.data(), memory.size(), kAllAccess), NdkStatus::kSuccess);
           return region;
         });
       }},
      {"MemoryWindow",
       [](World& w) { return OnOwnQueues(w, [](const OwnQueues& queues) { return queues.NewWindow(); }); }, true},
      {"SharedReceiveQueue",
       [](World& w) { return OnOwnQueues(w, [](const OwnQueues& queues) { return queues.NewSrq(); }); }},
      {"QueuePair",
       [](World& w) { return OnOwnQueues(w, [](const OwnQueues& queues) { return queues.NewQueuePair(); }); }}};
  return *kKinds;
}

void ExpectNoError(const Call& close) { EXPECT_TRUE(close.pending() || close.Status() == NdkStatus::kSuccess); }

void AddOfEachKind(Cases* cases) {
  for (const auto* const kinds : {&BrokerKinds(), &DataKinds()}) {
    for (const Kind& kind : *kinds) {
      cases->push_back({.assertion = 17,
                        .name = "Of" + kind.name,
                        .run =
                            [&kind](World& w) {
                              if (w.lacks()) return ExpectNoWindows(w);
                              const Alone alone = kind.make(w);
                              w.Settle();
                              const Call close = Close(w, alone.object);
                              ExpectNoError(close);
                              EXPECT_EQ(close.Status(), NdkStatus::kSuccess);
                              ExpectClosed(w, alone.rest);
                            },
                        .lacks = kind.is_window ? kNoWindows : std::vector<Lack>()});
    }
  }
}

void AddErrors(Cases* cases) {
  for (const Kind& kind : BrokerKinds()) {
    cases->push_back({16, "OfThe" + kind.name + "Twice", [&kind](World& w) {
                        const Alone alone = kind.make(w);
                        w.Settle();
                        const Call one = Close(w, alone.object), other = Close(w, alone.object);
                        ExpectNoError(one);
                        ExpectNoError(other);
                        EXPECT_EQ(one.Status(), NdkStatus::kSuccess);
                        EXPECT_EQ(Close(w, alone.object).Status(), NdkStatus::kSuccess);
                      }});
    cases->push_back({16, "OfThe" + kind.name + "AfterItsSession", [&kind](World& w) {
                        const Alone alone = kind.make(w);
                        w.Settle();
                        w.End(w.a());
                        EXPECT_EQ(Close(w, alone.object).Status(), NdkStatus::kSuccess);
                      }});
    cases->push_back({16, "OfThe" + kind.name + "FromACallback", [&kind](World& w) {
                        const Alone alone = kind.make(w);
                        w.Settle();
                        Call close("no Close");
                        const Call create = w.calls().Make("CreateConnector", [&](const Call& c) {
                          return w.a().adapter()->CreateConnector(
                              [&, done = c.completion()](const client::Outcome& outcome, const auto&) {
                                close = Close(w, alone.object);
                                done(outcome);
                              });
                        });
                        EXPECT_EQ(create.Status(), NdkStatus::kSuccess);
                        ExpectNoError(close);
                        EXPECT_EQ(close.Status(), NdkStatus::kSuccess);
                      }});
  }
}

// --- 18 to 20 ---

struct Succession {
  DataObject* antecedent = nullptr;
  DataObject* successor = nullptr;
  std::vector<DataObject*> rest;
};

Succession OfDomain(const OwnQueues& queues, DataObject* successor) { return {queues.domain, successor, {queues.cq}}; }

struct DataRow {
  int assertion;
  std::string name;
  Succession (*make)(World& w);
  bool is_window = false;
};

void AddDataObjects(Cases* cases) {
  static const auto* const kRows = new std::vector<DataRow>{
      {18, "AReceiveCq",
       [](World& w) -> Succession {
         const OwnQueues queues(w.a());
         CompletionQueue* const other = queues.adapter->CreateCompletionQueue(64, {}).object;
         return {other, queues.NewQueuePair(other, queues.cq), {queues.cq, queues.domain}};
       }},
      {18, "AnInitiatorCq",
       [](World& w) -> Succession {
         const OwnQueues queues(w.a());
         CompletionQueue* const other = queues.adapter->CreateCompletionQueue(64, {}).object;
         return {other, queues.NewQueuePair(queues.cq, other), {queues.cq, queues.domain}};
       }},
      {19, "OfAnSrq",
       [](World& w) -> Succession {
         const OwnQueues queues(w.a());
         SharedReceiveQueue* const srq = queues.NewSrq();
         return {srq, queues.NewQueuePair(queues.cq, queues.cq, srq), {queues.cq, queues.domain}};
       }},
      {20, "A_UnderAMemoryRegion",
       [](World& w) {
         const OwnQueues queues(w.a());
         return OfDomain(queues, NewRegion(queues));
       }},
      {20, "B_UnderAMemoryWindow",
       [](World& w) {
         const OwnQueues queues(w.a());
         return OfDomain(queues, queues.NewWindow());
       },
       true},
      {20, "C_UnderAQueuePair",
       [](World& w) {
         const OwnQueues queues(w.a());
         return OfDomain(queues, queues.NewQueuePair());
       }},
      {20, "D_UnderASharedReceiveQueue", [](World& w) {
         const OwnQueues queues(w.a());
         return OfDomain(queues, queues.NewSrq());
       }}};
  for (const DataRow& row : *kRows) {
    cases->push_back({.assertion = row.assertion,
                      .name = row.name,
                      .run =
                          [&row](World& w) {
                            if (w.lacks()) return ExpectNoWindows(w);
                            const Succession made = row.make(w);
                            ExpectToWaitForTheClose(w, made.antecedent, made.successor);
                            ExpectClosed(w, made.rest);
                          },
                      .lacks = row.is_window ? kNoWindows : std::vector<Lack>()});
  }
}

// --- 21 to 23 ---

void AddQueuePairs(Cases* cases) {
  for (const bool active : {true, false}) {
    const std::string side = active ? "TheOneThatConnected" : "TheOneThatAccepted";
    const auto run = [active](World& w, bool disconnected) {
      const Connection connection = w.Establish();
      if (disconnected) w.Disconnect(w.a(), w.b(), connection);
      Party& party = active ? w.a() : w.b();
      const Call close = party.Close(active ? connection.active_qp : connection.passive_qp);
      w.ExpectPending(close);
      EXPECT_EQ(party.Close(active ? connection.active : connection.passive).Status(), NdkStatus::kSuccess);
      EXPECT_EQ(close.Status(), NdkStatus::kSuccess);
    };
    cases->push_back({21, side, [run](World& w) { run(w, false); }});
    cases->push_back({22, side, [run](World& w) { run(w, true); }});
  }
  cases->push_back({23, "BesideAnIdleConnectorAndAConnection", [](World& w) {
                      const Connection connection = w.Establish();
                      const auto idle = w.a().NewConnector();
                      EXPECT_EQ(w.a().Close(w.a().NewQueuePair()).Status(), NdkStatus::kSuccess);
                      EXPECT_EQ(w.b().Close(w.b().NewQueuePair()).Status(), NdkStatus::kSuccess);
                      w.Settle();
                      EXPECT_EQ(connection.active_events.count() + connection.passive_events.count(), 0u);
                    }});
}

// --- 24 ---

constexpr size_t kLength = 64;

// A region of a's with a window that is bound to it.
struct BoundWindow {
  explicit BoundWindow(World& w) : connection(w.Establish()), memory(kLength) {
    DataSide& side = w.a().side();
    region = side.domain->CreateMemoryRegion(false).object;
    window = side.domain->CreateMemoryWindow().object;
    EXPECT_EQ(region->Register(memory.data(), kLength, kAllAccess), NdkStatus::kSuccess);
    EXPECT_EQ(connection.active_qp->Bind(Context(1), region, window, memory.data(), kLength,
                                         kOpAllowRemoteRead | kOpAllowRemoteWrite),
              NdkStatus::kSuccess);
    EXPECT_EQ(side.Next().status, NdkStatus::kSuccess);
  }

  const Connection connection;
  std::vector<uint8_t> memory;
  MemoryRegion* region = nullptr;
  MemoryWindow* window = nullptr;
};

void AddWindows(Cases* cases) {
  const auto add = [cases](const char* name, void (*end)(World & w, const BoundWindow& bound), bool closes_window) {
    cases->push_back({.assertion = 24,
                      .name = name,
                      .run =
                          [end, closes_window](World& w) {
                            if (w.lacks()) return ExpectNoWindows(w);
                            const BoundWindow bound(w);
                            const Call close = Close(w, bound.region);
                            w.ExpectPending(close);
                            end(w, bound);
                            EXPECT_EQ(close.Status(), NdkStatus::kSuccess);
                            if (!closes_window) ExpectClosed(w, {bound.window});
                            w.Close(bound.connection);
                          },
                      .lacks = kNoWindows});
  };
  add(
      "A_UntilTheWindowIsClosed", [](World& w, const BoundWindow& bound) { ExpectClosed(w, {bound.window}); }, true);
  add(
      "B_UntilTheWindowIsInvalidated",
      [](World& w, const BoundWindow& bound) {
        EXPECT_EQ(bound.connection.active_qp->Invalidate(Context(2), bound.window, 0), NdkStatus::kSuccess);
        EXPECT_EQ(w.a().side().Next().status, NdkStatus::kSuccess);
      },
      false);
  add(
      "C_UntilThePeerInvalidatesTheWindow",
      [](World& w, const BoundWindow& bound) {
        const Connection& connection = bound.connection;
        const RemoteToken token = bound.window->remote_token();
        EXPECT_EQ(connection.active_qp->Receive(Context(3), {}), NdkStatus::kSuccess);
        // The side that has connected speaks first.
        EXPECT_EQ(connection.passive_qp->Receive(Context(4), {}), NdkStatus::kSuccess);
        EXPECT_EQ(connection.active_qp->Send(Context(5), {}, 0), NdkStatus::kSuccess);
        EXPECT_EQ(w.b().side().Next().status, NdkStatus::kSuccess);
        EXPECT_EQ(connection.passive_qp->SendAndInvalidate(Context(6), {}, 0, token), NdkStatus::kSuccess);
        for (const ResultEx& result : w.a().side().Results(2)) EXPECT_EQ(result.status, NdkStatus::kSuccess);
      },
      false);
}

// --- 25 to 29 ---

void AddEndpoints(Cases* cases) {
  cases->push_back({25, "ASharedEndpointUnderAConnection", [](World& w) {
                      const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
                      const TestListener listener = w.b().Listening();
                      const Connection made = w.EstablishThrough(endpoint, w.a(), w.b(), listener);
                      ExpectToWaitForTheClose(w, endpoint, made.active);
                    }});
  struct Row {
    int assertion;
    const char* name;
    std::shared_ptr<client::Connector> (*deliver)(World& w, const TestListener& listener);
  };
  static constexpr Row kRows[] = {
      {26, "AListenerUnderAnAcceptedConnector",
       [](World& w, const TestListener& listener) { return w.Establish(w.a(), w.b(), listener).passive; }},
      {27, "AListenerUnderAnUndecidedConnector",
       [](World& w, const TestListener& listener) { return w.Request(w.a(), w.b(), listener).passive; }},
      {28, "AListenerUnderARejectedConnector", [](World& w, const TestListener& listener) {
         const Handshake made = w.Request(w.a(), w.b(), listener);
         EXPECT_EQ(w.b().Reject(made.passive).Status(), NdkStatus::kSuccess);
         EXPECT_EQ(made.connect.Status(), NdkStatus::kConnectionRefused);
         return made.passive;
       }}};
  for (const Row& row : kRows) {
    cases->push_back({row.assertion, row.name, [&row](World& w) {
                        const TestListener listener = w.b().Listening();
                        const auto connector = row.deliver(w, listener);
                        ExpectToWaitForTheClose(w, listener.object, connector);
                      }});
  }
}

// Memory for what goes over a connection of a and b, from before antecedents are closed.
class Traffic {
 public:
  Traffic(World& w, const Connection& connection)
      : Traffic(w, connection.active_qp, connection.passive_qp, w.b().side().cq) {}
  Traffic(World& w, QueuePair* active_qp, QueuePair* passive_qp, CompletionQueue* passive_cq)
      : a_(w.a().side()),
        active_qp_(active_qp),
        passive_qp_(passive_qp),
        passive_cq_(passive_cq),
        at_a_(a_.domain, kLength, kMrAllowLocalWrite),
        at_b_(w.b().side().domain, kLength, kMrAllowLocalWrite) {}

  // Both sides send and receive. The one that has connected begins.
  void Expect(uint32_t seed) {
    const Sge a = at_a_.sge(), b = at_b_.sge();
    at_a_.Fill(seed);
    const std::vector<uint8_t> sent = at_a_.bytes();
    EXPECT_EQ(passive_qp_->Receive(Context(1), {&b, 1}), NdkStatus::kSuccess);
    EXPECT_EQ(active_qp_->Send(Context(2), {&a, 1}, 0), NdkStatus::kSuccess);
    ExpectResult(a_.cq);
    ExpectResult(passive_cq_);
    EXPECT_EQ(at_b_.bytes(), sent);
    at_a_.Fill(seed + 1);
    EXPECT_EQ(active_qp_->Receive(Context(3), {&a, 1}), NdkStatus::kSuccess);
    EXPECT_EQ(passive_qp_->Send(Context(4), {&b, 1}, 0), NdkStatus::kSuccess);
    ExpectResult(a_.cq);
    ExpectResult(passive_cq_);
    EXPECT_EQ(at_a_.bytes(), sent);
  }

 private:
  static void ExpectResult(CompletionQueue* cq) {
    ResultEx result;
    EXPECT_TRUE(Eventually([&] { return cq->GetResultsEx({&result, 1}) == 1; }));
    EXPECT_EQ(result.status, NdkStatus::kSuccess);
  }

  DataSide& a_;
  QueuePair* const active_qp_;
  QueuePair* const passive_qp_;
  CompletionQueue* const passive_cq_;
  Buffer at_a_, at_b_;
};

// The connection carries data, and ends as others do, while `close` is pending.
void ExpectFunctional(World& w, const Connection& connection, Traffic& traffic, const Call& close) {
  w.ExpectPending(close);
  traffic.Expect(7);
  w.Disconnect(w.a(), w.b(), connection);
  w.ExpectPending(close);
}

void AddFunctionalSuccessors(Cases* cases) {
  cases->push_back({29, "OfAListener", [](World& w) {
                      const TestListener listener = w.b().Listening();
                      const Connection connection = w.Establish(w.a(), w.b(), listener);
                      Traffic traffic(w, connection);
                      ExpectFunctional(w, connection, traffic, w.b().Close(listener.object));
                    }});
  cases->push_back({29, "OfASharedEndpoint", [](World& w) {
                      const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
                      const TestListener listener = w.b().Listening();
                      const Connection connection = w.EstablishThrough(endpoint, w.a(), w.b(), listener);
                      Traffic traffic(w, connection);
                      ExpectFunctional(w, connection, traffic, w.a().Close(endpoint));
                    }});
  cases->push_back({29, "OfAnAdapter", [](World& w) {
                      const Connection connection = w.Establish();
                      Traffic traffic(w, connection);
                      ExpectFunctional(w, connection, traffic, w.a().Close(w.a().Reopen()));
                    }});
  cases->push_back({29, "OfAProtectionDomain", [](World& w) {
                      const OwnQueues queues(w.b());
                      QueuePair* const qp = queues.NewQueuePair();
                      const Connection connection = w.Establish(w.a().NewQueuePair(), qp, {});
                      const Call close = Close(w, queues.domain);
                      w.ExpectPending(close);
                      // Without memory, which would be the domain's.
                      EXPECT_EQ(qp->Receive(Context(1), {}), NdkStatus::kSuccess);
                      w.Disconnect(w.a(), w.b(), connection);
                      w.ExpectPending(close);
                      w.Close(connection);
                      ExpectClosed(w, {qp, queues.cq});
                      EXPECT_EQ(close.Status(), NdkStatus::kSuccess);
                    }});
}

// --- 30 ---

// Of a's. Where the successor's close waits itself, `trigger` ends that.
struct Links {
  Closable antecedent;
  Closable successor;
  std::function<void()> trigger = {};
  std::vector<DataObject*> rest = {};
};

struct LinksRow {
  const char* name;
  Links (*make)(World& w);
};

// The successor is a queue pair, which its connector keeps open.
Links UnderQueuePair(World& w, const Closable& antecedent, QueuePair* qp, std::vector<DataObject*> rest) {
  const Connection connection = w.Establish(qp, w.b().NewQueuePair(), {});
  return {antecedent, static_cast<DataObject*>(qp), [&w, connection] { w.a().Close(connection.active); },
          std::move(rest)};
}

const std::vector<LinksRow>& AllLinks() {
  static const auto* const kRows = new std::vector<LinksRow>{
      {"AListenerAndAConnector",
       [](World& w) -> Links {
         const TestListener listener = w.a().Listening();
         return {listener.object, w.Establish(w.b(), w.a(), listener).passive};
       }},
      {"ASharedEndpointAndAConnector",
       [](World& w) -> Links {
         const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
         const TestListener listener = w.b().Listening();
         return {endpoint, w.EstablishThrough(endpoint, w.a(), w.b(), listener).active};
       }},
      {"AQueuePairAndAConnector",
       [](World& w) -> Links {
         QueuePair* const qp = w.a().side().NewQueuePair({}, nullptr);
         return {static_cast<DataObject*>(qp), w.Establish(qp, w.b().NewQueuePair(), {}).active};
       }},
      {"ACompletionQueueAndAQueuePair",
       [](World& w) {
         const OwnQueues queues(w.a());
         return UnderQueuePair(w, queues.cq, queues.NewQueuePair(), {queues.domain});
       }},
      {"ASharedReceiveQueueAndAQueuePair",
       [](World& w) {
         const OwnQueues queues(w.a());
         SharedReceiveQueue* const srq = queues.NewSrq();
         return UnderQueuePair(w, srq, queues.NewQueuePair(queues.cq, queues.cq, srq), {queues.cq, queues.domain});
       }},
      {"AProtectionDomainAndAQueuePair",
       [](World& w) {
         const OwnQueues queues(w.a());
         return UnderQueuePair(w, queues.domain, queues.NewQueuePair(), {queues.cq});
       }},
      {"AnAdapterAndAConnector",
       [](World& w) -> Links {
         const auto connector = w.a().NewConnector();
         return {w.a().Reopen(), connector};
       }},
      {"AnAdapterAndAListener",
       [](World& w) -> Links {
         const TestListener listener = w.a().Listening();
         return {w.a().Reopen(), listener.object};
       }},
      {"AnAdapterAndASharedEndpoint",
       [](World& w) -> Links {
         const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
         return {w.a().Reopen(), endpoint};
       }},
      {"AnAdapterAndAReservation", [](World& w) -> Links {
         const auto reservation = w.a().NewReservation(w.a().At());
         return {w.a().Reopen(), reservation};
       }}};
  return *kRows;
}

void AddReturnOfSuccessors(Cases* cases) {
  for (const LinksRow& row : AllLinks()) {
    cases->push_back({30, row.name, [&row](World& w) {
                        const Links links = row.make(w);
                        const HeldCallback held;
                        const Call antecedent = CloseBehind(w, links.antecedent, held);
                        const Call successor = CloseHeld(w, links.successor, held);
                        if (links.trigger) links.trigger();
                        ExpectToWaitFor(held, antecedent, w.b());
                        EXPECT_EQ(successor.Status(), NdkStatus::kSuccess);
                        ExpectClosed(w, links.rest);
                      }});
  }
}

// --- 31 and 32 ---

// The form that NDK gives an adapter's close, of an instance of a's.
class BlockingAdapterClose {
 public:
  BlockingAdapterClose(World& w, std::shared_ptr<client::Adapter> adapter)
      : w_(w), thread_([this, adapter = std::move(adapter)] {
          begun_ = true;
          client::BlockingClose(adapter);
          returned_ = true;
        }) {
    EXPECT_TRUE(Eventually([this] { return begun_.load(); }));
  }
  ~BlockingAdapterClose() {
    // The session's end lets whoever still waits go.
    if (!returned_) w_.End(w_.a());
    thread_.join();
  }
  BlockingAdapterClose(const BlockingAdapterClose&) = delete;
  BlockingAdapterClose& operator=(const BlockingAdapterClose&) = delete;

  void ExpectNotToReturn() const {
    w_.Settle();
    EXPECT_FALSE(returned_);
  }
  void ExpectToReturn() const {
    EXPECT_TRUE(Eventually([this] { return returned_.load(); }));
  }

 private:
  World& w_;
  std::atomic<bool> begun_ = false;
  std::atomic<bool> returned_ = false;
  std::thread thread_;
};

// A child of a's adapter; its data side has no others.
struct Child {
  const char* name;
  std::vector<Closable> (*make)(World& w);  // To be closed in this order.
};

const std::vector<Child>& Children() {
  static const auto* const kChildren = new std::vector<Child>{
      {"AListener", [](World& w) -> std::vector<Closable> { return {w.a().Listening().object}; }},
      {"ASharedEndpoint", [](World& w) -> std::vector<Closable> { return {w.a().NewSharedEndpoint(w.a().At())}; }},
      {"AReservation", [](World& w) -> std::vector<Closable> { return {w.a().NewReservation(w.a().At())}; }},
      {"AConnector", [](World& w) -> std::vector<Closable> { return {w.a().NewConnector()}; }},
      {"AnUndecidedConnector",
       [](World& w) -> std::vector<Closable> {
         const TestListener listener = w.a().Listening();
         w.b().Connect(w.b().NewConnector(), w.b().NewQueuePair(), listener.address);
         return {listener.Next(), listener.object};
       }},
      {"AProtectionDomain",
       [](World& w) -> std::vector<Closable> {
         return {static_cast<DataObject*>(w.a().adapter()->data()->CreateProtectionDomain().object)};
       }},
      {"ACompletionQueue", [](World& w) -> std::vector<Closable> {
         return {static_cast<DataObject*>(w.a().adapter()->data()->CreateCompletionQueue(16, {}).object)};
       }}};
  return *kChildren;
}

// The closes of all descendants are pending while it runs.
void CloseUnderACallback(World& w) {
  const HeldCallback held;
  Adapter* const adapter = w.a().adapter()->data();
  CompletionQueue* const cq = adapter->CreateCompletionQueue(16, [held](NdkStatus) { held.Run(); }).object;
  ProtectionDomain* const domain = adapter->CreateProtectionDomain().object;
  QueuePair* const qp =
      domain
          ->CreateQueuePair(
              {.receive_cq = cq, .initiator_cq = cq, .receive_queue_depth = 1, .initiator_queue_depth = 1})
          .object;
  cq->Arm(CqNotify::kAny);
  EXPECT_EQ(qp->Receive(nullptr, {}), NdkStatus::kSuccess);
  qp->Flush();
  held.Await();
  const std::array<Call, 3> closes = {Close(w, qp), Close(w, cq), Close(w, domain)};
  const BlockingAdapterClose close(w, w.a().Reopen());
  close.ExpectNotToReturn();
  held.Release();
  close.ExpectToReturn();
  for (const Call& closed : closes) EXPECT_EQ(closed.Status(), NdkStatus::kSuccess);
}

void AddAdapters(Cases* cases) {
  for (const Child& child : Children()) {
    cases->push_back({31, child.name, [&child](World& w) {
                        const std::vector<Closable> objects = child.make(w);
                        const BlockingAdapterClose close(w, w.a().Reopen());
                        for (const Closable& object : objects) {
                          close.ExpectNotToReturn();
                          const Call closed = Close(w, object);
                          if (&object == &objects.back()) close.ExpectToReturn();
                          EXPECT_EQ(closed.Status(), NdkStatus::kSuccess);
                        }
                      }});
  }
  cases->push_back({31, "ACallbackThatRuns", CloseUnderACallback});
  for (const bool listener_first : {true, false}) {
    cases->push_back({32, listener_first ? "TheListenerFirst" : "TheConnectorFirst", [listener_first](World& w) {
                        const TestListener listener = w.a().Listening();
                        const auto connector = w.a().NewConnector();
                        const BlockingAdapterClose close(w, w.a().Reopen());
                        close.ExpectNotToReturn();
                        const std::shared_ptr<client::BrokerObject> objects[] = {listener.object, connector};
                        EXPECT_EQ(w.a().Close(objects[listener_first ? 0 : 1]).Status(), NdkStatus::kSuccess);
                        close.ExpectNotToReturn();
                        w.a().Close(objects[listener_first ? 1 : 0]);
                        close.ExpectToReturn();
                      }});
  }
}

// --- 33 ---

// "closed" is the last of what callbacks noted, and was noted.
void ExpectClosedLast(World& w, const Order& order) {
  w.Settle();
  const std::vector<std::string> all = order.all();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(std::count(all.begin(), all.end(), "closed"), 1);
  EXPECT_EQ(all.back(), "closed") << "of " << all.size();
}

Call CloseNoting(World& w, const Closable& object, const Order& order) {
  Call close = CloseWith(w, object, [order] { order.Add("closed"); });
  if (!close.pending()) order.Add("closed");
  return close;
}

constexpr size_t kRounds = 5;

// The close meets connect requests on their way.
void CloseUnderConnectRequests(World& w) {
  const Order order;
  const TestListener listener = w.b().Listening();
  listener.Handle([&w, order](const std::shared_ptr<client::Connector>& connector) {
    order.Add("connect event");
    w.b().Close(connector);
  });
  std::vector<Call> connects;
  for (size_t i = 0; i < 2 * kRounds; ++i) {
    connects.push_back(w.a().Connect(w.a().NewConnector(), w.a().NewQueuePair(), listener.address));
    if (i == kRounds) connects.front().Wait();
  }
  EXPECT_EQ(CloseNoting(w, listener.object, order).Status(), NdkStatus::kSuccess);
  for (const Call& connect : connects) EXPECT_EQ(connect.Status(), NdkStatus::kConnectionRefused);
  ExpectClosedLast(w, order);
}

// The close meets the peer's.
void CloseUnderTheEndOfTheConnection(World& w) {
  for (size_t i = 0; i < kRounds; ++i) {
    const Order order;
    Handshake made = w.Reply();
    made.complete =
        w.a().CompleteConnect(made.active, [order](const client::DisconnectEvent&) { order.Add("disconnect event"); });
    EXPECT_EQ(made.complete.Status(), NdkStatus::kSuccess);
    EXPECT_EQ(made.accept.Status(), NdkStatus::kSuccess);
    const Call peer = w.b().Close(made.passive);
    const Call close = CloseNoting(w, made.active, order);
    EXPECT_EQ(peer.Status(), NdkStatus::kSuccess);
    EXPECT_EQ(close.Status(), NdkStatus::kSuccess);
    ExpectClosedLast(w, order);
  }
}

// Likewise of a queue that is armed, and a result.
void CloseUnderNotifications(World& w) {
  for (size_t i = 0; i < kRounds; ++i) {
    const Order order;
    const OwnQueues queues(w.a(), [order](NdkStatus) { order.Add("notification"); });
    QueuePair* const qp = queues.NewQueuePair();
    EXPECT_EQ(qp->Receive(Context(1), {}), NdkStatus::kSuccess);
    queues.cq->Arm(CqNotify::kAny);
    qp->Flush();
    Close(w, qp);
    EXPECT_EQ(CloseNoting(w, queues.cq, order).Status(), NdkStatus::kSuccess);
    ExpectClosed(w, {queues.domain});
    ExpectClosedLast(w, order);
  }
}

void CloseUnderSrqNotifications(World& w) {
  for (size_t i = 0; i < kRounds; ++i) {
    const Order order;
    const OwnQueues queues(w.a());
    SharedReceiveQueue* const srq = queues.NewSrq([order](NdkStatus) { order.Add("notification"); });
    EXPECT_EQ(srq->Modify(0, 1), NdkStatus::kSuccess);
    EXPECT_EQ(CloseNoting(w, srq, order).Status(), NdkStatus::kSuccess);
    ExpectClosed(w, {queues.cq, queues.domain});
    ExpectClosedLast(w, order);
  }
}

void AddLastCallbacks(Cases* cases) {
  cases->push_back({33, "OfAListenerToWhichPeersConnect", CloseUnderConnectRequests});
  cases->push_back({33, "OfAConnectorWhosePeerCloses", CloseUnderTheEndOfTheConnection});
  cases->push_back({33, "OfAnArmedCompletionQueue", CloseUnderNotifications});
  cases->push_back({33, "OfAnArmedSharedReceiveQueue", CloseUnderSrqNotifications});
  cases->push_back({33, "OfAListenerThatIsClosed", [](World& w) {
                      const TestListener listener = w.b().Listening();
                      EXPECT_EQ(w.b().Close(listener.object).Status(), NdkStatus::kSuccess);
                      const Call connect = w.a().Connect(w.a().NewConnector(), w.a().NewQueuePair(), listener.address);
                      EXPECT_EQ(connect.Status(), NdkStatus::kConnectionRefused);
                      w.Settle();
                      EXPECT_EQ(listener.delivered(), 0u);
                    }});
  cases->push_back({33, "OfAConnectorThatIsClosed", [](World& w) {
                      const Connection connection = w.Establish();
                      EXPECT_EQ(w.a().Close(connection.active).Status(), NdkStatus::kSuccess);
                      connection.passive_events.Wait();
                      w.Close(connection);
                      w.Settle();
                      EXPECT_EQ(connection.active_events.count(), 0u);
                    }});
}

// --- 34 to 36 ---

void AddRunningCallbacks(Cases* cases) {
  cases->push_back({34, "OfACompletionQueue", [](World& w) {
                      const HeldCallback held;
                      const OwnQueues queues(w.a(), [held](NdkStatus) { held.Run(); });
                      QueuePair* const qp = queues.NewQueuePair();
                      EXPECT_EQ(qp->Receive(Context(1), {}), NdkStatus::kSuccess);
                      queues.cq->Arm(CqNotify::kAny);
                      qp->Flush();
                      held.Await();
                      // Nothing but the callback is left that the close could wait for.
                      ExpectClosed(w, {qp});
                      ExpectToWaitFor(held, CloseBehind(w, queues.cq, held), w.b());
                      ExpectClosed(w, {queues.domain});
                    }});
  cases->push_back({35, "OfAListener", [](World& w) {
                      const HeldCallback held;
                      const TestListener listener = w.b().Listening();
                      listener.Handle([&w, held](const std::shared_ptr<client::Connector>& connector) {
                        w.b().Close(connector);
                        held.Run();
                      });
                      const Call connect = w.a().Connect(w.a().NewConnector(), w.a().NewQueuePair(), listener.address);
                      held.Await();
                      ExpectToWaitFor(held, CloseBehind(w, listener.object, held), w.a());
                      EXPECT_EQ(connect.Status(), NdkStatus::kConnectionRefused);
                    }});
  cases->push_back({36, "OfTheConnectorThatAccepted", [](World& w) {
                      const HeldCallback held;
                      const Handshake made = w.Request();
                      const Call accept = w.b().Accept(made.passive, made.passive_qp, {},
                                                       [held](const client::DisconnectEvent&) { held.Run(); });
                      EXPECT_EQ(made.connect.Status(), NdkStatus::kSuccess);
                      EXPECT_EQ(w.a().CompleteConnect(made.active).Status(), NdkStatus::kSuccess);
                      EXPECT_EQ(accept.Status(), NdkStatus::kSuccess);
                      const Call disconnect = w.a().Disconnect(made.active);
                      held.Await();
                      ExpectToWaitFor(held, CloseBehind(w, made.passive, held), w.a());
                      disconnect.Wait();
                    }});
  cases->push_back({36, "OfTheConnectorThatConnected", [](World& w) {
                      const HeldCallback held;
                      const Handshake made = w.Reply();
                      const Call complete =
                          w.a().CompleteConnect(made.active, [held](const client::DisconnectEvent&) { held.Run(); });
                      EXPECT_EQ(complete.Status(), NdkStatus::kSuccess);
                      EXPECT_EQ(made.accept.Status(), NdkStatus::kSuccess);
                      const Call disconnect = w.b().Disconnect(made.passive);
                      held.Await();
                      ExpectToWaitFor(held, CloseBehind(w, made.active, held), w.b());
                      disconnect.Wait();
                    }});
}

// --- 37 to 41 ---

// Holds up a's callbacks, so that what is asked for meanwhile is pending for sure.
class BusySession {
 public:
  explicit BusySession(World& w)
      : create_(w.calls().Make("CreateConnector", [&](const Call& c) {
          return w.a().adapter()->CreateConnector(
              [held = held_, done = c.completion()](const client::Outcome& outcome, const auto&) {
                held.Run();
                done(outcome);
              });
        })) {
    held_.Await();
  }
  void Release() const { held_.Release(); }

 private:
  const HeldCallback held_;
  const Call create_;
};

client::OutcomeCompletion HeldCompletion(const Call& call, const HeldCallback& held) {
  return [held, done = call.completion()](const client::Outcome& outcome) {
    held.Run();
    done(outcome);
  };
}

// Its completion has been called and has returned before the close's is.
void ExpectToEndBeforeTheClose(World& w, const Call& request, const Closable& object, const HeldCallback& held,
                               Party& other, const BusySession* busy = nullptr) {
  EXPECT_TRUE(request.pending());
  const Call close = CloseBehind(w, object, held);
  if (busy != nullptr) busy->Release();
  ExpectToWaitFor(held, close, other);
  EXPECT_TRUE(request.ended());
}

void CloseWithConnectPending(World& w) {
  const HeldCallback held;
  const TestListener listener = w.b().Listening();
  const auto connector = w.a().NewConnector();
  QueuePair* const qp = w.a().NewQueuePair();
  const Call connect = w.calls().Make("Connect", [&](const Call& c) {
    return connector->Connect(qp,
                              {.source = w.a().At(), .destination = listener.address, .limits = {}, .private_data = {}},
                              HeldCompletion(c, held));
  });
  listener.Next();
  w.ExpectPending(connect);
  ExpectToEndBeforeTheClose(w, connect, connector, held, w.b());
  EXPECT_EQ(connect.Status(), NdkStatus::kCancelled);
}

void CloseWithAcceptPending(World& w) {
  const HeldCallback held;
  const Handshake made = w.Request();
  const Call accept = w.calls().Make("Accept", [&](const Call& c) {
    return made.passive->Accept(made.passive_qp, {}, {}, w.lacks() ? c.completion() : HeldCompletion(c, held));
  });
  EXPECT_EQ(made.connect.Status(), NdkStatus::kSuccess);
  if (w.lacks()) {
    EXPECT_EQ(accept.Status(), NdkStatus::kSuccess);
    EXPECT_FALSE(DataOf(made.passive).three_way);
    EXPECT_EQ(w.b().Close(made.passive).Status(), NdkStatus::kSuccess);
    return;
  }
  w.ExpectPending(accept);
  ExpectToEndBeforeTheClose(w, accept, made.passive, held, w.a());
  EXPECT_EQ(accept.Status(), NdkStatus::kCancelled);
}

void CloseWithDisconnectPending(World& w) {
  const HeldCallback held;
  const Connection connection = w.Establish();
  const auto disconnect = [&] {
    return w.calls().Make("Disconnect",
                          [&](const Call& c) { return connection.active->Disconnect(HeldCompletion(c, held)); });
  };
  if (w.lacks()) {
    const BusySession busy(w);
    const Call call = disconnect();
    ExpectToEndBeforeTheClose(w, call, connection.active, held, w.b(), &busy);
    EXPECT_TRUE(call.Status() == NdkStatus::kSuccess || call.Status() == NdkStatus::kCancelled);
    return;
  }
  const Call call = disconnect();
  connection.passive_events.Wait();
  w.ExpectPending(call);
  ExpectToEndBeforeTheClose(w, call, connection.active, held, w.b());
  EXPECT_EQ(call.Status(), NdkStatus::kCancelled);
}

// The broker is done with the connector before the data path ends the request, where it does.
void CloseBesideABusyDataPath(World& w) {
  const Connection connection = w.Establish();
  const HeldCallback held;
  const OwnQueues queues(w.a(), [held](NdkStatus) { held.Run(); });
  QueuePair* const other = queues.NewQueuePair();
  queues.cq->Arm(CqNotify::kAny);
  EXPECT_EQ(other->Receive(Context(1), {}), NdkStatus::kSuccess);
  other->Flush();
  held.Await();
  const Call disconnect = w.a().Disconnect(connection.active);
  const Call close = w.a().Close(connection.active);
  EXPECT_TRUE(Eventually([&] {
    const std::vector<std::string> left = w.broker().Objects();
    return std::count_if(left.begin(), left.end(), [](const auto& one) { return one.rfind("connector ", 0) == 0; }) < 2;
  }));
  w.Settle();
  EXPECT_EQ(close.ended(), disconnect.ended());
  held.Release();
  EXPECT_EQ(close.Status(), NdkStatus::kSuccess);
  EXPECT_TRUE(disconnect.ended());
  ExpectClosed(w, {other, queues.cq, queues.domain});
}

void CloseWithCompleteConnectPending(World& w) {
  const HeldCallback held;
  const Handshake made = w.Reply();
  const BusySession busy(w);
  const Call complete = w.calls().Make(
      "CompleteConnect", [&](const Call& c) { return made.active->CompleteConnect({}, HeldCompletion(c, held)); });
  ExpectToEndBeforeTheClose(w, complete, made.active, held, w.b(), &busy);
  EXPECT_EQ(complete.Status(), NdkStatus::kCancelled);
}

void CloseWithListenPending(World& w) {
  const HeldCallback held;
  const TestListener listener = w.a().NewListener();
  const BusySession busy(w);
  const Call listen = w.calls().Make(
      "Listen", [&](const Call& c) { return listener.object->Listen(w.a().At(), HeldCompletion(c, held)); });
  ExpectToEndBeforeTheClose(w, listen, listener.object, held, w.b(), &busy);
  const NdkStatus status = listen.Status();
  EXPECT_TRUE(status == NdkStatus::kSuccess || status == NdkStatus::kCancelled) << StatusName(status);
}

void AddPendingRequests(Cases* cases) {
  cases->push_back({37, "OfAConnectorWithAConnect", CloseWithConnectPending});
  cases->push_back(
      {.assertion = 38, .name = "OfAConnectorWithAnAccept", .run = CloseWithAcceptPending, .lacks = {kTwoWay}});
  cases->push_back({.assertion = 39,
                    .name = "OfAConnectorWithADisconnect",
                    .run = CloseWithDisconnectPending,
                    .lacks = kAnswersGoodbyes});
  cases->push_back({39, "OfAConnectorWhoseDataPathDisconnects", CloseBesideABusyDataPath});
  cases->push_back({40, "OfAConnectorWithACompleteConnect", CloseWithCompleteConnectPending});
  cases->push_back({41, "OfAListenerWithAListen", CloseWithListenPending});
}

// --- 42 ---

// What a's and b's queue pairs get, over and over.
struct Post {
  const char* name;
  NdkStatus (*make)(const Connection& connection);
};

constexpr Post kPosts[] = {
    {"Receives", [](const Connection& c) { return c.active_qp->Receive(Context(1), {}); }},
    {"Sends",
     [](const Connection& c) {
       c.passive_qp->Receive(Context(2), {});
       return c.active_qp->Send(Context(1), {}, 0);
     }},
    {"Reads", [](const Connection& c) { return c.active_qp->Read(Context(1), {}, {}, 0); }},
    {"Writes", [](const Connection& c) { return c.active_qp->Write(Context(1), {}, {}, 0); }},
};

size_t TakeResults(CompletionQueue* cq) {
  std::array<ResultEx, 16> results;
  return cq->GetResultsEx(results);
}

// Every post that is taken gives one result.
void CloseUnderPosts(World& w, const Post& post) {
  constexpr client::ReadLimits kReads = {.inbound = 4, .outbound = 4};
  const TestListener listener = w.b().Listening();
  const Handshake connection = w.Request(w.a(), w.b(), listener, {.limits = kReads});
  const Call accept = w.b().Accept(connection.passive, connection.passive_qp, {.limits = kReads, .private_data = {}});
  EXPECT_EQ(connection.connect.Status(), NdkStatus::kSuccess);
  EXPECT_EQ(w.a().CompleteConnect(connection.active).Status(), NdkStatus::kSuccess);
  EXPECT_EQ(accept.Status(), NdkStatus::kSuccess);
  CompletionQueue* const cq = w.a().side().cq;
  CompletionQueue* const peers = w.b().side().cq;
  std::atomic<size_t> taken = 0;
  std::atomic<bool> stopped = false;
  size_t results = 0;
  std::thread posting([&] {
    while (!stopped) {
      const NdkStatus status = post.make(connection);
      if (status == NdkStatus::kSuccess) ++taken;
      EXPECT_TRUE(status == NdkStatus::kSuccess || status == NdkStatus::kInsufficientResources ||
                  status == NdkStatus::kConnectionInvalid)
          << StatusName(status);
      results += TakeResults(cq);
      TakeResults(peers);
    }
  });
  EXPECT_TRUE(Eventually([&] { return taken > 20; }));
  EXPECT_EQ(w.a().Close(connection.active).Status(), NdkStatus::kSuccess);
  stopped = true;
  posting.join();
  EXPECT_TRUE(Eventually([&] {
    results += TakeResults(cq);
    return results >= taken;
  })) << results
      << " results of " << taken;
  EXPECT_EQ(w.a().Close(connection.active_qp).Status(), NdkStatus::kSuccess);
  EXPECT_EQ(results + TakeResults(cq), taken);
}

void AddConcurrentPosts(Cases* cases) {
  for (const Post& post : kPosts) {
    cases->push_back({42, post.name, [&post](World& w) { CloseUnderPosts(w, post); }});
  }
}

// --- 43 ---

constexpr char kConnectedClient[] = "tests/integration/connected_client";

// The kinds of what the broker holds, each as often as there are such objects. Where it dies meanwhile, its next
// process is asked.
std::vector<std::string> KindsHeld(World& w) {
  std::vector<std::string> kinds;
  EXPECT_TRUE(Becomes([&] {
    kinds = w.broker().Objects();
    return kinds != std::vector<std::string>{RunningBroker::kNoAnswer};
  }));
  for (std::string& object : kinds) object.resize(object.find(' '));
  return kinds;
}

// A connection of a with a client that is a process of its own.
struct Attached {
  std::shared_ptr<client::Connector> connector;
  DisconnectEvents events;
  SocketAddress address;  // The client's, where it listens.
};

Attached AcceptedBy(World& w, ChildProcess& client) {
  Attached made = {.connector = w.a().NewConnector()};
  made.address = SocketAddress::Parse(client.ReadLine()).value_or(SocketAddress());
  EXPECT_EQ(w.a().Connect(made.connector, w.a().NewQueuePair(), made.address).Status(), NdkStatus::kSuccess);
  EXPECT_EQ(w.a().CompleteConnect(made.connector, made.events.callback()).Status(), NdkStatus::kSuccess);
  return made;
}

Attached ConnectedBy(World& w, const TestListener& listener) {
  Attached made = {.connector = listener.Next()};
  EXPECT_EQ(w.a().Accept(made.connector, w.a().NewQueuePair(), {}, made.events.callback()).Status(),
            NdkStatus::kSuccess);
  return made;
}

bool CanListen(Party& party, const SocketAddress& address) {
  const TestListener listener = party.NewListener();
  const bool listens = party.Listen(listener, address).Status() == NdkStatus::kSuccess;
  party.Close(listener.object).Wait();
  return listens;
}

void KillTheClient(World& w, bool listens) {
  const Connection bystanders = w.Establish();
  Traffic traffic(w, bystanders);
  const TestListener listener = w.a().Listening();
  const std::vector<std::string> before = KindsHeld(w);
  std::vector<std::string> command = {kConnectedClient, w.broker().control_socket(), w.on().device, "1"};
  if (!listens) command.push_back(listener.address.ToString());
  ChildProcess client(command);
  client.ReadLine();
  const Attached attached = listens ? AcceptedBy(w, client) : ConnectedBy(w, listener);
  EXPECT_EQ(client.ReadLine(), "there");
  EXPECT_NE(KindsHeld(w), before);
  client.Kill();
  const NdkStatus end = attached.events.Wait().status;
  EXPECT_TRUE(end == NdkStatus::kSuccess || end == NdkStatus::kConnectionAborted) << StatusName(end);
  if (listens) {
    EXPECT_TRUE(Becomes([&] { return CanListen(w.a(), attached.address); }))
        << attached.address.ToString() << " is not free";
  }
  w.a().Close(attached.connector).Wait();
  EXPECT_TRUE(Becomes([&] { return KindsHeld(w) == before; })) << testing::PrintToString(KindsHeld(w));
  EXPECT_EQ(attached.events.count(), 1u);
  traffic.Expect(7);
  w.Disconnect(w.a(), w.b(), bystanders);
  w.Establish();
}

void AddDeaths(Cases* cases) {
  cases->push_back({43, "OfOneThatListensAndHasAccepted", [](World& w) { KillTheClient(w, true); }});
  cases->push_back({43, "OfOneThatHasConnected", [](World& w) { KillTheClient(w, false); }});
}

}  // namespace

Cases CloseCases() {
  Cases cases;
  AddErrors(&cases);
  AddOfEachKind(&cases);
  AddDataObjects(&cases);
  AddQueuePairs(&cases);
  AddWindows(&cases);
  AddEndpoints(&cases);
  AddFunctionalSuccessors(&cases);
  AddReturnOfSuccessors(&cases);
  AddAdapters(&cases);
  AddLastCallbacks(&cases);
  AddRunningCallbacks(&cases);
  AddPendingRequests(&cases);
  AddConcurrentPosts(&cases);
  AddDeaths(&cases);
  return cases;
}

}  // namespace rdmabroker::ndkpi
