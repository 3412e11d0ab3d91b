// SPDX-License-Identifier: Apache-2.0

// Closes where nobody expects them, on one adapter: within callbacks, beside posts, and before further calls.
//
//   closing_test fake|iwarp|rxe|siw [GTEST_OPTION ...]

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/blocking.h"
#include "dataplane/callback_thread.h"
#include "tests/conformance/misuse/callbacks.h"
#include "tests/conformance/misuse/functions.h"
#include "tests/conformance/misuse/graph.h"
#include "tests/conformance/misuse/kind.h"
#include "tests/conformance/ndkpi/surroundings.h"
#include "tests/conformance/ndkpi/world.h"
#include "tests/random_seed.h"

namespace rdmabroker::misuse {
namespace {

using ndkpi::World;

// --- Within callbacks ---

void CloseEachPartIn(World& w, const CallbackRow& row) {
  for (size_t part = 0; part < kKindNames.size(); ++part) {
    SCOPED_TRACE(kKindNames[part]);
    Graph g(w, row.session);
    row.run(g, Once([&] { g.Close(static_cast<Kind>(part)); }));
  }
}

// Of all rows together more than a hundred, also where the kernel is emulated.
constexpr int kOrders = 5;

void CloseInAnyOrderIn(World& w, const CallbackRow& row) {
  const uint32_t seed = RandomSeed();
  // Whatever ends this process, the last line tells by which seed.
  std::cerr << "RDMA_BROKER_SEED=" << seed << std::endl;
  std::mt19937 random(seed);
  std::array<size_t, kKindNames.size()> order;
  std::iota(order.begin(), order.end(), 0);
  for (int i = 0; i < kOrders && !testing::Test::HasFailure(); ++i) {
    std::shuffle(order.begin(), order.end(), random);
    std::string called = "RDMA_BROKER_SEED=" + std::to_string(seed) + " closes";
    for (const size_t part : order) called += std::string(", ") + kKindNames[part];
    SCOPED_TRACE(called);
    Graph g(w, row.session);
    row.run(g, Once([&] {
              for (const size_t part : order) g.Close(static_cast<Kind>(part));
            }));
  }
}

struct WaitRow {
  const char* function;
  std::function<NdkStatus(Graph& g)> wait;
};

const WaitRow kWaits[] = {
    {"BlockingListAdapters",
     [](Graph& g) { return client::BlockingListAdapters(g.world.a().session()).outcome.status; }},
    {"BlockingOpenAdapter",
     [](Graph& g) { return client::BlockingOpenAdapter(g.world.a().session(), g.world.on().device).outcome.status; }},
    {"BlockingCreateSharedEndpoint",
     [](Graph& g) { return client::BlockingCreateSharedEndpoint(g.adapter, g.world.a().At()).outcome.status; }},
    {"BlockingReservePort",
     [](Graph& g) { return client::BlockingReservePort(g.adapter, g.world.a().At()).outcome.status; }},
    {"BlockingConnect", [](Graph& g) { return client::BlockingConnect(g.adapter, g.spare, {}).outcome.status; }},
    {"BlockingConnect(SharedEndpoint)",
     [](Graph& g) { return client::BlockingConnect(g.adapter, g.spare, g.endpoint, {}).outcome.status; }},
    {"BlockingAccept", [](Graph& g) { return client::BlockingAccept(g.connector, g.spare, {}).status; }},
    {"BlockingReject", [](Graph& g) { return client::BlockingReject(g.connector, "").status; }},
    {"BlockingDisconnect", [](Graph& g) { return client::BlockingDisconnect(g.connector).status; }},
    {"BlockingClose", [](Graph& g) { return client::BlockingClose(g.adapter); }},
    {"BlockingClose(DataObject)", [](Graph& g) { return client::BlockingClose(g.qp); }},
    {"BlockingListener.Listen",
     [](Graph& g) { return client::BlockingListener::Listen(g.adapter, g.world.a().At()).outcome.status; }},
};

// On the thread of whoever gives the last reference back a close's completion may wait.
void WaitForNothingIn(World& w, const CallbackRow& row) {
  Graph g(w, row.session);
  const auto listening = client::BlockingListener::Listen(g.adapter, w.a().At());
  ASSERT_TRUE(listening.outcome.ok()) << listening.outcome.hint;
  const std::thread::id own = std::this_thread::get_id();
  row.run(g, Once([&] {
            if (std::this_thread::get_id() == own) return;
            EXPECT_TRUE(OnCallbackThread());
            for (const WaitRow& wait : kWaits) {
              EXPECT_EQ(wait.wait(g), NdkStatus::kInvalidDeviceState) << wait.function;
            }
            EXPECT_EQ(listening.object->Next().outcome.status, NdkStatus::kInvalidDeviceState);
          }));
  EXPECT_FALSE(OnCallbackThread());
}

// --- Beside posts ---

struct PostRow {
  const char* name;
  NdkStatus (*post)(QueuePair& qp, QueuePair& peer);
};

const PostRow kPosts[] = {
    {"Receives", [](QueuePair& qp, QueuePair&) { return qp.Receive(Context(1), {}); }},
    {"Sends",
     [](QueuePair& qp, QueuePair& peer) {
       peer.Receive(nullptr, {});
       return qp.Send(Context(1), {}, 0);
     }},
    {"Reads", [](QueuePair& qp, QueuePair&) { return qp.Read(Context(1), {}, {}, 0); }},
    {"Writes", [](QueuePair& qp, QueuePair&) { return qp.Write(Context(1), {}, {}, kOpDefer); }},
};

// What ends the connection, or the queue pair, while it is posted to. Returns the close of the queue pair, if that is
// it.
struct EndRow {
  const char* name;
  ndkpi::Call (*end)(World& w, const ndkpi::Connection& connection);
};

const ndkpi::Call kNoClose("no Close");

const EndRow kEnds[] = {
    {"Flush",
     [](World&, const ndkpi::Connection& c) {
       c.active_qp->Flush();
       return kNoClose;
     }},
    {"FlushOfThePeer",
     [](World&, const ndkpi::Connection& c) {
       c.passive_qp->Flush();
       return kNoClose;
     }},
    {"Disconnect",
     [](World& w, const ndkpi::Connection& c) {
       w.b().Disconnect(c.passive);
       // With requests under way it may end as an abort.
       w.a().Disconnect(c.active).Wait();
       return kNoClose;
     }},
    {"Close", [](World& w, const ndkpi::Connection& c) { return w.a().Close(c.active_qp); }},
    {"CloseOfBoth",
     [](World& w, const ndkpi::Connection& c) {
       ndkpi::Call close = w.a().Close(c.active_qp);
       w.a().Close(c.active);
       return close;
     }},
};

size_t TakeResults(CompletionQueue* cq) {
  std::array<ResultEx, 16> results;
  return cq->GetResultsEx(results);
}

// Each post that is taken gives one result, before the close of the queue pair has ended.
void EndUnderPosts(World& w, const PostRow& row, const EndRow& end) {
  CompletionQueue* const cq = w.a().NewCompletionQueue(4096, {});
  CompletionQueue* const peers_cq = w.b().side().cq;
  QueuePair* const qp = w.a().NewQueuePair({.receive_cq = cq,
                                            .initiator_cq = cq,
                                            .receive_queue_depth = 64,
                                            .initiator_queue_depth = 64,
                                            .max_receive_request_sge = 1,
                                            .max_initiator_request_sge = 1});
  const ndkpi::Connection connection = w.Establish(qp, w.b().NewQueuePair(), {.inbound = 4, .outbound = 4});
  // The posting thread's, which goes on after the close.
  qp->AddReference();
  std::atomic<size_t> taken = 0, refused = 0;
  std::atomic<bool> stopped = false;
  size_t results = 0;
  std::thread posting([&] {
    while (!stopped) {
      const NdkStatus status = row.post(*qp, *connection.passive_qp);
      if (status == NdkStatus::kSuccess) {
        ++taken;
      } else {
        ++refused;
        EXPECT_TRUE(status == NdkStatus::kInsufficientResources || status == NdkStatus::kConnectionInvalid)
            << StatusName(status);
      }
      results += TakeResults(cq);
      TakeResults(peers_cq);
    }
  });
  EXPECT_TRUE(Eventually([&] { return taken > 20; }));
  const ndkpi::Call closing = end.end(w, connection);
  const size_t posts = taken + refused;
  EXPECT_TRUE(Eventually([&] { return taken + refused > posts + 20; }));
  stopped = true;
  posting.join();
  w.a().Close(connection.active).Wait();
  const ndkpi::Call close = closing.pending() ? closing : w.a().Close(qp);
  EXPECT_TRUE(Eventually([&] { return (results += TakeResults(cq)) >= taken; }));
  EXPECT_EQ(results, taken);
  qp->ReleaseReference();
  EXPECT_EQ(close.Status(), NdkStatus::kSuccess);
}

// --- Before further calls ---

// A call of an object whose close is pending. Nothing: the function has no status.
struct UseRow {
  const char* function;
  std::function<std::optional<NdkStatus>(Graph& g)> use;
};

// An object that was made nevertheless.
template <typename Object>
NdkStatus CloseMade(const Created<Object>& made) {
  if (made.object != nullptr) made.object->Close({});
  return made.status;
}

template <typename Object>
client::CreateCompletion<Object> Nobody() {
  return [](const client::Outcome&, const std::shared_ptr<Object>&) { ADD_FAILURE() << "a call was refused and ends"; };
}
void NobodyEnds(const client::Outcome&) { ADD_FAILURE() << "a call was refused and ends"; }

#define WITHOUT_STATUS(expression)           \
  [](Graph& g) -> std::optional<NdkStatus> { \
    (void)(expression);                      \
    return std::nullopt;                     \
  }

const UseRow kUses[] = {
    {"BrokerObject.Close",
     [](Graph& g) {
       for (const std::shared_ptr<client::BrokerObject>& object :
            std::initializer_list<std::shared_ptr<client::BrokerObject>>{g.adapter, g.listener, g.endpoint,
                                                                         g.reservation, g.connector}) {
         EXPECT_EQ(object->Close([] { ADD_FAILURE() << "a second close ends"; }), NdkStatus::kSuccess);
       }
       return std::nullopt;
     }},
    {"BrokerObject.OnSessionEnd", [](Graph& g) { return g.connector->OnSessionEnd([](NdkStatus) { ADD_FAILURE(); }); }},
    {"Extensible.QueryExtension",
     [](Graph& g) {
       const void* functions = nullptr;
       return g.connector->QueryExtension({}, kNdkVersion, &functions);
     }},
    {"Adapter.info", WITHOUT_STATUS(g.adapter->info())},
    {"Adapter.QueryInfo",
     [](Graph& g) {
       AdapterInfo info;
       size_t size = 0;
       return g.adapter->QueryInfo(&info, &size);
     }},
    {"Adapter.client_ends_connections", WITHOUT_STATUS(g.adapter->client_ends_connections())},
    {"Adapter.data", WITHOUT_STATUS(g.adapter->data())},
    {"Adapter.CreateListener",
     [](Graph& g) { return g.adapter->CreateListener([](const auto&) {}, Nobody<client::Listener>()); }},
    {"Adapter.CreateSharedEndpoint",
     [](Graph& g) { return g.adapter->CreateSharedEndpoint(g.world.a().At(), Nobody<client::SharedEndpoint>()); }},
    {"Adapter.CreateSharedEndpoint(Reservation)",
     [](Graph& g) { return g.adapter->CreateSharedEndpoint(g.reservation, Nobody<client::SharedEndpoint>()); }},
    {"Adapter.ReservePort",
     [](Graph& g) { return g.adapter->ReservePort(g.world.a().At(), Nobody<client::Reservation>()); }},
    {"Adapter.CreateConnector", [](Graph& g) { return g.adapter->CreateConnector(Nobody<client::Connector>()); }},
    {"Listener.Listen", [](Graph& g) { return g.listener->Listen(g.world.a().At(), NobodyEnds); }},
    {"Listener.Listen(Reservation)", [](Graph& g) { return g.listener->Listen(g.reservation, NobodyEnds); }},
    {"Listener.ControlConnectEvents", [](Graph& g) { return g.listener->ControlConnectEvents(true); }},
    {"Listener.GetLocalAddress", WITHOUT_STATUS(g.listener->GetLocalAddress(nullptr, nullptr))},
    {"Listener.address", WITHOUT_STATUS(g.listener->address())},
    {"AddressHolder.address", WITHOUT_STATUS(g.endpoint->address())},
    {"AddressHolder.OnAddressEvent",
     [](Graph& g) { return g.reservation->OnAddressEvent([](bool) { ADD_FAILURE(); }); }},
    {"SharedEndpoint.GetLocalAddress", WITHOUT_STATUS(g.endpoint->GetLocalAddress(nullptr, nullptr))},
    {"Connector.Connect",
     [](Graph& g) {
       return g.connector->Connect(g.qp, {.source = g.world.a().At(), .destination = g.world.b().At(9)}, NobodyEnds);
     }},
    {"Connector.ConnectWithSharedEndpoint",
     [](Graph& g) {
       return g.connector->ConnectWithSharedEndpoint(g.qp, g.endpoint, {.destination = g.world.b().At(9)}, NobodyEnds);
     }},
    {"Connector.CompleteConnect", [](Graph& g) { return g.connector->CompleteConnect({}, NobodyEnds); }},
    {"Connector.Accept", [](Graph& g) { return g.connector->Accept(g.qp, {}, {}, NobodyEnds); }},
    {"Connector.Reject", [](Graph& g) { return g.connector->Reject("", NobodyEnds); }},
    {"Connector.Disconnect", [](Graph& g) { return g.connector->Disconnect(NobodyEnds); }},
    {"Connector.GetConnectionData",
     WITHOUT_STATUS(g.connector->GetConnectionData(nullptr, nullptr, nullptr, nullptr))},
    {"Connector.GetLocalAddress", WITHOUT_STATUS(g.connector->GetLocalAddress(nullptr, nullptr))},
    {"Connector.GetPeerAddress", WITHOUT_STATUS(g.connector->GetPeerAddress(nullptr, nullptr))},
    {"Connector.adapter", WITHOUT_STATUS(g.connector->adapter())},
    {"Connector.connection_data", WITHOUT_STATUS(g.connector->connection_data())},
    {"DataObject.AddReference", WITHOUT_STATUS((g.qp->AddReference(), g.qp->ReleaseReference()))},
    {"DataObject.ReleaseReference", WITHOUT_STATUS((g.cq->AddReference(), g.cq->ReleaseReference()))},
    {"DataAdapter.info", WITHOUT_STATUS(g.data->info())},
    {"DataAdapter.CreateProtectionDomain", WITHOUT_STATUS(CloseMade(g.data->CreateProtectionDomain()))},
    {"DataAdapter.CreateCompletionQueue", WITHOUT_STATUS(CloseMade(g.data->CreateCompletionQueue(4, {})))},
    {"ProtectionDomain.CreateMemoryRegion", WITHOUT_STATUS(CloseMade(g.domain->CreateMemoryRegion(false)))},
    {"ProtectionDomain.CreateMemoryWindow", WITHOUT_STATUS(CloseMade(g.domain->CreateMemoryWindow()))},
    {"ProtectionDomain.CreateSharedReceiveQueue",
     WITHOUT_STATUS(CloseMade(g.domain->CreateSharedReceiveQueue({.depth = 4, .max_receive_request_sge = 1})))},
    {"ProtectionDomain.CreateQueuePair",
     WITHOUT_STATUS(CloseMade(g.domain->CreateQueuePair(
         {.receive_cq = g.cq, .initiator_cq = g.cq, .srq = g.srq, .initiator_queue_depth = 4})))},
    {"CompletionQueue.GetResults",
     [](Graph& g) {
       Result result;
       g.cq->GetResults({&result, 1});
       return std::nullopt;
     }},
    {"CompletionQueue.GetResultsEx",
     [](Graph& g) {
       ResultEx result;
       g.cq->GetResultsEx({&result, 1});
       return std::nullopt;
     }},
    {"CompletionQueue.Arm", WITHOUT_STATUS(g.cq->Arm(CqNotify::kAny))},
    {"CompletionQueue.Resize", WITHOUT_STATUS(g.cq->Resize(65))},
    {"CompletionQueue.ControlInterruptModeration", WITHOUT_STATUS(g.cq->ControlInterruptModeration(1, 1))},
    {"SharedReceiveQueue.Receive", WITHOUT_STATUS(g.srq->Receive(nullptr, {}))},
    {"SharedReceiveQueue.Modify", WITHOUT_STATUS(g.srq->Modify(8, 4))},
    {"MemoryRegion.Register",
     [](Graph& g) { return g.region->Register(g.memory.data(), g.memory.size(), kMrAllowLocalRead); }},
    {"MemoryRegion.Deregister", WITHOUT_STATUS(g.region->Deregister())},
    {"MemoryRegion.InitializeFastRegister", [](Graph& g) { return g.region->InitializeFastRegister(1, true); }},
    {"MemoryRegion.local_token", WITHOUT_STATUS(g.region->local_token())},
    {"MemoryRegion.remote_token", WITHOUT_STATUS(g.region->remote_token())},
    {"MemoryWindow.remote_token", WITHOUT_STATUS(g.window == nullptr ? RemoteToken() : g.window->remote_token())},
    {"QueuePair.Send", [](Graph& g) { return g.qp->Send(nullptr, {}, 0); }},
    {"QueuePair.SendAndInvalidate", [](Graph& g) { return g.qp->SendAndInvalidate(nullptr, {}, 0, {}); }},
    {"QueuePair.Receive", [](Graph& g) { return g.qp->Receive(nullptr, {}); }},
    {"QueuePair.Read", [](Graph& g) { return g.qp->Read(nullptr, {}, {}, 0); }},
    {"QueuePair.Write", [](Graph& g) { return g.qp->Write(nullptr, {}, {}, 0); }},
    {"QueuePair.Bind",
     [](Graph& g) {
       return g.qp->Bind(nullptr, g.region, g.window, g.memory.data(), g.memory.size(), kOpAllowRemoteRead);
     }},
    {"QueuePair.FastRegister",
     [](Graph& g) {
       void* const pages[] = {g.memory.data()};
       return g.qp->FastRegister(nullptr, g.region, pages, 0, 1, 0, 0);
     }},
    {"QueuePair.Invalidate(MemoryRegion)", [](Graph& g) { return g.qp->Invalidate(nullptr, g.region, 0); }},
    {"QueuePair.Invalidate(MemoryWindow)", [](Graph& g) { return g.qp->Invalidate(nullptr, g.window, 0); }},
    {"QueuePair.Flush", WITHOUT_STATUS(g.qp->Flush())},
    {"QueuePair.WatchAlone", WITHOUT_STATUS(g.qp->WatchAlone())},
    {"QueuePair.Attach", [](Graph& g) { return g.qp->Attach({}, {}); }},
    {"QueuePair.Disconnect",
     [](Graph& g) { return g.qp->Disconnect(std::chrono::milliseconds(1), [](NdkStatus) { ADD_FAILURE(); }); }},
    {"QueuePair.number", WITHOUT_STATUS(g.qp->number())},
    {"QueuePair.adapter", WITHOUT_STATUS(g.qp->adapter())},
};
#undef WITHOUT_STATUS

// On the session's thread, where no close can go on: all are pending, and nothing may wait for them.
void UseAllWhileTheyClose(World& w) {
  Graph g(w);
  g.Keep();
  const Once uses([&g] {
    for (size_t part = 0; part < kKindNames.size(); ++part) g.Close(static_cast<Kind>(part));
    for (size_t part = 0; part < kKindNames.size(); ++part) {
      EXPECT_FALSE(g.has(static_cast<Kind>(part)) && g.closed(static_cast<Kind>(part))) << kKindNames[part];
    }
    for (const UseRow& row : kUses) {
      const std::optional<NdkStatus> status = row.use(g);
      if (!status.has_value()) continue;
      EXPECT_NE(*status, NdkStatus::kSuccess) << row.function;
      EXPECT_NE(*status, NdkStatus::kPending) << row.function;
    }
  });
  w.a().session().ListAdapters([uses](const auto&, const auto&) { uses(); });
  uses.Await();
}

// Everything but what has no close.
void EveryFunctionIsUsed(World&) {
  const auto lists = [](const auto& rows, const std::string& name) {
    return std::any_of(std::begin(rows), std::end(rows), [&](const auto& row) { return name == row.function; });
  };
  for (const Function& function : kFunctions) {
    const std::string name = function.name;
    if (name.rfind("Session.", 0) == 0 || name == "OnCallbackThread" || name == "DataObject.Close") continue;
    const bool of_a_blocking_listener = name.rfind("BlockingListener.", 0) == 0;
    EXPECT_TRUE(lists(kUses, name) || lists(kWaits, name) || of_a_blocking_listener) << name;
  }
}

// --- The tests ---

class ClosingTest : public testing::Test {
 public:
  ClosingTest(const ndkpi::Surroundings& surroundings, std::function<void(World&)> run)
      : surroundings_(surroundings), run_(std::move(run)) {}

