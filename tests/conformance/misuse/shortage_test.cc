// SPDX-License-Identifier: Apache-2.0

// Public functions for which memory, descriptors or threads run out: no exception leaves them, and what was refused has
// changed nothing, so that the same call succeeds when there is enough again.
//
//   shortage_test fake|iwarp [GTEST_OPTION ...]

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <semaphore>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/blocking.h"
#include "client/session.h"
#include "dataplane/testing/descriptor_shortage.h"
#include "dataplane/testing/thread_shortage.h"
#include "tests/conformance/misuse/functions.h"
#include "tests/conformance/ndkpi/surroundings.h"
#include "tests/conformance/ndkpi/world.h"
#include "tests/memory_shortage.h"

namespace rdmabroker::misuse {
namespace {

using client::Outcome;
using ndkpi::Connection;
using ndkpi::Handshake;
using ndkpi::TestListener;
using ndkpi::World;

enum class Short : uint8_t { kMemory, kDescriptors, kThreads };

bool Accepted(NdkStatus status) { return status == NdkStatus::kSuccess || status == NdkStatus::kPending; }

// Makes one call of a row, again and again with a little more, until it is not refused.
class Play {
 public:
  explicit Play(Short what) : what_(what) {}

  // `before` gets what it needs: arguments that the call consumes.
  template <typename Call>
  void operator()(
      const Call& call, const std::function<void()>& before = [] {}) {
    ++plays_;
    NdkStatus status = NdkStatus::kNoMemory;
    if (what_ == Short::kMemory) {
      constexpr int64_t kMostAllocations = 2000;
      for (int64_t enough = 0; status == NdkStatus::kNoMemory && enough < kMostAllocations; ++enough) {
        before();
        const auto shortage = MemoryShortage::HereAfter(enough);
        status = call();
        if (status == NdkStatus::kNoMemory) ++refusals_;
        // A thread that does not start may be one for which there is no memory.
        if (shortage.refused() && status == NdkStatus::kInsufficientResources) status = NdkStatus::kNoMemory;
      }
    } else {
      before();
      status = what_ == Short::kDescriptors ? Under<DescriptorShortage>(call) : Under<ThreadShortage>(call);
      if (status == NdkStatus::kInsufficientResources) {
        ++refusals_;
        before();
        status = call();
      }
    }
    EXPECT_TRUE(Accepted(status)) << StatusName(status);
  }

  int plays() const { return plays_; }
  int refusals() const { return refusals_; }

 private:
  template <typename Shortage, typename Call>
  static NdkStatus Under(const Call& call) {
    const Shortage shortage;
    return call();
  }

  const Short what_;
  int plays_ = 0;
  int refusals_ = 0;
};

// What a completion tells, which comes once. Passing it on needs no memory.
template <typename Object = void>
class Told {
 public:
  ~Told() { EXPECT_EQ(calls_, 1); }

  auto outcome() {
    return [this](const Outcome& outcome) { Tell(outcome, nullptr); };
  }
  auto created() {
    return [this](const Outcome& outcome, const std::shared_ptr<Object>& object) { Tell(outcome, object); };
  }
  auto called() {
    return [this] { Tell({}, nullptr); };
  }
  std::shared_ptr<Object> Wait() {
    EXPECT_TRUE(told_.try_acquire_for(kPatience)) << "the completion does not come";
    EXPECT_TRUE(outcome_.ok()) << outcome_.hint;
    return object_;
  }

 private:
  void Tell(const Outcome& outcome, std::shared_ptr<Object> object) {
    ++calls_;
    outcome_ = outcome;
    object_ = std::move(object);
    told_.release();
  }

