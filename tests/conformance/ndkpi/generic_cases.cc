// SPDX-License-Identifier: Apache-2.0

// How calls end, and how adapters are opened.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/blocking.h"
#include "tests/conformance/ndkpi/data_link.h"
#include "tests/conformance/ndkpi/order.h"
#include "tests/conformance/ndkpi/world.h"

namespace rdmabroker::ndkpi {
namespace {

// A create of a's, by any of the client library's functions. The object goes to `made`.
template <typename Object, typename Create>
Call CallCreate(World& w, std::string what, std::shared_ptr<Object>* made, const Create& create) {
  return w.calls().Make(std::move(what), [&](const Call& c) {
    return create([made, done = c.completion()](const client::Outcome& outcome, std::shared_ptr<Object> object) {
      EXPECT_EQ(object != nullptr, outcome.ok());
      if (made != nullptr) {
        *made = std::move(object);
      } else if (object != nullptr) {
        object->Close({});
      }
      done(outcome);
    });
  });
}

Call CreateListener(World& w, const std::shared_ptr<client::Adapter>& adapter,
                    std::shared_ptr<client::Listener>* made = nullptr) {
  return CallCreate(w, "CreateListener", made,
                    [&](auto completion) { return adapter->CreateListener([](const auto&) {}, completion); });
}

Call CreateConnector(World& w, const std::shared_ptr<client::Adapter>& adapter,
                     std::shared_ptr<client::Connector>* made = nullptr) {
  return CallCreate(w, "CreateConnector", made, [&](auto completion) { return adapter->CreateConnector(completion); });
}

Call CreateSharedEndpoint(World& w, const std::shared_ptr<client::Adapter>& adapter,
                          std::shared_ptr<client::SharedEndpoint>* made = nullptr) {
  return CallCreate(w, "CreateSharedEndpoint", made,
                    [&](auto completion) { return adapter->CreateSharedEndpoint(w.a().At(), completion); });
}

Call ReservePort(World& w, const std::shared_ptr<client::Adapter>& adapter,
                 std::shared_ptr<client::Reservation>* made = nullptr) {
  return CallCreate(w, "ReservePort", made,
                    [&](auto completion) { return adapter->ReservePort(w.a().At(), completion); });
}

Call OpenAdapter(World& w, client::Session& session, NdkVersion version,
                 std::shared_ptr<client::Adapter>* made = nullptr) {
  return CallCreate(w, "OpenAdapter", made,
                    [&](auto completion) { return session.OpenAdapter(w.on().device, version, {}, completion); });
}

// --- 1: calls that end inline, each with its status ---

struct InlineRow {
  std::string name;
  NdkStatus status;
  Call (*make)(World& w);
};

std::shared_ptr<client::Adapter> ClosedAdapter(World& w) {
  auto former = w.a().Reopen();
  w.a().Close(former).Wait();
  return former;
}

// The adapter's own instance is not the queue pair's.
QueuePair* ForeignQueuePair(World& w) {
  QueuePair* const qp = w.a().NewQueuePair();
  w.a().Reopen();
  return qp;
}

const std::vector<InlineRow>& InlineRows() {
  static const auto* const kRows = new std::vector<InlineRow>{
      {"CreateListenerOfAClosedAdapter", NdkStatus::kInvalidDeviceState,
       [](World& w) { return CreateListener(w, ClosedAdapter(w)); }},
      {"CreateConnectorOfAClosedAdapter", NdkStatus::kInvalidDeviceState,
       [](World& w) { return CreateConnector(w, ClosedAdapter(w)); }},
      {"CreateSharedEndpointOfAClosedAdapter", NdkStatus::kInvalidDeviceState,
       [](World& w) { return CreateSharedEndpoint(w, ClosedAdapter(w)); }},
      {"ReservePortOfAClosedAdapter", NdkStatus::kInvalidDeviceState,
       [](World& w) { return ReservePort(w, ClosedAdapter(w)); }},
      {"ListenOfAClosedListener", NdkStatus::kInvalidDeviceState,
       [](World& w) {
         const TestListener listener = w.a().NewListener();
         w.a().Close(listener.object).Wait();
         return w.a().Listen(listener, w.a().At());
       }},
      {"ConnectWithAQueuePairOfAnotherInstance", NdkStatus::kInvalidParameterMix,
       [](World& w) {
         QueuePair* const qp = ForeignQueuePair(w);
         return w.a().Connect(w.a().NewConnector(), qp, w.b().Listening().address);
       }},
      {"ConnectWithTooMuchPrivateData", NdkStatus::kInvalidBufferSize,
       [](World& w) {
         return w.a().Connect(w.a().NewConnector(), w.a().NewQueuePair(), w.b().Listening().address,
                              {.private_data = std::string(w.a().info().max_caller_data + 1, 'x')});
       }},
      {"ConnectOfAConnectorThatConnects", NdkStatus::kConnectionActive,
       [](World& w) {
         const Handshake made = w.Request();
         return w.a().Connect(made.active, made.active_qp, w.b().Listening().address);
       }},
      {"ConnectWithSharedEndpointWithTooMuchPrivateData", NdkStatus::kInvalidBufferSize,
       [](World& w) {
         const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
         return w.a().ConnectWithSharedEndpoint(w.a().NewConnector(), w.a().NewQueuePair(), endpoint,
                                                w.b().Listening().address,
                                                {.private_data = std::string(w.a().info().max_caller_data + 1, 'x')});
       }},
      {"CompleteConnectOfAnIdleConnector", NdkStatus::kConnectionInvalid,
       [](World& w) { return w.a().CompleteConnect(w.a().NewConnector()); }},
      {"AcceptOfAConnectorThatWasNotDelivered", NdkStatus::kConnectionInvalid,
       [](World& w) { return w.a().Accept(w.a().NewConnector(), w.a().NewQueuePair()); }},
      {"RejectOfAnIdleConnector", NdkStatus::kConnectionInvalid,
       [](World& w) { return w.a().Reject(w.a().NewConnector()); }},
      {"DisconnectOfAnIdleConnector", NdkStatus::kConnectionInvalid,
       [](World& w) { return w.a().Disconnect(w.a().NewConnector()); }},
      {"ASecondClose", NdkStatus::kSuccess,
       [](World& w) {
         const auto connector = w.a().NewConnector();
         w.a().Close(connector).Wait();
         return w.a().Close(connector);
       }},
      {"CloseOfAMemoryRegion", NdkStatus::kSuccess, [](World& w) {
         return w.a().Close(static_cast<DataObject*>(w.a().side().domain->CreateMemoryRegion(false).object));
       }}};
  return *kRows;
}

void AddInlineEnds(Cases* cases) {
  for (const InlineRow& row : InlineRows()) {
    // That nothing comes any more is checked of every call when the case ends.
    cases->push_back({1, row.name, [&row](World& w) {
                        const Call call = row.make(w);
                        EXPECT_FALSE(call.pending());
                        EXPECT_EQ(call.Status(), row.status);
                        w.Settle();
                      }});
  }
}

// --- 2: calls that pend, each with what its completion brings ---

const std::vector<InlineRow>& PendingRows() {
  static const auto* const kRows = new std::vector<InlineRow>{
      {"OpenAdapter", NdkStatus::kSuccess, [](World& w) { return OpenAdapter(w, w.a().session(), kNdkVersion); }},
      {"OpenAdapterOfAVersionThatIsNot", NdkStatus::kBadVersion,
       [](World& w) { return OpenAdapter(w, w.a().session(), {.major = 9, .minor = 0}); }},
      {"CreateListener", NdkStatus::kSuccess, [](World& w) { return CreateListener(w, w.a().adapter()); }},
      {"CreateConnector", NdkStatus::kSuccess, [](World& w) { return CreateConnector(w, w.a().adapter()); }},
      {"CreateSharedEndpoint", NdkStatus::kSuccess, [](World& w) { return CreateSharedEndpoint(w, w.a().adapter()); }},
      {"CreateSharedEndpointWhereAListenerIs", NdkStatus::kSharingViolation,
       [](World& w) { return w.a().CreateSharedEndpoint(w.a().Listening().address); }},
      {"ReservePort", NdkStatus::kSuccess, [](World& w) { return ReservePort(w, w.a().adapter()); }},
      {"Listen", NdkStatus::kSuccess, [](World& w) { return w.a().Listen(w.a().NewListener(), w.a().At()); }},
      {"ListenWhereAListenerIs", NdkStatus::kSharingViolation,
       [](World& w) { return w.a().Listen(w.a().NewListener(), w.a().Listening().address); }},
      {"ConnectThatIsAccepted", NdkStatus::kSuccess, [](World& w) { return w.Reply().connect; }},
      {"ConnectThatIsRejected", NdkStatus::kConnectionRefused,
       [](World& w) {
         const Handshake made = w.Request();
         w.b().Reject(made.passive);
         return made.connect;
       }},
      {"ConnectThatIsGivenUp", NdkStatus::kCancelled,
       [](World& w) {
         const Handshake made = w.Request();
         w.a().Close(made.active);
         return made.connect;
       }},
      {"CompleteConnect", NdkStatus::kSuccess,
       [](World& w) {
         const Handshake made = w.Reply();
         return w.a().CompleteConnect(made.active);
       }},
      {"Accept", NdkStatus::kSuccess,
       [](World& w) {
         const Handshake made = w.Reply();
         w.a().CompleteConnect(made.active);
         return made.accept;
       }},
      {"Reject", NdkStatus::kSuccess, [](World& w) { return w.b().Reject(w.Request().passive); }},
      {"Disconnect", NdkStatus::kSuccess,
       [](World& w) {
         const Connection connection = w.Establish();
         w.b().Disconnect(connection.passive);
         return w.a().Disconnect(connection.active);
       }},
      {"CloseOfAListenerWithAConnector", NdkStatus::kSuccess,
       [](World& w) {
         const TestListener listener = w.b().Listening();
         const Connection connection = w.Establish(w.a(), w.b(), listener);
         Call close = w.b().Close(listener.object);
         w.b().Close(connection.passive);
         return close;
       }},
      {"CloseOfAQueuePairWithAConnector", NdkStatus::kSuccess, [](World& w) {
         const Connection connection = w.Establish();
         Call close = w.a().Close(connection.active_qp);
         w.a().Close(connection.active);
         return close;
       }}};
  return *kRows;
}

void AddPendingEnds(Cases* cases) {
  for (const InlineRow& row : PendingRows()) {
    cases->push_back({2, row.name, [&row](World& w) {
                        const Call call = row.make(w);
                        EXPECT_TRUE(call.pending());
                        EXPECT_EQ(call.Status(), row.status) << call.Wait().hint;
                        w.Settle();
                      }});
  }
}

// --- 3 to 6 ---

// What a create that is still pending has delivered, and what it delivers.
template <typename Object>
void ExpectOnlyTheCompletionToDeliver(World& w,
                                      Call (*create)(World& w, const std::shared_ptr<client::Adapter>& adapter,
                                                     std::shared_ptr<Object>* made)) {
  const HeldCallback busy;
  const Call blocker = w.calls().Make("CreateConnector", [&](const Call& c) {
    return w.a().adapter()->CreateConnector([busy, done = c.completion()](const client::Outcome& outcome, const auto&) {
      busy.Run();
      done(outcome);
    });
  });
  busy.Await();
  std::shared_ptr<Object> made;
  const Call call = create(w, w.a().adapter(), &made);
  EXPECT_TRUE(call.pending());
  w.b().Settle();
  EXPECT_FALSE(call.ended());
  busy.Release();
  EXPECT_EQ(call.Status(), NdkStatus::kSuccess);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(w.a().Close(made).Status(), NdkStatus::kSuccess);
}

void AddDeliveries(Cases* cases) {
  cases->push_back({3, "OfAListener", [](World& w) { ExpectOnlyTheCompletionToDeliver(w, CreateListener); }});
  cases->push_back({3, "OfAConnector", [](World& w) { ExpectOnlyTheCompletionToDeliver(w, CreateConnector); }});
  cases->push_back(
      {3, "OfASharedEndpoint", [](World& w) { ExpectOnlyTheCompletionToDeliver(w, CreateSharedEndpoint); }});
  cases->push_back({3, "OfAReservation", [](World& w) { ExpectOnlyTheCompletionToDeliver(w, ReservePort); }});
}

template <typename Object>
void ExpectInlineCreate(World& w, const Created<Object>& created) {
  EXPECT_EQ(created.status, NdkStatus::kSuccess);
  ASSERT_NE(created.object, nullptr);
  EXPECT_EQ(w.a().Close(static_cast<DataObject*>(created.object)).Status(), NdkStatus::kSuccess);
}

void AddInlineCreates(Cases* cases) {
  cases->push_back({4, "OfACompletionQueue",
                    [](World& w) { ExpectInlineCreate(w, w.a().side().adapter->CreateCompletionQueue(16, {})); }});
  cases->push_back({4, "OfAProtectionDomain",
                    [](World& w) { ExpectInlineCreate(w, w.a().side().adapter->CreateProtectionDomain()); }});
  cases->push_back(
      {4, "OfAMemoryRegion", [](World& w) { ExpectInlineCreate(w, w.a().side().domain->CreateMemoryRegion(false)); }});
  cases->push_back({.assertion = 4,
                    .name = "OfAMemoryWindow",
                    .run =
                        [](World& w) {
                          const Created<MemoryWindow> made = w.a().side().domain->CreateMemoryWindow();
                          if (!w.lacks()) return ExpectInlineCreate(w, made);
                          EXPECT_EQ(made.status, NdkStatus::kNotSupported);
                          EXPECT_EQ(made.object, nullptr);
                          EXPECT_EQ(w.a().info().max_window_size, 0u);
                        },
                    .lacks = {{"siw", "no memory windows: their create is NOT_SUPPORTED, and max_window_size is 0"}}});
  cases->push_back({4, "OfASharedReceiveQueue", [](World& w) {
                      ExpectInlineCreate(w, w.a().side().domain->CreateSharedReceiveQueue(
                                                {.depth = 16, .max_receive_request_sge = 1, .notification = {}}));
                    }});
  cases->push_back({4, "OfAQueuePair", [](World& w) {
                      DataSide& side = w.a().side();
                      ExpectInlineCreate(w, side.domain->CreateQueuePair({.receive_cq = side.cq,
                                                                          .initiator_cq = side.cq,
                                                                          .receive_queue_depth = 1,
                                                                          .initiator_queue_depth = 1,
                                                                          .max_receive_request_sge = 1,
                                                                          .max_initiator_request_sge = 1}));
                    }});
}

// What is created is used within the create's completion.
void AddUsesInCompletions(Cases* cases) {
  cases->push_back({5, "ListenOfAListener", [](World& w) {
                      Call listen("no Listen");
                      TestListener listener;
                      const Call create = w.calls().Make("CreateListener", [&](const Call& c) {
                        return w.a().adapter()->CreateListener(
                            listener.callback(), [&, done = c.completion()](const auto& outcome, auto made) {
                              listener.object = made;
                              listen = w.a().Listen(listener, w.a().At());
                              done(outcome);
                            });
                      });
                      EXPECT_EQ(create.Status(), NdkStatus::kSuccess);
                      EXPECT_EQ(listen.Status(), NdkStatus::kSuccess);
                      listener.address = AddressOf(listener);
                      w.Establish(w.b(), w.a(), listener);
                    }});
  cases->push_back({5, "ConnectOfAConnector", [](World& w) {
                      const TestListener listener = w.b().Listening();
                      QueuePair* const qp = w.a().NewQueuePair();
                      Call connect("no Connect");
                      const Call create = w.calls().Make("CreateConnector", [&](const Call& c) {
                        return w.a().adapter()->CreateConnector(
                            [&, done = c.completion()](const auto& outcome, auto made) {
                              connect = w.a().Connect(made, qp, listener.address);
                              done(outcome);
                            });
                      });
                      EXPECT_EQ(create.Status(), NdkStatus::kSuccess);
                      w.b().Accept(listener.Next(), w.b().NewQueuePair());
                      EXPECT_EQ(connect.Status(), NdkStatus::kSuccess);
                    }});
  cases->push_back({5, "ConnectThroughASharedEndpoint", [](World& w) {
                      const TestListener listener = w.b().Listening();
                      const auto connector = w.a().NewConnector();
                      QueuePair* const qp = w.a().NewQueuePair();
                      Call connect("no ConnectWithSharedEndpoint");
                      const Call create = w.calls().Make("CreateSharedEndpoint", [&](const Call& c) {
                        return w.a().adapter()->CreateSharedEndpoint(
                            w.a().At(), [&, done = c.completion()](const auto& outcome, auto made) {
                              connect = w.a().ConnectWithSharedEndpoint(connector, qp, made, listener.address);
                              done(outcome);
                            });
                      });
                      EXPECT_EQ(create.Status(), NdkStatus::kSuccess);
                      w.b().Accept(listener.Next(), w.b().NewQueuePair());
                      EXPECT_EQ(connect.Status(), NdkStatus::kSuccess);
                    }});
  cases->push_back({5, "CreateListenerOfAnAdapter", [](World& w) {
                      Call listener("no CreateListener");
                      const Call open = w.calls().Make("OpenAdapter", [&](const Call& c) {
                        return w.a().session().OpenAdapter(w.on().device, kNdkVersion, {},
                                                           [&, done = c.completion()](const auto& outcome, auto made) {
                                                             listener = CreateListener(w, made);
                                                             done(outcome);
                                                           });
                      });
                      EXPECT_EQ(open.Status(), NdkStatus::kSuccess);
                      EXPECT_EQ(listener.Status(), NdkStatus::kSuccess);
                      w.Settle();
                    }});
}

// Closes the connector within its Connect's completion, and lets go of it there.
void CloseInTheFailure(World& w, const SocketAddress& source, const SocketAddress& destination, NdkStatus expected) {
  auto connector = w.a().NewConnector();
  QueuePair* const qp = w.a().NewQueuePair();
  const std::weak_ptr<client::Connector> watched = connector;
  Call close("no Close");
  const Call connect = w.calls().Make("Connect", [&](const Call& c) {
    client::Connector& failing = *connector;
    return failing.Connect(qp, {.source = source, .destination = destination, .limits = {}, .private_data = {}},
                           [&, done = c.completion()](const client::Outcome& outcome) {
                             close = w.a().Close(std::exchange(connector, nullptr));
                             done(outcome);
                           });
  });
  EXPECT_EQ(connect.Status(), expected);
  EXPECT_EQ(close.Status(), NdkStatus::kSuccess);
  w.Settle();
  EXPECT_TRUE(Eventually([&] { return watched.expired(); })) << "something holds the connector after its close";
  EXPECT_EQ(w.a().Close(qp).Status(), NdkStatus::kSuccess) << "something holds the queue pair";
}

void AddClosesInCompletions(Cases* cases) {
  cases->push_back({6, "WhereNobodyListens", [](World& w) {
                      const TestListener gone = w.b().Listening();
                      w.b().Close(gone.object).Wait();
                      CloseInTheFailure(w, w.a().At(), gone.address, NdkStatus::kConnectionRefused);
                    }});
  cases->push_back({6, "WhereTheSourceIsTaken", [](World& w) {
                      const SocketAddress taken = w.a().Listening().address;
                      CloseInTheFailure(w, taken, w.b().Listening().address, NdkStatus::kSharingViolation);
                    }});
  cases->push_back({6, "WhereThePeerRejects", [](World& w) {
                      const TestListener listener = w.b().Listening();
                      listener.Handle([&w](const auto& connector) {
                        w.b().Reject(connector);
                        w.b().Close(connector);
                      });
                      CloseInTheFailure(w, w.a().At(), listener.address, NdkStatus::kConnectionRefused);
                    }});
}

// --- 7 ---

// Each completion is its request's: the answers differ.
void ExpectContextsOfRequests(World& w) {
  constexpr size_t kCount = 3;
  std::array<std::string, kCount> answers;
  std::vector<Call> calls;
  Party& passive = w.b();
  for (size_t i = 0; i < kCount; ++i) {
    const TestListener listener = passive.Listening();
    listener.Handle([&passive, i](const auto& connector) {
      passive.Reject(connector, std::to_string(i));
      passive.Close(connector);
    });
    const auto connector = w.a().NewConnector();
    QueuePair* const qp = w.a().NewQueuePair();
    calls.push_back(w.calls().Make("Connect", [&](const Call& c) {
      return connector->Connect(
          qp, {.source = w.a().At(), .destination = listener.address, .limits = {}, .private_data = {}},
          [&answers, i, connector, done = c.completion()](const client::Outcome& outcome) {
            if (connector->connection_data()) answers[i] = connector->connection_data()->private_data.substr(0, 1);
            done(outcome);
          });
    }));
  }
  for (size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(calls[i].Status(), NdkStatus::kConnectionRefused);
    EXPECT_EQ(answers[i], std::to_string(i));
  }
}

void ExpectContextsOfConnectEvents(World& w) {
  const TestListener one = w.b().Listening(), other = w.b().Listening();
  const Handshake first = w.Request(w.a(), w.b(), one);
  EXPECT_EQ(DataOf(first.passive).local, one.address);
  const Handshake second = w.Request(w.a(), w.b(), other);
  EXPECT_EQ(DataOf(second.passive).local, other.address);
  w.Settle();
  EXPECT_EQ(one.delivered(), 1u);
  EXPECT_EQ(other.delivered(), 1u);
}

void ExpectContextsOfDisconnectEvents(World& w) {
  const Connection one = w.Establish(), other = w.Establish();
  w.a().Disconnect(one.active);
  one.passive_events.Wait();
  w.b().Disconnect(other.passive);
  other.active_events.Wait();
  w.Settle();
  EXPECT_EQ(one.active_events.count(), 0u);
  EXPECT_EQ(one.passive_events.count(), 1u);
  EXPECT_EQ(other.active_events.count(), 1u);
  EXPECT_EQ(other.passive_events.count(), 0u);
}

void ExpectContextsOfResults(World& w) {
  QueuePair* const one = w.a().NewQueuePair(Context(10));
  QueuePair* const other = w.a().NewQueuePair(Context(20));
  for (const uintptr_t context : {11, 12}) EXPECT_EQ(one->Receive(Context(context), {}), NdkStatus::kSuccess);
  for (const uintptr_t context : {21, 22}) EXPECT_EQ(other->Receive(Context(context), {}), NdkStatus::kSuccess);
  one->Flush();
  other->Flush();
  std::vector<std::pair<uintptr_t, uintptr_t>> contexts;
  for (const ResultEx& result : w.a().side().Results(4)) {
    contexts.emplace_back(reinterpret_cast<uintptr_t>(result.qp_context),
                          reinterpret_cast<uintptr_t>(result.request_context));
  }
  std::sort(contexts.begin(), contexts.end());
  const std::vector<std::pair<uintptr_t, uintptr_t>> expected = {{10, 11}, {10, 12}, {20, 21}, {20, 22}};
  EXPECT_EQ(contexts, expected);
}

void ExpectContextsOfNotifications(World& w) {
  const Order order;
  DataSide& side = w.a().side();
  std::vector<CompletionQueue*> queues;
  for (const char* name : {"one", "other"}) {
    queues.push_back(side.adapter->CreateCompletionQueue(16, [order, name](NdkStatus) { order.Add(name); }).object);
    queues.back()->Arm(CqNotify::kAny);
  }
  for (size_t i = queues.size(); i > 0; --i) {
    QueuePair* const qp = side.domain
                              ->CreateQueuePair({.receive_cq = queues[i - 1],
                                                 .initiator_cq = queues[i - 1],
                                                 .receive_queue_depth = 1,
                                                 .initiator_queue_depth = 1,
                                                 .max_receive_request_sge = 1,
                                                 .max_initiator_request_sge = 1})
                              .object;
    EXPECT_EQ(qp->Receive(Context(1), {}), NdkStatus::kSuccess);
    qp->Flush();
    EXPECT_TRUE(Eventually([&] { return order.all().size() == queues.size() - i + 1; }));
    EXPECT_EQ(w.a().Close(qp).Status(), NdkStatus::kSuccess);
  }
  for (CompletionQueue* const queue : queues) EXPECT_EQ(w.a().Close(queue).Status(), NdkStatus::kSuccess);
  EXPECT_EQ(order.all(), (std::vector<std::string>{"other", "one"}));
}

void AddContexts(Cases* cases) {
  cases->push_back({7, "OfRequests", ExpectContextsOfRequests});
  cases->push_back({7, "OfConnectEvents", ExpectContextsOfConnectEvents});
  cases->push_back({7, "OfDisconnectEvents", ExpectContextsOfDisconnectEvents});
  cases->push_back({7, "OfResults", ExpectContextsOfResults});
  cases->push_back({7, "OfNotifications", ExpectContextsOfNotifications});
}

// --- 8 ---

struct ConnectRow {
  std::string name;
  NdkStatus status;
  Call (*connect)(World& w);
  std::string settings = {};
};

Call ConnectTo(World& w, const SocketAddress& destination, const SocketAddress& source = {}) {
  return w.a().Connect(w.a().NewConnector(), w.a().NewQueuePair(), destination, {.source = source});
}

// Of a host that is none of the device's own; nobody asks what listens there.
constexpr uint16_t kAnyPort = 7;

void AddStatuses(Cases* cases) {
  static const auto* const kRows = new std::vector<ConnectRow>{
      {"InsufficientResources", NdkStatus::kInsufficientResources,
       [](World& w) {
         const TestListener all = w.a().Listening();
         return ConnectTo(w, all.address);
       },
       "limits.endpoints_per_uid = 1"},
      {"NetworkUnreachable", NdkStatus::kNetworkUnreachable,
       [](World& w) {
         return ConnectTo(w, {w.on().no_route, kAnyPort});
       }},
      {"HostUnreachable", NdkStatus::kHostUnreachable,
       [](World& w) {
         return ConnectTo(w, {w.on().no_host, kAnyPort});
       }},
      {"ConnectionRefused", NdkStatus::kConnectionRefused,
       [](World& w) {
         const TestListener gone = w.b().Listening();
         w.b().Close(gone.object).Wait();
         return ConnectTo(w, gone.address);
       }},
      {"IoTimeout", NdkStatus::kIoTimeout,
       [](World& w) {
         return ConnectTo(w, {w.on().silent, kAnyPort});
       },
       "timeouts.connect_ms = 200"},
      {"SharingViolation", NdkStatus::kSharingViolation,
       [](World& w) { return ConnectTo(w, w.b().Listening().address, w.a().Listening().address); }},
      {"InvalidAddress", NdkStatus::kInvalidAddress,
       [](World& w) {
         return ConnectTo(w, w.b().Listening().address, {w.on().foreign, 0});
       }},
      // Ports that the brokers of other test processes leave alone.
      {"TooManyAddresses", NdkStatus::kTooManyAddresses,
       [](World& w) {
         const TestListener all = w.a().Listening();
         return ConnectTo(w, w.b().Listening().address);
       },
       "limits.first_ephemeral_port = 61801\nlimits.last_ephemeral_port = 61801"},
      {"AddressAlreadyExists", NdkStatus::kAddressAlreadyExists, [](World& w) {
         const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
         const TestListener listener = w.b().Listening();
         w.EstablishThrough(endpoint, w.a(), w.b(), listener);
         return w.a().ConnectWithSharedEndpoint(w.a().NewConnector(), w.a().NewQueuePair(), endpoint, listener.address);
       }}};
  for (const ConnectRow& row : *kRows) {
    cases->push_back({8, row.name,
                      [&row](World& w) {
                        // Inline, or by the completion.
                        const Call connect = row.connect(w);
                        EXPECT_EQ(connect.Status(), row.status) << connect.Wait().hint;
                      },
                      row.settings});
  }
}

// --- 9 to 11 ---

void AddVersions(Cases* cases) {
  for (const uint16_t major : {0, 1, 3, 0xFFFF}) {
    cases->push_back({.assertion = 9,
                      .name = "Major" + std::to_string(major),
                      .run =
                          [major](World& w) {
                            const NdkVersion version = {.major = major, .minor = 0};
                            EXPECT_EQ(OpenAdapter(w, w.a().session(), version).Status(), NdkStatus::kBadVersion);
                          },
                      .core_only = true});
  }
  for (uint16_t minor = 0; minor <= kNdkVersion.minor; ++minor) {
    cases->push_back({10, "Minor" + std::to_string(minor), [minor](World& w) {
                        std::shared_ptr<client::Adapter> made;
                        const NdkVersion version = {.major = kNdkVersion.major, .minor = minor};
                        EXPECT_EQ(OpenAdapter(w, w.a().session(), version, &made).Status(), NdkStatus::kSuccess);
                        ASSERT_NE(made, nullptr);
                        EXPECT_EQ(made->info().version, kNdkVersion);
                        EXPECT_EQ(made->data()->info().version, kNdkVersion);
                        const DataSide side(made->data(), false, SideOptions());
                        EXPECT_EQ(w.a().Close(w.a().Listening().object).Status(), NdkStatus::kSuccess);
                      }});
  }
  for (const int minor : {kNdkVersion.minor + 1, 0xFFFF}) {
    cases->push_back({.assertion = 11,
                      .name = "Minor" + std::to_string(minor),
                      .run =
                          [minor](World& w) {
                            const NdkVersion version = {.major = kNdkVersion.major,
                                                        .minor = static_cast<uint16_t>(minor)};
                            EXPECT_EQ(OpenAdapter(w, w.a().session(), version).Status(), NdkStatus::kBadVersion);
                          },
                      .core_only = true});
  }
}

// --- 13 to 15 ---

// An instance of a's adapter besides the one that a's data objects are of.
struct TwoInstances {
  explicit TwoInstances(World& w) : foreign(ForeignQueuePair(w)), own(w.a().adapter()->data(), false, SideOptions()) {}

