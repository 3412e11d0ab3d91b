// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <memory>
#include <vector>

#include "broker/runtime/queue_executor_for_test.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {
namespace {

using testing::ElementsAre;

class WatcherTest : public testing::Test {
 protected:
  WatcherTest() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void Signal() {
    const uint64_t one = 1;
    ASSERT_EQ(::write(event_.get(), &one, sizeof one), 8);
  }
  void Drain() {
    uint64_t count = 0;
    ASSERT_EQ(::read(event_.get(), &count, sizeof count), 8);
  }
  // A task that comes behind all that has been posted, from the watcher's thread too, once `fd` is readable.
  void RunUntilHeard() {
    UniqueFd marker(::eventfd(1, EFD_CLOEXEC));
    bool heard = false;
    const WatchId watch = watcher_->Watch(marker.get(), EPOLLIN, [&](uint32_t) { heard = true; });
    ASSERT_TRUE(executor_.RunUntil([&] { return heard; }));
    watcher_->Unwatch(watch);
  }

  QueueExecutor executor_;
  UniqueFd event_;
  std::unique_ptr<Watcher> watcher_ = std::make_unique<Watcher>(executor_);
};

TEST_F(WatcherTest, TellsOfAnEventOnceUntilItIsRearmed) {
  std::vector<uint32_t> heard;
  const WatchId watch = watcher_->Watch(event_.get(), EPOLLIN, [&](uint32_t events) { heard.push_back(events); });
  Signal();
  ASSERT_TRUE(executor_.RunUntil([&] { return !heard.empty(); }));
  Signal();
  RunUntilHeard();
  EXPECT_THAT(heard, ElementsAre(EPOLLIN));
  watcher_->Rearm(watch, EPOLLIN);
  ASSERT_TRUE(executor_.RunUntil([&] { return heard.size() == 2; }));
  Drain();
  watcher_->Rearm(watch, EPOLLIN);
  RunUntilHeard();
  EXPECT_EQ(heard.size(), 2u);
  watcher_->Unwatch(watch);
}

TEST_F(WatcherTest, AnEventThatIsPostedAlreadyIsNotHeardAfterUnwatch) {
  bool heard = false;
  const WatchId watch = watcher_->Watch(event_.get(), EPOLLIN, [&](uint32_t) { heard = true; });
  Signal();
  ASSERT_TRUE(executor_.WaitForTasks(1));
  watcher_->Unwatch(watch);
  RunUntilHeard();
  EXPECT_FALSE(heard);
}

TEST_F(WatcherTest, AnEventOfAFormerWatchIsNotTakenForTheNextOneOfTheSameDescriptor) {
  int heard = 0;
  const WatchId former = watcher_->Watch(event_.get(), EPOLLIN, [&](uint32_t) { heard = 1; });
  Signal();
  ASSERT_TRUE(executor_.WaitForTasks(1));
  watcher_->Unwatch(former);
  Drain();
  const WatchId next = watcher_->Watch(event_.get(), EPOLLIN, [&](uint32_t) { heard = 2; });
  RunUntilHeard();
  EXPECT_EQ(heard, 0);
  watcher_->Rearm(former, EPOLLIN);
  watcher_->Unwatch(former);
  Signal();
  ASSERT_TRUE(executor_.RunUntil([&] { return heard != 0; }));
  EXPECT_EQ(heard, 2);
  watcher_->Unwatch(next);
}

TEST_F(WatcherTest, ACallbackMayEndItsOwnWatch) {
  bool heard = false;
  WatchId watch = WatchId::kNone;
  const auto alive = std::make_shared<int>(7);
  watch = watcher_->Watch(event_.get(), EPOLLIN, [&, alive](uint32_t) {
    watcher_->Unwatch(watch);
    heard = *alive == 7;
  });
  Signal();
  EXPECT_TRUE(executor_.RunUntil([&] { return heard; }));
}

TEST_F(WatcherTest, TimersRunInTheOrderOfTheirTimes) {
  std::vector<int> ran;
  const absl::Time now = Watcher::Now();
  watcher_->StartTimer(now + absl::Milliseconds(20), [&] { ran.push_back(3); });
  watcher_->StartTimer(now + absl::Milliseconds(1), [&] { ran.push_back(1); });
  watcher_->StartTimer(now + absl::Milliseconds(10), [&] { ran.push_back(2); });
  watcher_->StartTimer(now - absl::Hours(1), [&] { ran.push_back(0); });
  ASSERT_TRUE(executor_.RunUntil([&] { return ran.size() == 4; }));
  EXPECT_GE(Watcher::Now(), now + absl::Milliseconds(20));
  EXPECT_THAT(ran, ElementsAre(0, 1, 2, 3));
}

TEST_F(WatcherTest, ACancelledTimerDoesNotRun) {
  std::vector<int> ran;
  const absl::Time now = Watcher::Now();
  const TimerId cancelled = watcher_->StartTimer(now + absl::Milliseconds(1), [&] { ran.push_back(1); });
  const TimerId last = watcher_->StartTimer(now + absl::Milliseconds(5), [&] { ran.push_back(2); });
  watcher_->CancelTimer(cancelled);
  watcher_->CancelTimer(cancelled);
  watcher_->CancelTimer(TimerId::kNone);
  ASSERT_TRUE(executor_.RunUntil([&] { return !ran.empty(); }));
  watcher_->CancelTimer(last);
  EXPECT_THAT(ran, ElementsAre(2));
}

TEST_F(WatcherTest, ATimerRunsThatWasStartedAfterAnEarlierOneWasCancelled) {
  std::vector<int> ran;
  const absl::Time now = Watcher::Now();
  watcher_->CancelTimer(watcher_->StartTimer(now + absl::Milliseconds(1), [&] { ran.push_back(1); }));
  watcher_->StartTimer(now + absl::Milliseconds(5), [&] { ran.push_back(2); });
  ASSERT_TRUE(executor_.RunUntil([&] { return !ran.empty(); }));
  watcher_->StartTimer(Watcher::Now() + absl::Milliseconds(1), [&] { ran.push_back(3); });
  ASSERT_TRUE(executor_.RunUntil([&] { return ran.size() == 2; }));
  EXPECT_THAT(ran, ElementsAre(2, 3));
}

TEST_F(WatcherTest, ATimerMayCancelAnotherThatIsDueToo) {
  std::vector<int> ran;
  const absl::Time past = Watcher::Now() - absl::Seconds(1);
  TimerId second = TimerId::kNone;
  watcher_->StartTimer(past, [&] {
    ran.push_back(1);
    watcher_->CancelTimer(second);
  });
  second = watcher_->StartTimer(past, [&] { ran.push_back(2); });
  watcher_->StartTimer(past, [&] { ran.push_back(3); });
  ASSERT_TRUE(executor_.RunUntil([&] { return ran.size() == 2; }));
  EXPECT_THAT(ran, ElementsAre(1, 3));
}

// Otherwise a callback whose time has always passed already would keep everything else from the loop thread.
TEST_F(WatcherTest, ATimerThatATimerStartsLetsOtherWorkRunFirst) {
  std::vector<int> ran;
  const absl::Time past = Watcher::Now() - absl::Seconds(1);
  watcher_->StartTimer(past, [&] {
    ran.push_back(1);
    executor_.Post([&] { ran.push_back(2); });
    watcher_->StartTimer(past, [&] { ran.push_back(3); });
  });
  ASSERT_TRUE(executor_.RunUntil([&] { return ran.size() == 3; }));
  EXPECT_THAT(ran, ElementsAre(1, 2, 3));
}

TEST_F(WatcherTest, NothingPostedRunsAfterItsEnd) {
  bool ran = false;
  watcher_->Watch(event_.get(), EPOLLIN, [&](uint32_t) { ran = true; });
  watcher_->StartTimer(Watcher::Now(), [&] { ran = true; });
  Signal();
  ASSERT_TRUE(executor_.WaitForTasks(2));
  watcher_.reset();
  bool reached = false;
  executor_.Post([&] { reached = true; });
  ASSERT_TRUE(executor_.RunUntil([&] { return reached; }));
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace rdmabroker