  std::binary_semaphore told_{0};
  std::atomic<int> calls_ = 0;
  Outcome outcome_;
  std::shared_ptr<Object> object_;
};

void Close(const std::shared_ptr<client::BrokerObject>& object) {
  EXPECT_NE(object, nullptr);
  if (object != nullptr) client::BlockingClose(object);
}

constexpr char kPrivateData[] = "text that does not fit into a string without memory";

struct Row {
  const char* function;
  void (*run)(World& w, Play& play);
  // Nothing of it goes on when it has returned.
  bool at_once = false;
};

// A create of the data path's, whose object closes at once.
template <typename Object, typename Create>
void PlayCreate(Play& play, const Create& create) {
  Object* made = nullptr;
  play([&] {
    const Created<Object> created = create();
    made = created.object;
    return created.status;
  });
  ASSERT_NE(made, nullptr);
  client::BlockingClose(made);
}

// A listener of b's that accepts whoever comes.
class Acceptor {
 public:
  explicit Acceptor(World& w) : b_(w.b()), listener_(b_.Listening()) {
    listener_.Handle([this](const std::shared_ptr<client::Connector>& passive) {
      passives_.push_back(passive);
      passive->Accept(b_.NewQueuePair(), {}, {}, [](const Outcome&) {});
    });
  }
  ~Acceptor() {
    const ndkpi::Call closing = b_.Close(listener_.object);  // Waits for those that it has delivered.
    for (const auto& passive : passives_) Close(passive);
    closing.Wait();
  }
  SocketAddress address() const { return listener_.address; }

