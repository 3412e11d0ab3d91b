// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "client/blocking.h"
#include "dataplane/iwarp/side_for_test.h"
#include "dataplane/iwarp/wire/connection_state.h"
#include "dataplane/testing/side.h"
#include "dataplane/testing/tcp_pair.h"
#include "tests/conformance/misuse/shortage.h"
#include "tests/conformance/ndkpi/world.h"

namespace rdmabroker::misuse {
namespace {

using ndkpi::Connection;
using ndkpi::World;

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

// A connection of a's and b's queue pairs, and memory of both.
struct Carrier {
  explicit Carrier(World& in)
      : world(in),
        made(in.Establish()),
        from(in.a().side().domain, 64, kAllAccess),
        to(in.b().side().domain, 64, kAllAccess) {}
  ~Carrier() { world.Close(made); }

  World& world;
  const Connection made;
  Buffer from;
  Buffer to;
};

// A request succeeds, and what was refused before it has left no result.
void ExpectOneResult(DataSide& side) {
  EXPECT_EQ(side.Next().status, NdkStatus::kSuccess);
  ResultEx more;
  EXPECT_EQ(side.cq->GetResultsEx({&more, 1}), 0u);
}

// A region of a's, over a page, that was made for fast registration.
struct FastRegion {
  explicit FastRegion(World& w) : object(w.a().side().domain->CreateMemoryRegion(true).object) {
    EXPECT_EQ(object->InitializeFastRegister(1, true), NdkStatus::kSuccess);
  }
  ~FastRegion() {
    EXPECT_EQ(object->Deregister(), NdkStatus::kSuccess);
    CloseAndWait(object);
  }
  NdkStatus Register(QueuePair* qp) {
    void* const first = page.data();
    return qp->FastRegister(nullptr, object, {&first, 1}, 0, page.size(), 0, kOpAllowRemoteRead);
  }

  std::vector<uint8_t> page = std::vector<uint8_t>(kFastRegisterPageSize);
  MemoryRegion* const object;
};

// A window of a's on the memory of a carrier.
struct Window {
  explicit Window(Carrier& on) : carrier(on), object(on.world.a().side().domain->CreateMemoryWindow().object) {}
  ~Window() { CloseAndWait(object); }
  NdkStatus Bind() {
    std::vector<uint8_t>& bytes = carrier.from.bytes();
    return carrier.made.active_qp->Bind(nullptr, carrier.from.region(), object, bytes.data(), bytes.size(),
                                        kOpAllowRemoteRead);
  }

