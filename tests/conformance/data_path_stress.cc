// SPDX-License-Identifier: Apache-2.0

// Threads and random moments, judged by every request having exactly one result and every result being seen.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <random>
#include <semaphore>
#include <thread>

#include "tests/conformance/data_path_conformance.h"
#include "tests/random_seed.h"

namespace rdmabroker {
namespace {

TEST_P(DataPathConformance, HoweverAConnectionEndsEveryRequestHasOneResult) {
  const uint32_t seed = RandomSeed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  enum class End : uint8_t { kFlushHere, kFlushThere, kBadMemory, kNone };
  for (int round = 0; round < 16; ++round) {
    const QueuePairPair made = ConnectMore(*a, *b, nullptr, nullptr);
    Buffer from(a->domain, 20'000, kMrAllowRemoteRead);
    Buffer to(b->domain, 20'000, kAllAccess);
    const Sge sge = from.sge();
    const auto end = static_cast<End>(random() % 4);
    const uint32_t moment = random() % 600;
    std::map<void*, int> due;  // Results that must come; 0 for silent requests.
    std::thread poster([&, spice = random()]() mutable {
      for (uintptr_t i = 1; i <= 600; ++i) {
        if (i == moment && end == End::kFlushHere) std::thread([&] { made.at_a->Flush(); }).join();
        if (i == moment && end == End::kFlushThere) made.at_b->Flush();
        if (i == moment && end == End::kBadMemory) made.at_a->Write(nullptr, {&sge, 1}, to.remote(1), kOpSilentSuccess);
        spice = spice * 1664525 + 1013904223;
        const bool silent = (spice >> 20) % 3 == 0;
        const OpFlags flags = ((spice >> 24) % 3 == 0 ? kOpDefer : 0) | (silent ? kOpSilentSuccess : 0);
        const bool receives = i % 4 == 1;
        const NdkStatus status = receives     ? made.at_a->Receive(Context(i), {})
                                 : i % 4 == 2 ? made.at_a->Write(Context(i), {}, {}, flags)
                                              : made.at_a->Write(Context(i), {&sge, 1}, to.remote(), flags);
        if (status == NdkStatus::kSuccess) due[Context(i)] = receives || !silent ? 1 : 0;
      }
    });
    poster.join();
    if (random() % 2 == 0) made.at_a->Flush();
    // The close cannot complete before the results have been taken.
    made.at_a->AddReference();
    std::atomic<bool> closed = false;
    EXPECT_EQ(made.at_a->Close([&] { closed = true; }), NdkStatus::kPending);
    CloseAndWait(made.at_b);
    ResultEx result;
    const auto all_came = [&] {
      while (a->cq->GetResultsEx({&result, 1}) == 1) {
        if (result.request_context == nullptr) continue;
        const auto found = due.find(result.request_context);
        EXPECT_TRUE(found != due.end()) << "nothing was posted, or it had its result";
        if (found == due.end()) continue;
        EXPECT_TRUE(found->second == 1 || result.status != NdkStatus::kSuccess);
        due.erase(found);
      }
      return std::ranges::all_of(due, [](const auto& request) { return request.second == 0; });
    };
    EXPECT_TRUE(Eventually(all_came));
    made.at_a->ReleaseReference();
    EXPECT_TRUE(Eventually([&] { return closed.load(); }));
    while (b->cq->GetResultsEx({&result, 1}) == 1) {
    }
  }
}

TEST_P(DataPathConformance, AConsumerThatSleepsUntilItIsNotifiedMissesNothing) {
  constexpr uintptr_t kMessages = 300;
  std::binary_semaphore notified(0);
  CompletionQueue* const queue = b->adapter->CreateCompletionQueue(512, [&](NdkStatus) { notified.release(); }).object;
  QueuePair* const receiver =
      b->domain->CreateQueuePair({.receive_cq = queue, .initiator_cq = queue, .receive_queue_depth = 512}).object;
  QueuePair* const sender = a->NewQueuePair({}, nullptr);
  for (uintptr_t i = 0; i < kMessages; ++i) ASSERT_EQ(receiver->Receive(Context(i), {}), NdkStatus::kSuccess);
  pair->Connect(sender, {}, receiver, {});
  std::thread consumer([&] {
    uintptr_t next = 0;
    while (next < kMessages) {
      queue->Arm(next % 2 == 0 ? CqNotify::kAny : CqNotify::kSolicited);
      ASSERT_TRUE(notified.try_acquire_for(kPatience)) << "after " << next << " messages";
      ResultEx results[4];
      for (size_t got = 4; got > 0;) {
        got = queue->GetResultsEx(results);
        for (size_t i = 0; i < got; ++i) EXPECT_EQ(results[i].request_context, Context(next++));
      }
    }
  });
  for (uintptr_t i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(Eventually(
        [&] { return sender->Send(nullptr, {}, kOpSendAndSolicitEvent | kOpSilentSuccess) == NdkStatus::kSuccess; }));
  }
  consumer.join();
  CloseAndWait(sender), CloseAndWait(receiver), CloseAndWait(queue);
}

TEST_P(DataPathConformance, QueuePairsComeAndGoBesideOneThatMovesBytes) {
  Connect();
  Buffer from(a->domain, 1000, kMrAllowLocalRead);
  Buffer to(b->domain, 1000, kMrAllowRemoteWrite);
  std::atomic<bool> stop = false;
  std::atomic<size_t> taken = 0;
  std::thread other([&] {
    for (size_t passed = 1; !stop; ++passed) {
      QueuePair* const passing = a->NewQueuePair({}, Context(7));
      EXPECT_EQ(passing->Receive(nullptr, {}), NdkStatus::kSuccess);
      passing->Flush();
      // One result at a time: the queue must not overrun where this thread runs and the other one does not.
      while (!stop && taken < passed) std::this_thread::yield();
      CloseAndWait(passing);
    }
  });
  const Sge sge = from.sge();
  for (uintptr_t i = 1; i <= 200; ++i) {
    ASSERT_EQ(a->qp->Write(Context(i), {&sge, 1}, to.remote(), 0), NdkStatus::kSuccess);
    ResultEx result = a->Next();
    while (result.qp_context == Context(7)) {
      ++taken;
      result = a->Next();
    }
    EXPECT_EQ(result.request_context, Context(i));
    EXPECT_EQ(result.status, NdkStatus::kSuccess);
  }
  stop = true;
  other.join();
}

// Some hardware gives a number that comes free to the next queue pair at once.
TEST_P(DataPathConformance, ANewQueuePairHasNothingToDoWithThoseThatGoBesideIt) {
  constexpr size_t kReceives = 4;
  struct Passing {
    std::deque<std::atomic<size_t>> results;  // Of each of its queue pairs.
    std::thread thread;
  };
  std::atomic<bool> stop = false;
  std::atomic<size_t> running = 0;
  const auto come_and_go = [&](Passing* self) {
    for (size_t round = 0; !stop; ++round) {
      std::atomic<size_t>& results = self->results.emplace_back(0);
      QueuePair* const qp = a->NewQueuePair({}, &results);
      size_t due = 0;
      const auto ended = [&] { return results == due; };
      for (const bool flushes : {round % 2 == 0, false}) {
        for (size_t i = 0; i < kReceives; ++i) EXPECT_EQ(qp->Receive(nullptr, {}), NdkStatus::kSuccess);
        if (!ended()) ADD_FAILURE() << "results of requests that nobody has cancelled yet", stop = true;
        if (!flushes) continue;
        qp->Flush();
        due = kReceives;
        if (!Eventually(ended)) ADD_FAILURE() << "no results after a flush", stop = true;
      }
      CloseAndWait(qp);
    }
    --running;
  };
  Passing passing[3];
  const auto is_of_passing = [](const ResultEx& result) {
    if (result.qp_context == nullptr) return false;
    EXPECT_EQ(result.status, NdkStatus::kCancelled);
    ++*static_cast<std::atomic<size_t>*>(result.qp_context);
    return true;
  };
  const auto expect = [&](void* context) {
    ResultEx result;
    EXPECT_TRUE(Eventually([&] { return a->cq->GetResultsEx({&result, 1}) == 1 && !is_of_passing(result); }));
    EXPECT_EQ(result.status, NdkStatus::kSuccess);
    EXPECT_EQ(result.request_context, context);
  };
  for (Passing& one : passing) ++running, one.thread = std::thread(come_and_go, &one);
  for (int round = 0; round < 50 && !stop; ++round) {
    const QueuePairPair made = ConnectMore(*a, *b, nullptr, nullptr);
    if (!HasFatalFailure()) {
      EXPECT_EQ(made.at_a->Receive(Context(1), {}), NdkStatus::kSuccess);
      EXPECT_EQ(made.at_b->Send(nullptr, {}, kOpSilentSuccess), NdkStatus::kSuccess);
      expect(Context(1));
      EXPECT_EQ(made.at_a->Write(Context(2), {}, {}, 0), NdkStatus::kSuccess);
      expect(Context(2));
    }
    CloseAndWait(made.at_a), CloseAndWait(made.at_b);
    if (HasFailure()) stop = true;
  }
  stop = true;
  EXPECT_TRUE(Eventually([&] {
    ResultEx result;
    while (a->cq->GetResultsEx({&result, 1}) == 1) is_of_passing(result);
    return running == 0;
  }));
  for (Passing& one : passing) one.thread.join();
}

}  // namespace
}  // namespace rdmabroker
