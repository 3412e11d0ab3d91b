// SPDX-License-Identifier: Apache-2.0

// What many threads may do at once. The faults that these tests look for are seen by ThreadSanitizer.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "client/testing/fixture.h"
#include "tests/random_seed.h"

namespace rdmabroker::client {
namespace {

class ThreadsTest : public ClientTest {
 protected:
  // Runs the work on several threads, with a generator for each.
  template <typename Work>
  void OnThreads(const Work& work) {
    const unsigned seed = RandomSeed();
    RecordProperty("seed", static_cast<int>(seed));
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i) threads.emplace_back([&work, seed, i] { work(std::minstd_rand(seed + i)); });
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_F(ThreadsTest, ThreadsConnectAndCloseAtOnce) {
  OpenSession();
  std::atomic<int> closed = 0;
  OnThreads([&](std::minstd_rand random) {
    for (int i = 0; i < 25; ++i) {
      auto* const mine = new FakeQueuePair(adapter->data());
      auto made = BlockingConnect(adapter, mine, {.destination = kSomeAddress});
      ASSERT_TRUE(made.outcome.ok());
      EXPECT_EQ(made.object->Reject(""), NdkStatus::kConnectionInvalid);
      uint32_t length = 0;
      EXPECT_EQ(made.object->GetConnectionData(nullptr, nullptr, nullptr, &length), NdkStatus::kSuccess);
      if (random() % 2 == 0) BlockingClose(made.object);
      made.object->Close({});
      if (mine->Close([&] { ++closed; }) == NdkStatus::kSuccess) ++closed;
    }
  });
  session = nullptr;
  EXPECT_EQ(closed, 100);
}

TEST_F(ThreadsTest, EveryCallbackComesOnceWhileTheSessionEnds) {
  OpenSession();
  struct Call {
    std::atomic<int> completions = 0;
    NdkStatus status = NdkStatus::kPending;
  };
  std::atomic<bool> begun = false;
  std::mutex mutex;
  std::vector<std::shared_ptr<Call>> calls;
  OnThreads([&](std::minstd_rand random) {
    for (int i = 0; i < 200; ++i) {
      const auto call = std::make_shared<Call>();
      call->status = adapter->CreateConnector([call](const Outcome&, const std::shared_ptr<Connector>& made) {
        ++call->completions;
        if (made != nullptr) made->Close({});
      });
      {
        const std::lock_guard lock(mutex);
        calls.push_back(call);
      }
      if (i == 50 && !begun.exchange(true)) session->Close({});
      if (random() % 16 == 0) std::this_thread::yield();
    }
  });
  session = nullptr;
  ASSERT_EQ(calls.size(), 800u);
  for (const auto& call : calls) EXPECT_EQ(call->completions, call->status == NdkStatus::kPending ? 1 : 0);
}

TEST_F(ThreadsTest, ClosesFromOtherThreadsMeetEvents) {
  OpenSession();
  std::atomic<int> delivered = 0;
  std::vector<std::thread> closers;
  const auto listener = NewListener([&](const std::shared_ptr<Connector>& connector) {
    ++delivered;
    connector->Accept(qp, {}, {}, ExactlyOnce("accepted", [connector](const Outcome&) {}));
    closers.emplace_back([connector] { connector->Close({}); });
  });
  const uint64_t id = broker.WaitFor("Listen").object;
  for (uint64_t i = 0; i < 100; ++i) {
    broker.Emit(Broker::ConnectEvent(id, 1000 + i));
    broker.Emit(Broker::DisconnectEvent(1000 + i));
  }
  broker.WaitFor("CloseConnector", 100);
  EXPECT_EQ(delivered, 100);
  session = nullptr;
  for (std::thread& closer : closers) closer.join();
}

}  // namespace
}  // namespace rdmabroker::client
