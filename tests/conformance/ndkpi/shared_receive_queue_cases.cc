// SPDX-License-Identifier: Apache-2.0

// Receives of which several queue pairs take.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/conformance/ndkpi/data_link.h"

namespace rdmabroker::ndkpi {
namespace {

constexpr uint32_t kDepth = 16;

// A shared receive queue of b, and what it has notified of.
class Shared {
 public:
  explicit Shared(World& w, uint32_t threshold = 0) : world_(w) {
    queue_ = w.b().NewSharedReceiveQueue({.depth = kDepth,
                                          .max_receive_request_sge = 1,
                                          .notify_threshold = threshold,
                                          .notification = [notices = notices_](NdkStatus status) {
                                            notices->last = status;
                                            ++notices->count;
                                          }});
  }

  SharedReceiveQueue* operator->() const { return queue_; }
  QueuePair* NewQueuePair(void* context) const {
    return world_.b().NewQueuePair(
        {.srq = queue_, .context = context, .initiator_queue_depth = 4, .max_initiator_request_sge = 1});
  }
  void Post(uintptr_t count) const {
    for (uintptr_t i = 0; i < count; ++i) ASSERT_EQ(queue_->Receive(Context(i), {}), NdkStatus::kSuccess);
  }
  // Exactly so many by now.
  void ExpectNotifications(int count) const {
    EXPECT_TRUE(Eventually([&] { return notices_->count >= count; }));
    AwaitCallbacks(world_.b().side());
    EXPECT_EQ(notices_->count, count);
    EXPECT_EQ(notices_->last, NdkStatus::kSuccess);
  }

 private:
  struct Notices {
    std::atomic<int> count = 0;
    std::atomic<NdkStatus> last = NdkStatus::kSuccess;
  };