 private:
  ndkpi::Party& b_;
  const TestListener listener_;
  std::vector<std::shared_ptr<client::Connector>> passives_;
};

const Row kRows[] = {
    {"Session.Open",
     [](World& w, Play& play) {
       const std::string socket = w.broker().control_socket();
       client::SessionOptions options;
       client::Session::Opening opening;
       play(
           [&] {
             opening = client::Session::Open(std::move(options));
             return opening.outcome.status;
           },
           [&] { (options = {}).control_socket = socket; });
       EXPECT_NE(opening.session, nullptr);
     }},
    {"Session.Close",
     [](World& w, Play& play) {
       client::SessionOptions options;
       options.control_socket = w.broker().control_socket();
       const auto opening = client::Session::Open(std::move(options));
       Told<> closed;
       play([&] { return opening.session->Close(closed.called()); });
       closed.Wait();
     }},
    {"Session.ListAdapters",
     [](World& w, Play& play) {
       std::binary_semaphore told{0};
       play([&] { return w.a().session().ListAdapters([&](const auto&, const auto&) { told.release(); }); });
       EXPECT_TRUE(told.try_acquire_for(kPatience));
     }},
    {"Session.OpenAdapter",
     [](World& w, Play& play) {
       Told<client::Adapter> told;
       play([&] { return w.a().session().OpenAdapter(w.on().device, kNdkVersion, {}, told.created()); });
       Close(told.Wait());
     }},
    {"BrokerObject.Close",
     [](World& w, Play& play) {
       const auto connector = w.a().NewConnector();
       Told<> closed;
       play([&] { return connector->Close(closed.called()); });
       closed.Wait();
     }},
    {"Adapter.CreateListener",
     [](World& w, Play& play) {
       Told<client::Listener> told;
       play([&] { return w.a().adapter()->CreateListener([](const auto&) {}, told.created()); });
       Close(told.Wait());
     }},
    {"Adapter.CreateSharedEndpoint",
     [](World& w, Play& play) {
       Told<client::SharedEndpoint> told;
       play([&] { return w.a().adapter()->CreateSharedEndpoint(w.a().At(), told.created()); });
       Close(told.Wait());
     }},
    {"Adapter.CreateSharedEndpoint(Reservation)",
     [](World& w, Play& play) {
       const auto reservation = w.a().NewReservation(w.a().At());
       Told<client::SharedEndpoint> told;
       play([&] { return w.a().adapter()->CreateSharedEndpoint(reservation, told.created()); });
       Close(told.Wait());
       Close(reservation);
     }},
    {"Adapter.ReservePort",
     [](World& w, Play& play) {
       Told<client::Reservation> told;
       play([&] { return w.a().adapter()->ReservePort(w.a().At(), told.created()); });
       Close(told.Wait());
     }},
    {"Adapter.CreateConnector",
     [](World& w, Play& play) {
       Told<client::Connector> told;
       play([&] { return w.a().adapter()->CreateConnector(told.created()); });
       Close(told.Wait());
     }},
    {"Listener.Listen",
     [](World& w, Play& play) {
       const TestListener listener = w.a().NewListener();
       Told<> told;
       play([&] { return listener.object->Listen(w.a().At(), told.outcome()); });
       told.Wait();
       Close(listener.object);
     }},
    {"Listener.Listen(Reservation)",
     [](World& w, Play& play) {
       const TestListener listener = w.a().NewListener();
       const auto reservation = w.a().NewReservation(w.a().At());
       Told<> told;
       play([&] { return listener.object->Listen(reservation, told.outcome()); });
       told.Wait();
       Close(listener.object);
       Close(reservation);
     }},
    {"Connector.Connect",
     [](World& w, Play& play) {
       const Acceptor acceptor(w);
       const auto connector = w.a().NewConnector();
       QueuePair* const qp = w.a().NewQueuePair();
       const client::ConnectParameters parameters = {
           .source = w.a().At(), .destination = acceptor.address(), .private_data = kPrivateData};
       Told<> told;
       play([&] { return connector->Connect(qp, parameters, told.outcome()); });
       told.Wait();
       Close(connector);
     }},
    {"Connector.ConnectWithSharedEndpoint",
     [](World& w, Play& play) {
       const Acceptor acceptor(w);
       const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
       const auto connector = w.a().NewConnector();
       QueuePair* const qp = w.a().NewQueuePair();
       const client::ConnectParameters parameters = {.destination = acceptor.address(), .private_data = kPrivateData};
       Told<> told;
       play([&] { return connector->ConnectWithSharedEndpoint(qp, endpoint, parameters, told.outcome()); });
       told.Wait();
       Close(connector);
       Close(endpoint);
     }},
    {"Connector.CompleteConnect",
     [](World& w, Play& play) {
       const TestListener at_b = w.b().Listening();
       const Handshake made = w.Reply(w.a(), w.b(), at_b);
       Told<> told;
       play([&] { return made.active->CompleteConnect({}, told.outcome()); });
       told.Wait();
       EXPECT_EQ(made.accept.Status(), NdkStatus::kSuccess);
       w.Close(made);
       w.b().Close(at_b.object).Wait();
     }},
    {"Connector.Accept",
     [](World& w, Play& play) {
       const TestListener at_b = w.b().Listening();
       const Handshake made = w.Request(w.a(), w.b(), at_b);
       const client::AcceptParameters parameters = {.private_data = kPrivateData};
       Told<> told;
       play([&] { return made.passive->Accept(made.passive_qp, parameters, {}, told.outcome()); });
       EXPECT_EQ(made.connect.Status(), NdkStatus::kSuccess);
       EXPECT_EQ(w.a().CompleteConnect(made.active).Status(), NdkStatus::kSuccess);
       told.Wait();
       w.Close(made);
       w.b().Close(at_b.object).Wait();
     }},
    {"Connector.Reject",
     [](World& w, Play& play) {
       const TestListener at_b = w.b().Listening();
       const Handshake made = w.Request(w.a(), w.b(), at_b);
       const std::string private_data = kPrivateData;
       Told<> told;
       play([&] { return made.passive->Reject(private_data, told.outcome()); });
       told.Wait();
       EXPECT_EQ(made.connect.Status(), NdkStatus::kConnectionRefused);
       w.Close(made);
       w.b().Close(at_b.object).Wait();
     }},
    {"Connector.Disconnect",
     [](World& w, Play& play) {
       const Connection made = w.Establish();
       Told<> told;
       play([&] { return made.active->Disconnect(told.outcome()); });
       EXPECT_EQ(w.b().Disconnect(made.passive).Status(), NdkStatus::kSuccess);
       told.Wait();
       w.Close(made);
     }},
    {"Connector.GetConnectionData",
     [](World& w, Play& play) {
       const Connection made = w.Establish();
       play([&] { return made.active->GetConnectionData(nullptr, nullptr, nullptr, nullptr); });
       w.Close(made);
     },
     true},
    {"Connector.GetLocalAddress",
     [](World& w, Play& play) {
       const Connection made = w.Establish();
       sockaddr_storage address;
       uint32_t length = 0;
       play([&] { return made.active->GetLocalAddress(reinterpret_cast<sockaddr*>(&address), &length); },
            [&] { length = sizeof address; });
       w.Close(made);
     },
     true},
    {"Connector.GetPeerAddress",
     [](World& w, Play& play) {
       const Connection made = w.Establish();
       sockaddr_storage address;
       uint32_t length = 0;
       play([&] { return made.active->GetPeerAddress(reinterpret_cast<sockaddr*>(&address), &length); },
            [&] { length = sizeof address; });
       w.Close(made);
     },
     true},
    {"BlockingListAdapters",
     [](World& w, Play& play) { play([&] { return client::BlockingListAdapters(w.a().session()).outcome.status; }); }},
    {"BlockingOpenAdapter",
     [](World& w, Play& play) {
       std::shared_ptr<client::Adapter> adapter;
       play([&] {
         auto made = client::BlockingOpenAdapter(w.a().session(), w.on().device);
         adapter = std::move(made.object);
         return made.outcome.status;
       });
       Close(adapter);
     }},
    {"BlockingCreateSharedEndpoint",
     [](World& w, Play& play) {
       std::shared_ptr<client::SharedEndpoint> endpoint;
       play([&] {
         auto made = client::BlockingCreateSharedEndpoint(w.a().adapter(), w.a().At());
         endpoint = std::move(made.object);
         return made.outcome.status;
       });
       Close(endpoint);
     }},
    {"BlockingReservePort",
     [](World& w, Play& play) {
       std::shared_ptr<client::Reservation> reservation;
       play([&] {
         auto made = client::BlockingReservePort(w.a().adapter(), w.a().At());
         reservation = std::move(made.object);
         return made.outcome.status;
       });
       Close(reservation);
     }},
    {"BlockingConnect",
     [](World& w, Play& play) {
       const Acceptor acceptor(w);
       QueuePair* const qp = w.a().NewQueuePair();
       const client::ConnectParameters parameters = {.source = w.a().At(), .destination = acceptor.address()};
       std::shared_ptr<client::Connector> connector;
       play([&] {
         auto made = client::BlockingConnect(w.a().adapter(), qp, parameters);
         connector = std::move(made.object);
         return made.outcome.status;
       });
       Close(connector);
     }},
    {"BlockingConnect(SharedEndpoint)",
     [](World& w, Play& play) {
       const Acceptor acceptor(w);
       QueuePair* const qp = w.a().NewQueuePair();
       const auto endpoint = w.a().NewSharedEndpoint(w.a().At());
       const client::ConnectParameters parameters = {.destination = acceptor.address()};
       std::shared_ptr<client::Connector> connector;
       play([&] {
         auto made = client::BlockingConnect(w.a().adapter(), qp, endpoint, parameters);
         connector = std::move(made.object);
         return made.outcome.status;
       });
       Close(connector);
       Close(endpoint);
     }},
    {"BlockingReject",
     [](World& w, Play& play) {
       const TestListener at_b = w.b().Listening();
       const Handshake made = w.Request(w.a(), w.b(), at_b);
       const std::string private_data = kPrivateData;
       play([&] { return client::BlockingReject(made.passive, private_data).status; });
       EXPECT_EQ(made.connect.Status(), NdkStatus::kConnectionRefused);
       w.Close(made);
       w.b().Close(at_b.object).Wait();
     }},
    {"BlockingClose",
     [](World& w, Play& play) {
       const auto connector = w.a().NewConnector();
       play([&] { return client::BlockingClose(connector); });
     }},
    {"BlockingListener.Listen",
     [](World& w, Play& play) {
       std::unique_ptr<client::BlockingListener> listener;
       play([&] {
         auto made = client::BlockingListener::Listen(w.a().adapter(), w.a().At());
         listener = std::move(made.object);
         return made.outcome.status;
       });
       if (listener != nullptr) Close(listener->listener());
     }},
    {"DataAdapter.CreateProtectionDomain",
     [](World& w, Play& play) {
       PlayCreate<ProtectionDomain>(play, [&] { return w.a().adapter()->data()->CreateProtectionDomain(); });
     },
     true},
    {"DataAdapter.CreateCompletionQueue",
     [](World& w, Play& play) {
       PlayCreate<CompletionQueue>(play, [&] { return w.a().adapter()->data()->CreateCompletionQueue(64, {}); });
     },
     true},
    {"ProtectionDomain.CreateMemoryRegion",
     [](World& w, Play& play) {
       PlayCreate<MemoryRegion>(play, [&] { return w.a().side().domain->CreateMemoryRegion(false); });
     },
     true},
    {"ProtectionDomain.CreateMemoryWindow",
     [](World& w, Play& play) {
       PlayCreate<MemoryWindow>(play, [&] { return w.a().side().domain->CreateMemoryWindow(); });
     },
     true},
    {"ProtectionDomain.CreateSharedReceiveQueue",
     [](World& w, Play& play) {
       PlayCreate<SharedReceiveQueue>(play, [&] {
         return w.a().side().domain->CreateSharedReceiveQueue({.depth = 16, .max_receive_request_sge = 1});
       });
     },
     true},
    {"ProtectionDomain.CreateQueuePair",
     [](World& w, Play& play) {
       DataSide& side = w.a().side();
       CompletionQueue* const other = side.adapter->CreateCompletionQueue(64, {}).object;
       PlayCreate<QueuePair>(play, [&] {
         return side.domain->CreateQueuePair({.receive_cq = side.cq,
                                              .initiator_cq = other,
                                              .receive_queue_depth = 16,
                                              .initiator_queue_depth = 16,
                                              .max_receive_request_sge = 1,
                                              .max_initiator_request_sge = 1});
       });
       client::BlockingClose(other);
     },
     true},
    {"CompletionQueue.Resize",
     [](World& w, Play& play) {
       CompletionQueue* const queue = w.a().NewCompletionQueue(16, {});
       play([&] { return queue->Resize(4096); });
       w.a().Close(queue);
     },
     true},
    {"SharedReceiveQueue.Receive",
     [](World& w, Play& play) {
       SharedReceiveQueue* const srq = w.a().NewSharedReceiveQueue({.depth = 16, .max_receive_request_sge = 1});
       const Sge sge = {};
       play([&] { return srq->Receive(nullptr, {&sge, 1}); });
       w.a().Close(srq);
     },
     true},
    {"SharedReceiveQueue.Modify",
     [](World& w, Play& play) {
       SharedReceiveQueue* const srq = w.a().NewSharedReceiveQueue({.depth = 16, .max_receive_request_sge = 1});
       play([&] { return srq->Modify(32, 0); });
       w.a().Close(srq);
     },
     true},
    {"MemoryRegion.Register",
     [](World& w, Play& play) {
       MemoryRegion* const region = w.a().side().domain->CreateMemoryRegion(false).object;
       std::array<uint8_t, 64> memory;
       play([&] { return region->Register(memory.data(), memory.size(), kAllAccess); });
       EXPECT_EQ(region->Deregister(), NdkStatus::kSuccess);
       client::BlockingClose(region);
     },
     true},
    {"MemoryRegion.InitializeFastRegister",
     [](World& w, Play& play) {
       MemoryRegion* const region = w.a().side().domain->CreateMemoryRegion(true).object;
       play([&] { return region->InitializeFastRegister(4, true); });
       client::BlockingClose(region);
     },
     true},
    {"QueuePair.Receive",
     [](World& w, Play& play) {
       QueuePair* const qp = w.a().NewQueuePair();
       const Sge sge = {};
       play([&] { return qp->Receive(nullptr, {&sge, 1}); });
       w.a().Close(qp);
     },
     true},
};

// Functions that need no memory; those that wait for a peer, which do what their rows' forms with a completion do; and
// those by which results may come that need memory themselves: requests of the initiator, what begins and ends a
// connection, and closes of the data path.
const char* const kWithoutARow[] = {
    "BlockingAccept",
    "BlockingClose(DataObject)",
    "BlockingDisconnect",
    "BlockingListener.Next",
    "CompletionQueue.ControlInterruptModeration",
    "DataObject.Close",
    "Extensible.QueryExtension",
    "Adapter.QueryInfo",
    "Listener.GetLocalAddress",
    "SharedEndpoint.GetLocalAddress",
    "MemoryRegion.Deregister",
    "QueuePair.Attach",
    "QueuePair.Bind",
    "QueuePair.Disconnect",
    "QueuePair.FastRegister",
    "QueuePair.Invalidate(MemoryRegion)",
    "QueuePair.Invalidate(MemoryWindow)",
    "QueuePair.Read",
    "QueuePair.Send",
    "QueuePair.SendAndInvalidate",
    "QueuePair.Write",
};

void EachFunctionWithAStatusIsNamedOnce(World&) {
  std::multiset<std::string> named, listed;
  for (const Row& row : kRows) named.insert(row.function);
  for (const char* const function : kWithoutARow) named.insert(function);
  for (const Function& function : kFunctions) {
    if (function.has_status) listed.insert(function.name);
  }
  EXPECT_EQ(named, listed);
}

class ShortageTest : public testing::Test {
 public:
  ShortageTest(const ndkpi::Surroundings& surroundings, std::function<void(World&)> run)
      : surroundings_(surroundings), run_(std::move(run)) {}