  void TestBody() override {
    static const ndkpi::Case kAny = {.name = "Closing"};
    World world(surroundings_, kAny);
    // What is not connected at least has been asked for.
    world.Establish();
    if (!HasFailure()) run_(world);
  }

 private:
  const ndkpi::Surroundings& surroundings_;
  const std::function<void(World&)> run_;
};

int Run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: closing_test ADAPTER\n");
    return 64;
  }
  const ndkpi::Surroundings surroundings = ndkpi::Prepare(argv[1]);
  const auto add = [&surroundings](const std::string& suite, const std::string& name,
                                   const std::function<void(World&)>& run) {
    testing::RegisterTest(suite.c_str(), (name + "/" + surroundings.adapter).c_str(), nullptr, nullptr, __FILE__,
                          __LINE__,
                          [&surroundings, run]() -> testing::Test* { return new ClosingTest(surroundings, run); });
  };
  for (const CallbackRow& row : CallbackRows()) {
    add("AnyPartClosesInACallback", row.name, [&row](World& w) { CloseEachPartIn(w, row); });
    add("NothingWaitsInACallback", row.name, [&row](World& w) { WaitForNothingIn(w, row); });
    add("AnyOrderClosesInACallback", row.name, [&row](World& w) { CloseInAnyOrderIn(w, row); });
  }
  for (const PostRow& row : kPosts) {
    for (const EndRow& end : kEnds) {
      add("PostsMeet" + std::string(end.name), row.name, [&](World& w) { EndUnderPosts(w, row, end); });
    }
  }
  add("WhatCloses", "RefusesAndNeverWaits", UseAllWhileTheyClose);
  add("WhatCloses", "IsAskedEverything", EveryFunctionIsUsed);
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace rdmabroker::misuse

int main(int argc, char** argv) { return rdmabroker::misuse::Run(argc, argv); }