  World& world_;
  const std::shared_ptr<Notices> notices_ = std::make_shared<Notices>();
  SharedReceiveQueue* queue_ = nullptr;
};

DataLink LinkTo(World& w, const Shared& shared, void* context = nullptr) {
  return DataLink(w, w.a().NewQueuePair(), shared.NewQueuePair(context));
}

// Takes so many receives, and nobody looks into b's completion queue.
void Consume(const DataLink& link, int count) {
  for (int i = 0; i < count; ++i) link.SendToB();
  link.Settle();
}

struct Limit {
  std::string name;
  uint32_t SharedReceiveQueueAttributes::*field;
};

void AddLimits(Cases* cases) {
  static const std::vector<Limit> kLimits = {
      {"Depth", &SharedReceiveQueueAttributes::depth},
      {"MaxReceiveRequestSge", &SharedReceiveQueueAttributes::max_receive_request_sge}};
  for (const Limit& limit : kLimits) {
    cases->push_back(
        {216, limit.name + "ExceededByOne", [&limit](World& w) {
           DataSide& side = w.a().side();
           const AdapterInfo& info = side.adapter->info();
           SharedReceiveQueueAttributes attributes = {.depth = kDepth, .max_receive_request_sge = 1};
           attributes.*limit.field = limit.name == "Depth" ? info.max_srq_depth + 1 : info.max_receive_request_sge + 1;
           EXPECT_EQ(side.domain->CreateSharedReceiveQueue(attributes).status, NdkStatus::kInvalidParameter);
         }});
  }
  cases->push_back({201, "C_ReceivesOfASharedQueue", [](World& w) {
                      const Shared shared(w);
                      const DataLink link = LinkTo(w, shared);
                      shared.Post(kDepth);
                      EXPECT_EQ(shared->Receive(nullptr, {}), NdkStatus::kInsufficientResources);
                      for (uint32_t i = 0; i < kDepth; ++i) link.SendToB();
                      for (const ResultEx& result : link.b.Results(kDepth)) {
                        EXPECT_EQ(result.status, NdkStatus::kSuccess);
                      }
                      shared.Post(1);
                      link.SendToB();
                      EXPECT_EQ(link.b.Next().status, NdkStatus::kSuccess);
                    }});
}

// Of a threshold of 3, by ModifySrq or from the start.
void FallBelow(World& w, bool from_the_start) {
  const Shared shared(w, from_the_start ? 3 : 0);
  const DataLink link = LinkTo(w, shared);
  shared.Post(5);
  if (!from_the_start) {
    EXPECT_EQ(shared->Modify(0, 3), NdkStatus::kSuccess);
  }
  Consume(link, 2);
  shared.ExpectNotifications(0);
  Consume(link, 1);
  shared.ExpectNotifications(1);
}

void FallFurther(World& w) {
  const Shared shared(w);
  const DataLink link = LinkTo(w, shared);
  shared.Post(3);
  EXPECT_EQ(shared->Modify(0, 3), NdkStatus::kSuccess);
  Consume(link, 1);
  shared.ExpectNotifications(1);
  Consume(link, 2);
  link.b.Results(3);
  shared.Post(5);
  Consume(link, 5);
  link.b.Results(5);
  shared.ExpectNotifications(1);
  shared.Post(4);
  EXPECT_EQ(shared->Modify(0, 3), NdkStatus::kSuccess);
  shared.ExpectNotifications(1);
  Consume(link, 2);
  shared.ExpectNotifications(2);
}

void AddThresholds(Cases* cases) {
  cases->push_back({217, "BelowAThresholdOfModifySrq", [](World& w) { FallBelow(w, false); }});
  cases->push_back({217, "BelowAThresholdFromTheStart", [](World& w) { FallBelow(w, true); }});
  cases->push_back({217, "NoFurtherUntilModifySrq", FallFurther});
  for (const uintptr_t queued : {0u, 2u}) {
    cases->push_back({218, "Where" + std::to_string(queued) + "AreQueued", [queued](World& w) {
                        const Shared shared(w);
                        shared.Post(queued);
                        shared.ExpectNotifications(0);
                        EXPECT_EQ(shared->Modify(0, 3), NdkStatus::kSuccess);
                        shared.ExpectNotifications(1);
                      }});
  }
}

void AddKept(Cases* cases) {
  cases->push_back({219, "TheDepth", [](World& w) {
                      const Shared shared(w);
                      EXPECT_EQ(shared->Modify(0, 0), NdkStatus::kSuccess);
                      shared.Post(kDepth);
                      EXPECT_EQ(shared->Receive(nullptr, {}), NdkStatus::kInsufficientResources);
                    }});
  cases->push_back({219, "ThresholdAndArm", [](World& w) {
                      const Shared shared(w, 2);
                      const DataLink link = LinkTo(w, shared);
                      shared.Post(3);
                      EXPECT_EQ(shared->Modify(0, 0), NdkStatus::kSuccess);
                      Consume(link, 1);
                      shared.ExpectNotifications(0);
                      Consume(link, 1);
                      shared.ExpectNotifications(1);
                    }});
  cases->push_back({219, "NoArmIsNone", [](World& w) {
                      const Shared shared(w);
                      const DataLink link = LinkTo(w, shared);
                      shared.Post(3);
                      EXPECT_EQ(shared->Modify(0, 3), NdkStatus::kSuccess);
                      Consume(link, 1);
                      shared.ExpectNotifications(1);
                      EXPECT_EQ(shared->Modify(0, 0), NdkStatus::kSuccess);
                      Consume(link, 2);
                      shared.ExpectNotifications(1);
                    }});
}

// What comes nearest: a receive that names no memory is the end of the queue pair that takes it, and of no other.
void TakeABadReceive(World& w) {
  EXPECT_TRUE(w.lacks());
  const Shared shared(w, 1);
  const DataLink ends = LinkTo(w, shared, Context(1));
  const DataLink lives = LinkTo(w, shared, Context(2));
  Buffer buffer(ends.a.domain, 64, kAllAccess);
  Sge nowhere = buffer.sge();
  nowhere.token = {};
  ASSERT_EQ(shared->Receive(Context(0), {&nowhere, 1}), NdkStatus::kSuccess);
  ASSERT_EQ(shared->Receive(Context(1), {}), NdkStatus::kSuccess);
  ASSERT_EQ(shared->Receive(Context(2), {}), NdkStatus::kSuccess);
  const Sge out = buffer.sge();
  ASSERT_EQ(ends.at_a->Send(nullptr, {&out, 1}, kOpSilentSuccess), NdkStatus::kSuccess);
  ResultEx received;
  // Over verbs it shows where somebody looks.
  EXPECT_TRUE(Eventually([&] {
    const bool taken = ends.b.cq->GetResultsEx({&received, 1}) == 1;
    EXPECT_FALSE(taken && IsSuccess(received.status));
    return ends.connection.passive_events.count() == 1;
  }));
  lives.SendToB();
  EXPECT_TRUE(Eventually([&] {
    return lives.b.cq->GetResultsEx({&received, 1}) == 1 && received.qp_context == Context(2);
  }));
  EXPECT_EQ(received.status, NdkStatus::kSuccess);
  EXPECT_EQ(received.request_context, Context(1));
  shared.ExpectNotifications(0);
}

void TakeByTurns(World& w) {
  constexpr uintptr_t kRounds = 4;
  const Shared shared(w);
  const DataLink one = LinkTo(w, shared, Context(0x10));
  const DataLink other = LinkTo(w, shared, Context(0x20));
  shared.Post(2 * kRounds);
  for (uintptr_t i = 0; i < 2 * kRounds; ++i) {
    const DataLink& link = i % 2 == 0 ? one : other;
    link.SendToB();
    const ResultEx received = link.b.Next();
    EXPECT_EQ(received.status, NdkStatus::kSuccess);
    EXPECT_EQ(received.qp_context, i % 2 == 0 ? Context(0x10) : Context(0x20));
    EXPECT_EQ(received.request_context, Context(i));
  }
}

}  // namespace

Cases SharedReceiveQueueCases() {
  Cases cases;
  AddLimits(&cases);
  AddThresholds(&cases);
  AddKept(&cases);
  std::vector<Lack> nowhere;
  for (const std::string& adapter : Adapters()) {
    nowhere.push_back(
        {adapter, "nothing makes a software queue fail; a bad receive ends the queue pair that takes it"});
  }
  cases.push_back({.assertion = 220, .name = "ABadReceive", .run = TakeABadReceive, .lacks = nowhere});
  cases.push_back({221, "ByTurns", TakeByTurns});
  return cases;
}

}  // namespace rdmabroker::ndkpi
