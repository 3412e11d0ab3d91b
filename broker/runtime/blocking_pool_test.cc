// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/blocking_pool.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "broker/runtime/queue_executor_for_test.h"

namespace rdmabroker {
namespace {

constexpr int kThreads = 16;
// More than the pool does at a time.
constexpr int kMany = 10 * kThreads;
constexpr SessionId kSession(1);
constexpr SessionId kAnother(2);

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
  WorkId Block(BlockingPool::Towards towards) {
    return pool_.RunTowards(
        std::move(towards),
        [gate = gate_] {
          gate->Pass();
          return 0;
        },
        [this](int) { ++done_; });
  }
  // Work that does not block, and has ended when this returns.
  void RunAndAwait(std::optional<BlockingPool::Towards> towards) {
    bool over = false;
    const auto work = [] { return 0; };
    const auto done = [&](int) { over = true; };
    towards ? pool_.RunTowards(*std::move(towards), work, done) : pool_.Run(work, done);
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

// Work that blocks, more than enough of each kind; how many threads it gets; and what goes on beside it.
struct Share {
  std::string name;
  std::vector<BlockingPool::Towards> blocking;
  int threads = 0;
  std::vector<BlockingPool::Towards> others;
};
void PrintTo(const Share& share, std::ostream* out) { *out << share.name; }

std::vector<BlockingPool::Towards> OfManySessions(const std::vector<std::string>& peers) {
  std::vector<BlockingPool::Towards> towards;
  for (uint64_t i = 0; i < kThreads; ++i) towards.push_back({SessionId(100 + i), peers[i % peers.size()]});
  return towards;
}

const std::vector<Share>& Shares() {
  static const auto* const kShares = new std::vector<Share>{
      {"OneSessionsPeer", {{kSession, "dead"}}, kThreads / 8, {{kSession, "alive"}, {kAnother, "dead"}}},
      {"OneSessionsPeers",
       {{kSession, "dead"}, {kSession, "dying"}, {kSession, "gone"}},
       kThreads / 4,
       {{kAnother, "alive"}, {kAnother, "dead"}}},
      {"ManySessionsPeer", OfManySessions({"dead"}), kThreads / 2, {{kAnother, "alive"}}},
      {"ManySessionsPeers", OfManySessions({"dead", "dying", "gone"}), kThreads * 3 / 4, {}},
  };
  return *kShares;
}

class BlockingPoolShare : public BlockingPoolTest, public ::testing::WithParamInterface<Share> {};

TEST_P(BlockingPoolShare, IsWhatSilentPeersHaveAtMostAndOthersGoOnBesideIt) {
  for (int i = 0; i < kMany; ++i) {
    for (const auto& towards : GetParam().blocking) Block(towards);
  }
  gate_->AwaitInside(GetParam().threads);
  for (const auto& other : GetParam().others) RunAndAwait(other);
  RunAndAwait(std::nullopt);
  EXPECT_EQ(gate_->inside(), GetParam().threads);
}

INSTANTIATE_TEST_SUITE_P(Of, BlockingPoolShare, ::testing::ValuesIn(Shares()),
                         [](const auto& share) { return share.param.name; });

TEST_F(BlockingPoolTest, WhatWaitedForItsShareIsDoneInTheEnd) {
  for (int i = 0; i < kThreads; ++i) Block({kSession, "slow"});
  gate_->AwaitInside(kThreads / 8);
  gate_->Open();
  EXPECT_TRUE(executor_.RunUntil([&] { return done_ == kThreads; }));
}

// Each end lets work of two kinds begin: that of the same peer and that of the same session.
TEST_F(BlockingPoolTest, AllThatMayBeginDoesWhenOtherWorkEnds) {
  for (const std::string peer : {"slow", "slower"}) {
    for (int i = 0; i < kThreads / 8; ++i) Block({kSession, peer});
  }
  gate_->AwaitInside(kThreads / 4);
  const auto next = std::make_shared<Gate>();
  for (int i = 0; i < kThreads / 4; ++i) {
    pool_.RunTowards(
        {kSession, i % 2 == 0 ? "slow" : "slower"},
        [next] {
          next->Pass();
          return 0;
        },
        [this](int) { ++done_; });
  }
  gate_->Open();
  next->AwaitInside(kThreads / 4);
  next->Open();
  EXPECT_TRUE(executor_.RunUntil([&] { return done_ == kThreads / 2; }));
}

TEST_F(BlockingPoolTest, WorkThatHasNotBegunCanBeCancelled) {
  const WorkId begun = Block({kSession, "slow"});
  for (int i = 1; i < kThreads / 8; ++i) Block({kSession, "slow"});
  gate_->AwaitInside(kThreads / 8);
  bool ran = false;
  const WorkId waiting = pool_.RunTowards(
      {kSession, "slow"}, [] { return 0; }, [&](int) { ran = true; });
  EXPECT_TRUE(pool_.Cancel(waiting));
  EXPECT_FALSE(pool_.Cancel(waiting));
  EXPECT_FALSE(pool_.Cancel(begun));
  gate_->Open();
  EXPECT_TRUE(executor_.RunUntil([&] { return done_ == kThreads / 8; }));
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
