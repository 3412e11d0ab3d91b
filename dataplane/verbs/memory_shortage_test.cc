// SPDX-License-Identifier: Apache-2.0

// Memory runs out. What can be refused is, changes nothing, and succeeds when there is memory again; everything else
// needs none.

#include "tests/memory_shortage.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/verbs/testing/on_stand_in.h"
#include "dataplane/verbs/transition.h"

namespace rdmabroker::verbs {
namespace {

// How often a call was refused before it succeeded.
using Refusals = int;

// Makes one call, again and again with a little more memory, until it is not refused.
template <typename Call>
Refusals Play(const Call& call) {
  constexpr int kMostAllocations = 1000;
  for (int enough = 0; enough < kMostAllocations; ++enough) {
    const size_t objects = StandIn::Objects();
    NdkStatus status = NdkStatus::kSuccess;
    {
      const auto shortage = MemoryShortage::HereAfter(enough);
      status = call();
      // A thread that does not start may be one for which there is no memory.
      if (shortage.refused() && status == NdkStatus::kInsufficientResources) status = NdkStatus::kNoMemory;
    }
    if (status == NdkStatus::kSuccess) return enough;
    EXPECT_EQ(status, NdkStatus::kNoMemory) << StatusName(status);
    EXPECT_EQ(StandIn::Objects(), objects) << "a refusal leaves something";
  }
  ADD_FAILURE() << "it does not succeed, however much memory there is";
  return kMostAllocations;
}

template <typename Act>
void WithoutMemory(const Act& act) {
  const auto shortage = MemoryShortage::HereAfter(0);
  act();
}

// A create, whose object closes without memory.
template <typename Create>
Refusals PlayCreate(const Create& create) {
  DataObject* made = nullptr;
  const Refusals refusals = Play([&] {
    const auto created = create();
    made = created.object;
    return created.status;
  });
  NdkStatus closed = NdkStatus::kPending;
  WithoutMemory([&] { closed = made->Close({}); });
  EXPECT_EQ(closed, NdkStatus::kSuccess);
  return refusals;
}

// The same on an adapter whose device is released afterwards: no use of it is left.
template <typename Create>
Refusals PlayCreateOnDevice(const Create& create) {
  const size_t objects = StandIn::Objects();
  Adapter* const adapter = OpenAdapter(StandIn::kName).object;
  const Refusals refusals = PlayCreate([&] { return create(adapter); });
  ReleaseDevice(adapter);
  EXPECT_EQ(StandIn::Objects(), objects) << "the device is open still";
  CloseAndWait(adapter);
  return refusals;
}

// Connected to each other.
struct Sides {
  DataSide& a;
  DataSide& b;
};

void ExpectSuccess(DataSide& side, uintptr_t context) {
  ResultEx result;
  size_t got = 0;
  WithoutMemory([&] { got = side.cq->GetResultsEx({&result, 1}); });
  ASSERT_EQ(got, 1u);
  EXPECT_EQ(result.status, NdkStatus::kSuccess);
  EXPECT_EQ(result.request_context, Context(context));
}

struct Row {
  std::string function;
  Refusals (*play)(Sides sides);
  bool needs_memory = false;
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.function; }

const Row kRows[] = {
    {"OpenAdapter", [](Sides) { return PlayCreate([] { return OpenAdapter(StandIn::kName); }); }, true},
    {"CreateProtectionDomain",
     [](Sides) { return PlayCreateOnDevice([](Adapter* adapter) { return adapter->CreateProtectionDomain(); }); },
     true},
    {"CreateCompletionQueue",
     [](Sides) { return PlayCreateOnDevice([](Adapter* adapter) { return adapter->CreateCompletionQueue(64, {}); }); },
     true},
    {"CreateMemoryRegion",
     [](Sides sides) { return PlayCreate([&] { return sides.a.domain->CreateMemoryRegion(false); }); }, true},
    {"CreateMemoryWindow", [](Sides sides) { return PlayCreate([&] { return sides.a.domain->CreateMemoryWindow(); }); },
     true},
    {"CreateSharedReceiveQueue",
     [](Sides sides) {
       return PlayCreate(
           [&] { return sides.a.domain->CreateSharedReceiveQueue({.depth = 16, .max_receive_request_sge = 1}); });
     },
     true},
    {"CreateQueuePair",
     [](Sides sides) {
       // One whose completions come to two queues, of which neither has a place for it yet.
       std::array<CompletionQueue*, 2> queues = {};
       for (CompletionQueue*& queue : queues) queue = sides.a.adapter->CreateCompletionQueue(64, {}).object;
       const Refusals refusals = PlayCreate([&] {
         return sides.a.domain->CreateQueuePair({.receive_cq = queues[0],
                                                 .initiator_cq = queues[1],
                                                 .receive_queue_depth = 16,
                                                 .initiator_queue_depth = 16,
                                                 .max_receive_request_sge = 4,
                                                 .max_initiator_request_sge = 4,
                                                 .inline_data_size = 64});
       });
       for (CompletionQueue* const queue : queues) CloseAndWait(queue);
       return refusals;
     },
     true},
    {"ResizeOfACompletionQueue",
     [](Sides sides) {
       EXPECT_EQ(sides.a.qp->Write(Context(1), {}, {}, 0), NdkStatus::kSuccess);
       const int resized = StandIn::Calls("ibv_resize_cq");
       const Refusals refusals = Play([&] { return sides.a.cq->Resize(4096); });
       EXPECT_EQ(StandIn::Calls("ibv_resize_cq"), resized + 1) << "what is refused has changed the device's queue";
       ExpectSuccess(sides.a, 1);
       return refusals;
     },
     true},
    {"ModifyOfASharedReceiveQueue",
     [](Sides sides) {
       SharedReceiveQueue* const queue =
           sides.a.domain->CreateSharedReceiveQueue({.depth = 1, .max_receive_request_sge = 1}).object;
       EXPECT_EQ(queue->Receive(nullptr, {}), NdkStatus::kSuccess);
       const Refusals refusals = Play([&] {
         const NdkStatus status = queue->Modify(64, 0);
         if (status != NdkStatus::kSuccess) {
           EXPECT_EQ(queue->Receive(nullptr, {}), NdkStatus::kInsufficientResources) << "it is as deep as it was";
         }
         return status;
       });
       EXPECT_EQ(queue->Receive(nullptr, {}), NdkStatus::kSuccess);
       CloseAndWait(queue);
       return refusals;
     },
     true},
    {"ReceiveOfASharedReceiveQueue",
     [](Sides sides) {
       SharedReceiveQueue* const queue =
           sides.a.domain->CreateSharedReceiveQueue({.depth = 64, .max_receive_request_sge = 1}).object;
       Refusals refusals = 0;
       for (int i = 0; i < 64; ++i) refusals += Play([&] { return queue->Receive(nullptr, {}); });
       CloseAndWait(queue);
       return refusals;
     }},
    {"RegisterAndDeregister",
     [](Sides sides) {
       MemoryRegion* const region = sides.a.domain->CreateMemoryRegion(false).object;
       std::array<uint8_t, 64> memory;
       Refusals refusals = Play([&] { return region->Register(memory.data(), memory.size(), kAllAccess); });
       refusals += Play([&] { return region->Deregister(); });
       CloseAndWait(region);
       return refusals;
     }},
    {"Attach",
     [](Sides sides) {
       QueuePair* const pair = sides.a.NewQueuePair({}, nullptr);
       Refusals refusals = 0;
       const auto attach = [&](Attachment attachment) {
         refusals += Play([&] { return pair->Attach(std::move(attachment), {}); });
       };
       for (const QpAttributes& step : TransitionsTo(pair->number())) attach(AttachmentFor(step));
       attach({});
       CloseAndWait(pair);
       return refusals;
     }},
    {"SendAndReceive",
     [](Sides sides) {
       Refusals refusals = Play([&] { return sides.b.qp->Receive(Context(1), {}); });
       refusals += Play([&] { return sides.a.qp->Send(Context(2), {}, 0); });
       ExpectSuccess(sides.b, 1);
       ExpectSuccess(sides.a, 2);
       return refusals;
     }},
    {"ReadAndWrite",
     [](Sides sides) {
       Refusals refusals = Play([&] { return sides.a.qp->Read(Context(1), {}, {}, 0); });
       refusals += Play([&] { return sides.a.qp->Write(Context(2), {}, {}, 0); });
       ExpectSuccess(sides.a, 1);
       ExpectSuccess(sides.a, 2);
       return refusals;
     }},
    {"Bind",
     [](Sides sides) {
       Buffer memory(sides.a.domain, 64, kAllAccess);
       MemoryWindow* const window = sides.a.domain->CreateMemoryWindow().object;
       const Refusals refusals = Play([&] {
         const NdkStatus status =
             sides.a.qp->Bind(Context(1), memory.region(), window, memory.bytes().data(), 64, kOpAllowRemoteRead);
         EXPECT_EQ(window->remote_token() != RemoteToken{}, status == NdkStatus::kSuccess);
         return status;
       });
       ExpectSuccess(sides.a, 1);
       // Whatever was refused has taken no place.
       for (uint32_t i = 0; i < SideOptions().depth; ++i) {
         EXPECT_EQ(sides.a.qp->Write(nullptr, {}, {}, 0), NdkStatus::kSuccess);
       }
       CloseAndWait(window);
       return refusals;
     },
     true},
    {"InvalidateAndSendAndInvalidate",
     [](Sides sides) {
       Buffer memory(sides.a.domain, 64, kAllAccess);
       MemoryWindow* const window = sides.a.domain->CreateMemoryWindow().object;
       Refusals refusals = 0;
       for (const bool by_peer : {false, true}) {
         const NdkStatus bound =
             sides.a.qp->Bind(Context(1), memory.region(), window, memory.bytes().data(), 64, kOpAllowRemoteRead);
         EXPECT_EQ(bound, NdkStatus::kSuccess);
         ExpectSuccess(sides.a, 1);
         if (by_peer) {
           EXPECT_EQ(sides.a.qp->Receive(Context(2), {}), NdkStatus::kSuccess);
           refusals += Play([&] { return sides.b.qp->SendAndInvalidate(Context(3), {}, 0, window->remote_token()); });
           ExpectSuccess(sides.b, 3);
         } else {
           refusals += Play([&] { return sides.a.qp->Invalidate(Context(2), window, 0); });
         }
         ExpectSuccess(sides.a, 2);
         EXPECT_EQ(memory.region()->Deregister(), NdkStatus::kSuccess);
         EXPECT_EQ(memory.region()->Register(memory.bytes().data(), 64, kAllAccess), NdkStatus::kSuccess);
       }
       CloseAndWait(window);
       return refusals;
     }},
};

class MemoryShortages : public OnStandIn {
 protected:
  void SetUp() override {
    MemoryShortage::Spare(&StandIn::IsCalled);
    OnStandIn::SetUp();
  }
};

class ShortFunctions : public MemoryShortages, public testing::WithParamInterface<Row> {};

TEST_P(ShortFunctions, RefuseOrNeedNone) {
  Connect(kRetryForever);
  const Refusals refusals = GetParam().play({*a, *b});
  EXPECT_EQ(refusals > 0, GetParam().needs_memory) << refusals;
}

INSTANTIATE_TEST_SUITE_P(Verbs, ShortFunctions, testing::ValuesIn(kRows),
                         [](const auto& row) { return row.param.function; });

using Shortage = MemoryShortages;

// Some of one completion, and more at a time than a batch of the queue pair's.
TEST_F(Shortage, ResultsOfManyRequestsComeAndFlushesCancelWithoutMemory) {
  constexpr size_t kRequests = 20;
  std::array<ResultEx, 2 * kRequests> results;
  size_t got = 0;
  Connect(kRetryForever);
  for (size_t i = 0; i < kRequests; ++i)
    ASSERT_EQ(a->qp->Write(nullptr, {}, {}, kOpSilentSuccess), NdkStatus::kSuccess);
  ASSERT_EQ(a->qp->Write(Context(1), {}, {}, 0), NdkStatus::kSuccess);
  WithoutMemory([&] { got = a->cq->GetResultsEx(results); });
  EXPECT_EQ(got, 1u);
  // Of requests that the device forgets.
  StandIn::SetFlush(StandIn::Flush::kNever);
  for (size_t i = 0; i < kRequests; ++i) {
    ASSERT_EQ(a->qp->Send(Context(2 + i), {}, kOpDefer), NdkStatus::kSuccess);
    ASSERT_EQ(a->qp->Receive(nullptr, {}), NdkStatus::kSuccess);
  }
  WithoutMemory([&] { a->qp->Flush(); });
  got = 0;
  EXPECT_TRUE(Eventually([&] {
    WithoutMemory([&] { got += a->cq->GetResultsEx(std::span(results).subspan(got)); });
    return got == results.size();
  }));
  for (const ResultEx& result : results) EXPECT_EQ(result.status, NdkStatus::kCancelled);
}

// A flush brings a queue pair that was never connected back to its beginning.
TEST_F(Shortage, AnIdleQueuePairIsFlushedAndConnectedWithoutMemory) {
  ASSERT_EQ(a->qp->Receive(Context(1), {}), NdkStatus::kSuccess);
  WithoutMemory([&] { a->qp->Flush(); });
  EXPECT_EQ(a->Next().status, NdkStatus::kCancelled);
  Connect();
  EXPECT_EQ(a->qp->Write(Context(2), {}, {}, 0), NdkStatus::kSuccess);
  EXPECT_EQ(a->Next().status, NdkStatus::kSuccess);
}

// They are held by what is posted, until its results are taken.
TEST_F(Shortage, PollsCompleteTheClosesOfWindowsAndRegionsWithoutMemory) {
  Buffer memory(a->domain, 64, kAllAccess);
  MemoryWindow* const window = a->domain->CreateMemoryWindow().object;
  MemoryRegion* const region = a->domain->CreateMemoryRegion(false).object;
  ASSERT_EQ(region->Register(memory.bytes().data(), 64, kAllAccess), NdkStatus::kSuccess);
  Connect();
  ASSERT_EQ(a->qp->Bind(Context(1), region, window, memory.bytes().data(), 64, kOpAllowRemoteRead),
            NdkStatus::kSuccess);
  int closed = 0;
  NdkStatus of_window = NdkStatus::kSuccess, of_region = NdkStatus::kSuccess;
  WithoutMemory([&] {
    of_region = region->Close([&closed] { ++closed; });
    of_window = window->Close([&closed] { ++closed; });
  });
  EXPECT_EQ(of_region, NdkStatus::kPending);
  EXPECT_EQ(of_window, NdkStatus::kPending);
  ExpectSuccess(*a, 1);
  EXPECT_EQ(closed, 2);
}

// Each window that the queue pair has bound gets another key, and stays the domain's.
TEST_F(Shortage, ACloseOfAQueuePairEndsItsBindingsWithoutMemory) {
  constexpr size_t kWindows = 20;
  Buffer memory(a->domain, 64, kAllAccess);
  std::vector<MemoryWindow*> windows;
  QueuePair* const pair = a->NewQueuePair({}, nullptr);
  const auto bind = [&](QueuePair* by, MemoryWindow* window) {
    ASSERT_EQ(by->Bind(Context(1), memory.region(), window, memory.bytes().data(), 64, kOpAllowRemoteRead),
              NdkStatus::kSuccess);
    ExpectSuccess(*a, 1);
  };
  AttachToEachOther(pair, nullptr, b->qp, nullptr);
  for (size_t i = 0; i < kWindows; ++i) {
    windows.push_back(a->domain->CreateMemoryWindow().object);
    if (i % 2 == 0) bind(pair, windows.back());
  }
  NdkStatus closed = NdkStatus::kPending;
  WithoutMemory([&] { closed = pair->Close({}); });
  EXPECT_EQ(closed, NdkStatus::kSuccess);
  EXPECT_EQ(memory.region()->Deregister(), NdkStatus::kSuccess);
  EXPECT_EQ(memory.region()->Register(memory.bytes().data(), 64, kAllAccess), NdkStatus::kSuccess);
  // The domain finds each by its new key.
  QueuePair* const peer = b->NewQueuePair({}, nullptr);
  AttachToEachOther(a->qp, nullptr, peer, nullptr);
  for (MemoryWindow* const window : windows) {
    bind(a->qp, window);
    ASSERT_EQ(a->qp->Receive(Context(2), {}), NdkStatus::kSuccess);
    ASSERT_EQ(peer->SendAndInvalidate(Context(3), {}, 0, window->remote_token()), NdkStatus::kSuccess);
    ExpectSuccess(*a, 2);
    ExpectSuccess(*b, 3);
  }
  EXPECT_EQ(memory.region()->Deregister(), NdkStatus::kSuccess) << "a window holds it";
  for (MemoryWindow* const window : windows) WithoutMemory([&] { closed = window->Close({}); });
  CloseAndWait(peer);
}

TEST_F(Shortage, ASharedReceiveQueueTakesReceivesAndClosesWithoutMemory) {
  constexpr uint32_t kDepth = 40;
  const std::unique_ptr<DataSide> side = NewSide({.depth = kDepth, .srq = true});
  AttachToEachOther(a->qp, nullptr, side->qp, nullptr);
  std::array<ResultEx, kDepth> results;
  size_t posted = 0, got = 0;
  for (int round = 0; round < 2; ++round) {
    WithoutMemory([&] {
      for (uint32_t i = 0; i < kDepth; ++i) posted += side->srq->Receive(nullptr, {}) == NdkStatus::kSuccess ? 1 : 0;
    });
    for (uint32_t i = 0; i < kDepth; ++i) ASSERT_EQ(a->qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
    WithoutMemory([&] { got += side->cq->GetResultsEx(results); });
    EXPECT_EQ(TakeAll(*a), kDepth);
  }
  EXPECT_EQ(posted, 2 * kDepth);
  EXPECT_EQ(got, 2 * kDepth);
  ASSERT_EQ(side->srq->Receive(nullptr, {}), NdkStatus::kSuccess);
  ASSERT_EQ(a->qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  WithoutMemory([&] {
    side->cq->Arm(CqNotify::kAny);
    side->qp->Close({});
    side->srq->Close({});
    got = side->cq->GetResultsEx(results);
  });
  side->qp = nullptr, side->srq = nullptr;
  EXPECT_EQ(got, 0u) << "results of a queue that is closed";
}

// The test's other threads are the adapters': one makes queue pairs, the other calls back and keeps times.
class ShortThreads : public MemoryShortages {
 protected:
  ConnectionEndCallback CountsEnd() {
    return [this](const ConnectionEnd&) { ++ends; };
  }

  std::atomic<int> ends = 0;
};

TEST_F(ShortThreads, MakeQueuePairs) {
  QueuePair* made = nullptr;
  {
    const auto shortage = MemoryShortage::Elsewhere();
    made = a->NewQueuePair({}, nullptr);
  }
  ASSERT_NE(made, nullptr);
  CloseAndWait(made);
}

TEST_F(ShortThreads, Notify) {
  const std::unique_ptr<DataSide> side = NewSide({.srq = true});
  AttachToEachOther(a->qp, nullptr, side->qp, nullptr);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(side->srq->Receive(nullptr, {}), NdkStatus::kSuccess);
  ASSERT_EQ(side->srq->Modify(0, 2), NdkStatus::kSuccess);
  const auto shortage = MemoryShortage::Elsewhere();
  side->cq->Arm(CqNotify::kAny);
  ASSERT_EQ(a->qp->Send(nullptr, {}, 0), NdkStatus::kSuccess);
  EXPECT_TRUE(Eventually([&] { return side->notifications == 1 && side->srq_notifications == 1; }));
  StandIn::Raise(side->qp->number(), IBV_EVENT_CQ_ERR);
  side->cq->Arm(CqNotify::kAny);
  EXPECT_TRUE(Eventually([&] { return side->last_notification == NdkStatus::kInternalError; }));
}

TEST_F(ShortThreads, TellOfEndsAndCancelInTimeWhatTheDeviceForgets) {
  StandIn::SetFlush(StandIn::Flush::kNever);
  AttachToEachOther(a->qp, CountsEnd(), b->qp, nullptr);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(a->qp->Receive(nullptr, {}), NdkStatus::kSuccess);
  const auto shortage = MemoryShortage::Elsewhere();
  a->cq->Arm(CqNotify::kAny);
  StandIn::Raise(a->qp->number(), IBV_EVENT_DEVICE_FATAL);
  EXPECT_TRUE(Eventually([&] { return ends == 1 && a->notifications == 1; })) << "nobody polls";
  for (const ResultEx& result : a->Results(20)) EXPECT_EQ(result.status, NdkStatus::kCancelled);
}

}  // namespace
}  // namespace rdmabroker::verbs
