// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/blocking_pool.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "broker/runtime/loop_for_test.h"

namespace rdmabroker {
namespace {

const Towards kSlow = {PeerWait::kTimed, 1, SessionId(1), "slow"};
constexpr int kSlowAtATime = kWorkShares[0].of_lane;

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

  // Work that blocks at the gate.
  WorkId Block(std::optional<Towards> towards) {
    return pool_.Run(
        [gate = gate_] {
          gate->Pass();
          return 0;
        },
        [this](int) { ++done_; }, std::move(towards));
  }
  // Work that waits for nobody, and has ended when this returns.
  void RunAndAwait() {
    bool over = false;
    pool_.Run([] { return 0; }, [&](int) { over = true; });
    EXPECT_TRUE(RunUntil(loop_, [&] { return over; }));
  }

  Loop loop_;
  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  BlockingPool pool_{loop_};
  int done_ = 0;
};

TEST_F(BlockingPoolTest, WorkReturnsItsOutcomeOnTheLoopThread) {
  int outcome = 0;
  pool_.Run([] { return 42; }, [&](int returned) { outcome = returned; });
  EXPECT_TRUE(RunUntil(loop_, [&] { return outcome == 42; }));
}

TEST_F(BlockingPoolTest, OtherWorkGoesOnWhileSilentPeersHaveAllOfTheirShares) {
  int begun = 0;
  for (const PeerWait wait : {PeerWait::kTimed, PeerWait::kUntimed}) {
    for (uint32_t i = 1; i <= kPoolThreads; ++i) Block(Towards{wait, i, SessionId(i), "dead " + std::to_string(i)});
    begun += kWorkShares[static_cast<size_t>(wait)].all;
  }
  gate_->AwaitInside(begun);
  RunAndAwait();
  EXPECT_EQ(gate_->inside(), begun);
}

TEST_F(BlockingPoolTest, AllThreadsWorkAtOnce) {
  for (int i = 0; i < kPoolThreads; ++i) Block(std::nullopt);
  gate_->AwaitInside(kPoolThreads);
}

TEST_F(BlockingPoolTest, WhatWaitedForItsShareIsDoneInTheEnd) {
  for (int i = 0; i < kPoolThreads; ++i) Block(kSlow);
  gate_->AwaitInside(kSlowAtATime);
  gate_->Open();
  EXPECT_TRUE(RunUntil(loop_, [&] { return done_ == kPoolThreads; }));
}

// Each end lets work of two kinds begin: that of the same peer and that of the same session.
TEST_F(BlockingPoolTest, AllThatMayBeginDoesWhenOtherWorkEnds) {
  constexpr int kAtATime = kWorkShares[0].of_session;
  const Towards slower = {kSlow.wait, kSlow.uid, kSlow.session, "slower"};
  for (const Towards& towards : {kSlow, slower}) {
    for (int i = 0; i < kAtATime / 2; ++i) Block(towards);
  }
  gate_->AwaitInside(kAtATime);
  const auto next = std::make_shared<Gate>();
  for (int i = 0; i < kAtATime; ++i) {
    pool_.Run(
        [next] {
          next->Pass();
          return 0;
        },
        [this](int) { ++done_; }, i % 2 == 0 ? kSlow : slower);
  }
  gate_->Open();
  next->AwaitInside(kAtATime);
  next->Open();
  EXPECT_TRUE(RunUntil(loop_, [&] { return done_ == 2 * kAtATime; }));
}

TEST_F(BlockingPoolTest, WorkThatHasNotBegunCanBeCancelled) {
  const WorkId begun = Block(kSlow);
  for (int i = 1; i < kSlowAtATime; ++i) Block(kSlow);
  gate_->AwaitInside(kSlowAtATime);
  bool ran = false;
  const WorkId waiting = pool_.Run([] { return 0; }, [&](int) { ran = true; }, kSlow);
  EXPECT_TRUE(pool_.Cancel(waiting));
  EXPECT_FALSE(pool_.Cancel(waiting));
  EXPECT_FALSE(pool_.Cancel(begun));
  gate_->Open();
  EXPECT_TRUE(RunUntil(loop_, [&] { return done_ == kSlowAtATime; }));
  EXPECT_FALSE(ran);
}

TEST_F(BlockingPoolTest, APoolWhoseWorkBlocksCanBeDestroyed) {
  auto pool = std::make_unique<BlockingPool>(loop_);
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