  void TestBody() override {
    static const ndkpi::Case any = {.name = "Shortage"};
    World world(surroundings_, any);
    world.Establish();
    if (!HasFailure()) run_(world);
  }

 private:
  const ndkpi::Surroundings& surroundings_;
  const std::function<void(World&)> run_;
};

void PlayRow(World& w, const Row& row, Short what) {
  // Made now, while there is enough.
  w.a().side();
  w.b().side();
  Play play(what);
  row.run(w, play);
  EXPECT_EQ(play.plays(), 1);
  std::cout << row.function << ": refused " << play.refusals() << " times" << std::endl;
}

int Run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: shortage_test ADAPTER\n");
    return 64;
  }
  static const ndkpi::Surroundings surroundings = ndkpi::Prepare(argv[1]);
  const auto add = [](const char* suite, const std::string& name, const std::function<void(World&)>& run) {
    testing::RegisterTest(suite, (name + "/" + surroundings.adapter).c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [run]() -> testing::Test* { return new ShortageTest(surroundings, run); });
  };
  for (const Row& row : kRows) {
    add("WithoutMemory", row.function, [&row](World& w) { PlayRow(w, row, Short::kMemory); });
    if (!row.at_once) continue;
    add("WithoutDescriptors", row.function, [&row](World& w) { PlayRow(w, row, Short::kDescriptors); });
    add("WithoutThreads", row.function, [&row](World& w) { PlayRow(w, row, Short::kThreads); });
  }
  add("Shortages", "HaveARowForEachFunction", EachFunctionWithAStatusIsNamedOnce);
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace rdmabroker::misuse

int main(int argc, char** argv) { return rdmabroker::misuse::Run(argc, argv); }