  QueuePair* const foreign;
  DataSide own;
};

void RefuseTheMixInConnect(World& w) {
  const TwoInstances instances(w);
  const TestListener listener = w.b().Listening();
  const auto connector = w.a().NewConnector();
  EXPECT_EQ(w.a().Connect(connector, instances.foreign, listener.address).Status(), NdkStatus::kInvalidParameterMix);
  w.Settle();
  EXPECT_EQ(listener.delivered(), 0u);
  const Call connect = w.a().Connect(connector, instances.own.qp, listener.address);
  w.b().Accept(listener.Next(), w.b().NewQueuePair());
  EXPECT_EQ(connect.Status(), NdkStatus::kSuccess);
  w.a().Close(connector).Wait();
}

void RefuseTheMixInConnectWithSharedEndpoint(World& w) {
  const auto foreign_endpoint = w.a().NewSharedEndpoint(w.a().At());
  const auto strange_endpoint = w.NewParty().NewSharedEndpoint(w.a().At());
  const TwoInstances instances(w);
  const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
  const TestListener listener = w.b().Listening();
  const auto connector = w.a().NewConnector();
  const auto connect = [&](QueuePair* qp, const auto& from) {
    return w.a().ConnectWithSharedEndpoint(connector, qp, from, listener.address);
  };
  EXPECT_EQ(connect(instances.foreign, endpoint).Status(), NdkStatus::kInvalidParameterMix);
  EXPECT_EQ(connect(instances.own.qp, foreign_endpoint).Status(), NdkStatus::kInvalidParameterMix);
  EXPECT_EQ(connect(instances.own.qp, strange_endpoint).Status(), NdkStatus::kInvalidParameter);
  w.Settle();
  EXPECT_EQ(listener.delivered(), 0u);
  w.a().Close(connector).Wait();
}

void RefuseTheMixInAccept(World& w) {
  const TwoInstances instances(w);
  const TestListener listener = w.a().Listening();
  const Call connect = w.b().Connect(w.b().NewConnector(), w.b().NewQueuePair(), listener.address);
  const auto connector = listener.Next();
  EXPECT_EQ(w.a().Accept(connector, instances.foreign).Status(), NdkStatus::kInvalidParameterMix);
  w.ExpectPending(connect);
  w.a().Accept(connector, instances.own.qp);
  EXPECT_EQ(connect.Status(), NdkStatus::kSuccess);
  w.a().Close(connector).Wait();
}

void RefuseTheMixOfQueues(World& w) {
  const TwoInstances instances(w);
  DataSide& other = w.a().side();
  const DataSide& own = instances.own;
  const auto create = [&](CompletionQueue* receive_cq, CompletionQueue* initiator_cq, SharedReceiveQueue* srq) {
    return own.domain
        ->CreateQueuePair({.receive_cq = receive_cq,
                           .initiator_cq = initiator_cq,
                           .srq = srq,
                           .receive_queue_depth = 1,
                           .initiator_queue_depth = 1,
                           .max_receive_request_sge = 1,
                           .max_initiator_request_sge = 1})
        .status;
  };
  SharedReceiveQueue* const others_srq = w.a().NewSharedReceiveQueue({.depth = 1, .max_receive_request_sge = 1});
  EXPECT_EQ(create(other.cq, own.cq, nullptr), NdkStatus::kInvalidParameter);
  EXPECT_EQ(create(own.cq, other.cq, nullptr), NdkStatus::kInvalidParameter);
  EXPECT_EQ(create(own.cq, own.cq, others_srq), NdkStatus::kInvalidParameter);
}

void AddInstances(Cases* cases) {
  cases->push_back({13, "OpenedThreeTimes", [](World& w) {
                      const auto first = w.a().adapter();
                      const TestListener one = w.a().Listening();
                      w.a().Reopen();
                      EXPECT_NE(w.a().adapter(), first);
                      const TestListener other = w.a().Listening();
                      w.a().Reopen();
                      EXPECT_EQ(w.a().info(), first->info());
                      EXPECT_NE(w.a().adapter()->data(), first->data());
                      for (const TestListener* listener : {&one, &other}) w.Request(w.b(), w.a(), *listener);
                      const Call close = w.a().Close(first);
                      w.ExpectPending(close);
                      w.Request(w.b(), w.a(), other);
                    }});
  cases->push_back({13, "ConnectOfBothIsRefused", RefuseTheMixInConnect});
  cases->push_back({13, "ConnectWithSharedEndpointOfBothIsRefused", RefuseTheMixInConnectWithSharedEndpoint});
  cases->push_back({13, "AcceptOfBothIsRefused", RefuseTheMixInAccept});
  cases->push_back({13, "AQueuePairOfBothIsRefused", RefuseTheMixOfQueues});
}

void ExpectNoExtension(const Extensible& object) {
  for (const ExtensionId& unknown : {ExtensionId{}, ExtensionId{0x12, 0x34, 0x56, 0x78, 0x9A, 0xBC}}) {
    const void* functions = &object;
    EXPECT_EQ(object.QueryExtension(unknown, kNdkVersion, &functions), NdkStatus::kNotSupported);
    EXPECT_EQ(functions, nullptr);
  }
}

void AddQueries(Cases* cases) {
  const auto query = [cases](std::string name, size_t room, NdkStatus status) {
    cases->push_back({.assertion = 14,
                      .name = std::move(name),
                      .run =
                          [room, status](World& w) {
                            AdapterInfo info = {.vendor_id = 0xABCDEF};
                            const AdapterInfo before = info;
                            size_t size = room;
                            EXPECT_EQ(w.a().adapter()->QueryInfo(&info, &size), status);
                            EXPECT_EQ(size, sizeof(AdapterInfo));
                            EXPECT_EQ(info, status == NdkStatus::kSuccess ? w.a().info() : before);
                          },
                      .core_only = true});
  };
  query("NoRoom", 0, NdkStatus::kBufferTooSmall);
  query("AByteTooFew", sizeof(AdapterInfo) - 1, NdkStatus::kBufferTooSmall);
  query("TheExactSize", sizeof(AdapterInfo), NdkStatus::kSuccess);
  query("MoreThanThat", sizeof(AdapterInfo) + 1, NdkStatus::kSuccess);
}

// What has an extension to ask for; the parts of the data plane's own object may be missing on an adapter.
struct ExtensibleRow {
  const char* name;
  std::function<const Extensible*(World& w)> make;
  bool core_only = false;
};

void AddExtensions(Cases* cases) {
  const ExtensibleRow rows[] = {
      {"AnAdapter", [](World& w) { return w.a().adapter().get(); }, true},
      {"AListener", [](World& w) { return w.a().NewListener().object.get(); }, true},
      {"AConnector", [](World& w) { return w.a().NewConnector().get(); }, true},
      {"ASharedEndpoint", [](World& w) { return w.a().NewSharedEndpoint(w.a().At()).get(); }},
      {"AnAdaptersDataSide", [](World& w) { return w.a().side().adapter; }},
      {"AProtectionDomain", [](World& w) { return w.a().side().domain; }},
      {"ACompletionQueue", [](World& w) { return w.a().side().cq; }},
      {"AQueuePair", [](World& w) { return w.a().NewQueuePair(); }},
      {"ASharedReceiveQueue",
       [](World& w) { return w.a().NewSharedReceiveQueue({.depth = 1, .max_receive_request_sge = 1}); }},
  };
  for (const ExtensibleRow& row : rows) {
    cases->push_back({.assertion = 15,
                      .name = row.name,
                      .run = [make = row.make](World& w) { ExpectNoExtension(*make(w)); },
                      .core_only = row.core_only});
  }
  cases->push_back({15, "AMemoryRegion", [](World& w) {
                      const Created<MemoryRegion> region = w.a().side().domain->CreateMemoryRegion(false);
                      ExpectNoExtension(*region.object);
                      CloseAndWait(region.object);
                    }});
  cases->push_back({.assertion = 15,
                    .name = "AMemoryWindow",
                    .run =
                        [](World& w) {
                          const Created<MemoryWindow> window = w.a().side().domain->CreateMemoryWindow();
                          if (w.lacks()) {
                            EXPECT_EQ(window.status, NdkStatus::kNotSupported);
                            return;
                          }
                          ExpectNoExtension(*window.object);
                          CloseAndWait(window.object);
                        },
                    .lacks = kNoWindows});
}

}  // namespace

Cases GenericCases() {
  Cases cases;
  AddInlineEnds(&cases);
  AddPendingEnds(&cases);
  AddDeliveries(&cases);
  AddInlineCreates(&cases);
  AddUsesInCompletions(&cases);
  AddClosesInCompletions(&cases);
  AddContexts(&cases);
  AddStatuses(&cases);
  AddVersions(&cases);
  AddInstances(&cases);
  AddQueries(&cases);
  AddExtensions(&cases);
  return cases;
}

}  // namespace rdmabroker::ndkpi