  Carrier& carrier;
  MemoryWindow* const object;
};

const Row kRows[] = {
    {"DataAdapter.CreateProtectionDomain",
     [](World& w, Play& play) {
       PlayCreate<ProtectionDomain>(play, [&] { return w.a().adapter()->data()->CreateProtectionDomain(); });
     }},
    {"DataAdapter.CreateCompletionQueue",
     [](World& w, Play& play) {
       PlayCreate<CompletionQueue>(play, [&] { return w.a().adapter()->data()->CreateCompletionQueue(64, {}); });
     }},
    {"ProtectionDomain.CreateMemoryRegion",
     [](World& w, Play& play) {
       PlayCreate<MemoryRegion>(play, [&] { return w.a().side().domain->CreateMemoryRegion(false); });
     }},
    {"ProtectionDomain.CreateMemoryWindow",
     [](World& w, Play& play) {
       PlayCreate<MemoryWindow>(play, [&] { return w.a().side().domain->CreateMemoryWindow(); });
     }},
    {"ProtectionDomain.CreateSharedReceiveQueue",
     [](World& w, Play& play) {
       PlayCreate<SharedReceiveQueue>(play, [&] {
         return w.a().side().domain->CreateSharedReceiveQueue({.depth = 16, .max_receive_request_sge = 1});
       });
     }},
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
     }},
    {"CompletionQueue.Resize",
     [](World& w, Play& play) {
       CompletionQueue* const queue = w.a().NewCompletionQueue(16, {});
       play([&] { return queue->Resize(4096); });
       w.a().Close(queue);
     }},
    {"SharedReceiveQueue.Receive",
     [](World& w, Play& play) {
       SharedReceiveQueue* const srq = w.a().NewSharedReceiveQueue({.depth = 16, .max_receive_request_sge = 1});
       const Sge sge = {};
       play([&] { return srq->Receive(nullptr, {&sge, 1}); });
       w.a().Close(srq);
     }},
    {"SharedReceiveQueue.Modify",
     [](World& w, Play& play) {
       SharedReceiveQueue* const srq = w.a().NewSharedReceiveQueue({.depth = 16, .max_receive_request_sge = 1});
       play([&] { return srq->Modify(32, 0); });
       w.a().Close(srq);
     }},
    {"MemoryRegion.Register",
     [](World& w, Play& play) {
       MemoryRegion* const region = w.a().side().domain->CreateMemoryRegion(false).object;
       std::array<uint8_t, 64> memory;
       play([&] { return region->Register(memory.data(), memory.size(), kAllAccess); });
       EXPECT_EQ(region->Deregister(), NdkStatus::kSuccess);
       client::BlockingClose(region);
     }},
    {"MemoryRegion.InitializeFastRegister",
     [](World& w, Play& play) {
       MemoryRegion* const region = w.a().side().domain->CreateMemoryRegion(true).object;
       play([&] { return region->InitializeFastRegister(4, true); });
       client::BlockingClose(region);
     }},
    {"CompletionQueue.ControlInterruptModeration",
     [](World& w, Play& play) {
       CompletionQueue* const queue = w.a().NewCompletionQueue(16, {});
       play([&] { return queue->ControlInterruptModeration(1000, 8); });
       w.a().Close(queue);
     }},
    {"MemoryRegion.Deregister",
     [](World& w, Play& play) {
       Buffer buffer(w.a().side().domain, 64, kAllAccess);
       play([&] { return buffer.region()->Deregister(); });
     }},
    {"DataObject.Close",
     [](World& w, Play& play) {
       ProtectionDomain* const domain = w.a().adapter()->data()->CreateProtectionDomain().object;
       play([&] { return domain->Close({}); });
     }},
    {"BlockingClose(DataObject)",
     [](World& w, Play& play) {
       ProtectionDomain* const domain = w.a().adapter()->data()->CreateProtectionDomain().object;
       play([&] { return client::BlockingClose(domain); });
     }},
    {"QueuePair.Send",
     [](World& w, Play& play) {
       Carrier carrier(w);
       const Sge into = carrier.to.sge(), sge = carrier.from.sge();
       ASSERT_EQ(carrier.made.passive_qp->Receive(nullptr, {&into, 1}), NdkStatus::kSuccess);
       play([&] { return carrier.made.active_qp->Send(nullptr, {&sge, 1}, 0); });
       ExpectOneResult(w.b().side());
       ExpectOneResult(w.a().side());
     }},
    {"QueuePair.SendAndInvalidate",
     [](World& w, Play& play) {
       Carrier carrier(w);
       Window window(carrier);
       ASSERT_EQ(window.Bind(), NdkStatus::kSuccess);
       ExpectOneResult(w.a().side());
       ASSERT_EQ(carrier.made.active_qp->Receive(nullptr, {}), NdkStatus::kSuccess);
       const RemoteToken token = window.object->remote_token();
       play([&] { return carrier.made.passive_qp->SendAndInvalidate(nullptr, {}, 0, token); });
       ExpectOneResult(w.a().side());
       ExpectOneResult(w.b().side());
     }},
    {"QueuePair.Read",
     [](World& w, Play& play) {
       Carrier carrier(w);
       const Sge into = carrier.from.sge();
       play([&] { return carrier.made.active_qp->Read(nullptr, {&into, 1}, carrier.to.remote(), 0); });
       ExpectOneResult(w.a().side());
     }},
    {"QueuePair.Write",
     [](World& w, Play& play) {
       Carrier carrier(w);
       const Sge sge = carrier.from.sge();
       play([&] { return carrier.made.active_qp->Write(nullptr, {&sge, 1}, carrier.to.remote(), kOpInline); });
       ExpectOneResult(w.a().side());
     }},
    {"QueuePair.Bind",
     [](World& w, Play& play) {
       Carrier carrier(w);
       Window window(carrier);
       play([&] { return window.Bind(); });
       ExpectOneResult(w.a().side());
     }},
    {"QueuePair.FastRegister",
     [](World& w, Play& play) {
       const Carrier carrier(w);
       FastRegion region(w);
       play([&] { return region.Register(carrier.made.active_qp); });
       ExpectOneResult(w.a().side());
     }},
    {"QueuePair.Invalidate(MemoryRegion)",
     [](World& w, Play& play) {
       const Carrier carrier(w);
       FastRegion region(w);
       ASSERT_EQ(region.Register(carrier.made.active_qp), NdkStatus::kSuccess);
       ExpectOneResult(w.a().side());
       play([&] { return carrier.made.active_qp->Invalidate(nullptr, region.object, 0); });
       ExpectOneResult(w.a().side());
     }},
    {"QueuePair.Invalidate(MemoryWindow)",
     [](World& w, Play& play) {
       Carrier carrier(w);
       Window window(carrier);
       ASSERT_EQ(window.Bind(), NdkStatus::kSuccess);
       ExpectOneResult(w.a().side());
       play([&] { return carrier.made.active_qp->Invalidate(nullptr, window.object, 0); });
       ExpectOneResult(w.a().side());
     }},
    {"QueuePair.Attach",
     [](World& w, Play& play) {
       QueuePair* const qp = w.a().NewQueuePair();
       TcpPair sockets;
       Attachment attachment;
       play([&] { return qp->Attach(std::move(attachment), {}); },
            [&] {
              sockets = ConnectTcpPair();
              attachment = {std::move(sockets.active), iwarp::EncodeConnectionState(iwarp::StatesFor().active)};
            });
       w.a().Close(qp);
     }},
    {"QueuePair.Disconnect",
     [](World& w, Play& play) {
       QueuePair* const qp = w.a().NewQueuePair();
       TcpPair sockets = ConnectTcpPair();
       Attachment attachment = {std::move(sockets.active), iwarp::EncodeConnectionState(iwarp::StatesFor().active)};
       ASSERT_EQ(qp->Attach(std::move(attachment), {}), NdkStatus::kSuccess);
       sockets.passive.Reset();
       Told<> told;
       play([&] { return qp->Disconnect(kPatience, told.status()); });
       told.Wait();
       w.a().Close(qp);
     }},
    {"QueuePair.Receive",
     [](World& w, Play& play) {
       QueuePair* const qp = w.a().NewQueuePair();
       const Sge sge = {};
       play([&] { return qp->Receive(nullptr, {&sge, 1}); });
       w.a().Close(qp);
     }},
};

}  // namespace

std::span<const Row> DataRows() { return kRows; }

}  // namespace rdmabroker::misuse
