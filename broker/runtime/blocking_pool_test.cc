// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/blocking_pool.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "broker/runtime/queue_executor_for_test.h"

namespace rdmabroker {
namespace {

constexpr int kThreads = 8;

// Holds work back until it is opened, and counts who has come. Shared with the work, which may outlive the test.
class Gate {
 public:
  void Pass() {
    std::unique_lock lock(mutex_);
    ++inside_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void AwaitInside(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return inside_ >= count; });
  }
  int inside() {
    const std::lock_guard lock(mutex_);
    return inside_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int inside_ = 0;
};

class BlockingPoolTest : public ::testing::Test {
 protected:
  ~BlockingPoolTest() override { gate_->Open(); }

  // Work that blocks at the gate, towards `destination`.
  WorkId Block(const std::string& destination) {
    return pool_.RunTowards(
        destination,
        [gate = gate_] {
          gate->Pass();
          return 0;
        },
        [this](int) { ++done_; });
  }
  // Work that does not block, and has ended when this returns.
  void RunAndAwait(const std::string& destination) {
    bool over = false;
    pool_.RunTowards(
        destination, [] { return 0; }, [&](int) { over = true; });
    EXPECT_TRUE(executor_.RunUntil([&] { return over; }));
  }

  QueueExecutor executor_;
  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  BlockingPool pool_{executor_, kThreads};
  int done_ = 0;
};

TEST_F(BlockingPoolTest, WorkReturnsItsOutcomeOnTheLoopThread) {
  int outcome = 0;
  pool_.Run([] { return 42; }, [&](int returned) { outcome = returned; });
  EXPECT_TRUE(executor_.RunUntil([&] { return outcome == 42; }));
}

TEST_F(BlockingPoolTest, ADestinationThatDoesNotAnswerHasHalfOfTheThreads) {
  for (int i = 0; i < 10 * kThreads; ++i) Block("dead");
  gate_->AwaitInside(kThreads / 2);
  RunAndAwait("alive");
  RunAndAwait("");
  EXPECT_EQ(gate_->inside(), kThreads / 2);
}

TEST_F(BlockingPoolTest, DestinationsTogetherLeaveAQuarterForOtherWork) {
  for (int i = 0; i < 10 * kThreads; ++i) Block("dead " + std::to_string(i));
  gate_->AwaitInside(kThreads * 3 / 4);
  RunAndAwait("");
  EXPECT_EQ(gate_->inside(), kThreads * 3 / 4);
}

TEST_F(BlockingPoolTest, WhatWaitedForItsDestinationIsDoneInTheEnd) {
  for (int i = 0; i < kThreads; ++i) Block("slow");
  gate_->AwaitInside(kThreads / 2);
  gate_->Open();
  EXPECT_TRUE(executor_.RunUntil([&] { return done_ == kThreads; }));
}

TEST_F(BlockingPoolTest, WorkThatHasNotBegunCanBeCancelled) {
  const WorkId begun = Block("slow");
  for (int i = 1; i < kThreads / 2; ++i) Block("slow");
  gate_->AwaitInside(kThreads / 2);
  bool ran = false;
  const WorkId waiting = pool_.RunTowards(
      "slow", [] { return 0; }, [&](int) { ran = true; });
  EXPECT_TRUE(pool_.Cancel(waiting));
  EXPECT_FALSE(pool_.Cancel(waiting));
  EXPECT_FALSE(pool_.Cancel(begun));
  gate_->Open();
  EXPECT_TRUE(executor_.RunUntil([&] { return done_ == kThreads / 2; }));
  EXPECT_FALSE(ran);
}

TEST_F(BlockingPoolTest, APoolWhoseWorkBlocksCanBeDestroyed) {
  auto pool = std::make_unique<BlockingPool>(executor_, kThreads);
  pool->Run(
      [gate = gate_] {
        gate->Pass();
        return 0;
      },
      [](int) { FAIL() << "after the pool was destroyed"; });
  gate_->AwaitInside(1);
  pool.reset();
}

}  // namespace
}  // namespace rdmabroker
