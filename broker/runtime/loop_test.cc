// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "broker/runtime/loop_for_test.h"
#include "dataplane/unique_fd.h"
#include "tests/control/stopped_clock.h"

namespace rdmabroker {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::EndsWith;
using testing::SizeIs;

// What is still to come comes within this. Too short, a test might pass that should fail.
constexpr absl::Duration kQuiet = absl::Milliseconds(10);

void Signal(const UniqueFd& event) {
  const uint64_t one = 1;
  ASSERT_EQ(::write(event.get(), &one, sizeof one), 8);
}
void Drain(const UniqueFd& event) {
  uint64_t count = 0;
  ASSERT_EQ(::read(event.get(), &count, sizeof count), 8);
}
UniqueFd NewEvent() { return UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

// As a callback that takes so long.
void Take(absl::Duration time) {
  for (const absl::Time end = Loop::Now() + time; Loop::Now() < end;) continue;
}

struct SocketPair {
  SocketPair() {
    int ends[2] = {};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    ours = UniqueFd(ends[0]);
    peers = UniqueFd(ends[1]);
  }
  UniqueFd ours, peers;
};

class LoopTest : public testing::Test {
 protected:
  bool RunTurn() { return loop_.RunTurn(Loop::Now()); }
  bool IsQuiet() { return !loop_.RunTurn(Loop::Now() + kQuiet); }

  const UniqueFd event_ = NewEvent();
  Loop loop_;
};

TEST_F(LoopTest, TellsOfAnEventOnceUntilItIsRearmed) {
  std::vector<uint32_t> heard;
  const WatchId watch = loop_.Watch(event_.get(), EPOLLIN, [&](uint32_t events) { heard.push_back(events); });
  EXPECT_TRUE(IsQuiet());
  Signal(event_);
  EXPECT_TRUE(RunTurn());
  Signal(event_);
  EXPECT_TRUE(IsQuiet());
  EXPECT_THAT(heard, ElementsAre(EPOLLIN));
  loop_.Rearm(watch, EPOLLIN);
  EXPECT_TRUE(RunTurn());
  EXPECT_EQ(heard.size(), 2u);
  Drain(event_);
  loop_.Rearm(watch, EPOLLIN);
  EXPECT_TRUE(IsQuiet());
  loop_.Unwatch(watch);
}

TEST_F(LoopTest, AWatchThatItsCallbackRearmsIsHeardWhileTheDescriptorIsReady) {
  int heard = 0;
  WatchId watch = WatchId::kNone;
  watch = loop_.Watch(event_.get(), EPOLLIN, [&](uint32_t) {
    if (++heard == 3) Drain(event_);
    loop_.Rearm(watch, EPOLLIN);
  });
  Signal(event_);
  for (int turn = 1; turn <= 3; ++turn) {
    EXPECT_TRUE(RunTurn());
    EXPECT_EQ(heard, turn);
  }
  EXPECT_TRUE(IsQuiet());
  Signal(event_);
  EXPECT_TRUE(RunTurn());
  EXPECT_EQ(heard, 4);
}

// Epoll would tell of it again and again, and the loop would never wait.
TEST_F(LoopTest, AWatchThatIsNotRearmedIsNotHeardThoughThePeerHasHungUp) {
  SocketPair pair;
  std::vector<uint32_t> heard;
  const WatchId watch = loop_.Watch(pair.ours.get(), EPOLLOUT, [&](uint32_t events) { heard.push_back(events); });
  EXPECT_TRUE(RunTurn());
  pair.peers.Reset();
  EXPECT_FALSE(loop_.Wait(Loop::Now() + kQuiet));
  EXPECT_THAT(heard, ElementsAre(EPOLLOUT));
  loop_.Rearm(watch, EPOLLIN);
  EXPECT_TRUE(RunTurn());
  EXPECT_THAT(heard, ElementsAre(EPOLLOUT, EPOLLIN | EPOLLHUP));
  EXPECT_FALSE(loop_.Wait(Loop::Now() + kQuiet));
}

TEST_F(LoopTest, AWatchForNoEventsHearsOfAHangUp) {
  SocketPair pair;
  std::vector<uint32_t> heard;
  WatchId watch = WatchId::kNone;
  watch = loop_.Watch(pair.ours.get(), 0, [&](uint32_t events) { heard.push_back(events); });
  EXPECT_TRUE(IsQuiet());
  pair.peers.Reset();
  EXPECT_TRUE(RunTurn());
  EXPECT_THAT(heard, ElementsAre(EPOLLHUP));
  EXPECT_FALSE(loop_.Wait(Loop::Now() + kQuiet));
  loop_.Rearm(watch, 0);
  EXPECT_TRUE(RunTurn());
}

TEST_F(LoopTest, AWatchCanBeRearmedForOtherEvents) {
  SocketPair pair;
  std::vector<uint32_t> heard;
  WatchId watch = WatchId::kNone;
  watch = loop_.Watch(pair.ours.get(), EPOLLOUT, [&](uint32_t events) {
    heard.push_back(events);
    loop_.Rearm(watch, EPOLLIN);
  });
  EXPECT_TRUE(RunTurn());
  EXPECT_TRUE(IsQuiet());
  ASSERT_EQ(::write(pair.peers.get(), "x", 1), 1);
  EXPECT_TRUE(RunTurn());
  EXPECT_THAT(heard, ElementsAre(EPOLLOUT, EPOLLIN));
}

// Both are ready in one turn, whichever is first.
TEST_F(LoopTest, AnEventForWhichACallbackNoLongerLetsAnotherWaitIsNotHeard) {
  SocketPair pair;
  int heard = 0;
  WatchId ours = WatchId::kNone, peers = WatchId::kNone;
  ours = loop_.Watch(pair.ours.get(), EPOLLOUT, [&](uint32_t) {
    ++heard;
    loop_.Rearm(peers, EPOLLIN);
  });
  peers = loop_.Watch(pair.peers.get(), EPOLLOUT, [&](uint32_t) {
    ++heard;
    loop_.Rearm(ours, EPOLLIN);
  });
  EXPECT_TRUE(RunTurn());
  EXPECT_TRUE(IsQuiet());
  EXPECT_EQ(heard, 1);
}

TEST_F(LoopTest, AnEventThatIsTakenAlreadyIsNotHeardAfterUnwatch) {
  bool heard = false;
  const WatchId watch = loop_.Watch(event_.get(), EPOLLIN, [&](uint32_t) { heard = true; });
  Signal(event_);
  ASSERT_TRUE(loop_.Wait(Loop::Now()));
  loop_.Unwatch(watch);
  const absl::Time end = Loop::Now() + kQuiet;
  EXPECT_FALSE(loop_.RunTurn(end));
  EXPECT_GE(Loop::Now(), end) << "there was something to do";
  EXPECT_FALSE(heard);
}

TEST_F(LoopTest, AnEventOfAFormerWatchIsNotTakenForTheNextOneOfTheSameDescriptor) {
  int heard = 0;
  const WatchId former = loop_.Watch(event_.get(), EPOLLIN, [&](uint32_t) { heard = 1; });
  Signal(event_);
  ASSERT_TRUE(loop_.Wait(Loop::Now()));
  loop_.Unwatch(former);
  Drain(event_);
  const WatchId next = loop_.Watch(event_.get(), EPOLLIN, [&](uint32_t) { heard = 2; });
  EXPECT_TRUE(IsQuiet());
  EXPECT_EQ(heard, 0);
  loop_.Rearm(former, EPOLLIN);
  loop_.Unwatch(former);
  Signal(event_);
  EXPECT_TRUE(RunTurn());
  EXPECT_EQ(heard, 2);
  loop_.Unwatch(next);
}

TEST_F(LoopTest, ADescriptorThatItClosesIsNotHeardAndItsNumberMayBeTheNextOnes) {
  int heard = 0;
  UniqueFd closed = NewEvent();
  const int number = closed.get();
  const WatchId former = loop_.Watch(number, EPOLLIN, [&](uint32_t) { heard = 1; });
  Signal(closed);
  ASSERT_TRUE(loop_.Wait(Loop::Now()));
  loop_.Close(former, std::move(closed));
  const UniqueFd next = NewEvent();
  ASSERT_EQ(next.get(), number);
  loop_.Watch(number, EPOLLIN, [&](uint32_t) { heard = 2; });
  EXPECT_TRUE(IsQuiet());
  EXPECT_EQ(heard, 0);
  Signal(next);
  EXPECT_TRUE(RunTurn());
  EXPECT_EQ(heard, 2);
}

TEST_F(LoopTest, ACallbackMayEndItsOwnWatch) {
  bool heard = false;
  WatchId watch = WatchId::kNone;
  const auto alive = std::make_shared<int>(7);
  watch = loop_.Watch(event_.get(), EPOLLIN, [&, alive](uint32_t) {
    loop_.Unwatch(watch);
    heard = *alive == 7;
  });
  Signal(event_);
  EXPECT_TRUE(RunTurn());
  EXPECT_TRUE(heard);
  EXPECT_TRUE(IsQuiet());
  EXPECT_EQ(alive.use_count(), 1);
}

// Both are ready in one turn, whichever is first. So many others are watched meanwhile that what is known of watches
// moves in memory.
TEST_F(LoopTest, ACallbackMayEndAnothersWatchAndBeginMore) {
  const UniqueFd another = NewEvent();
  std::vector<UniqueFd> more;
  std::vector<WatchId> watches(2, WatchId::kNone);
  int heard = 0;
  const auto callback = [&](size_t other) {
    return [&, other](uint32_t) {
      ++heard;
      loop_.Unwatch(watches[other]);
      for (int i = 0; i < 100; ++i) {
        more.push_back(NewEvent());
        loop_.Watch(more.back().get(), EPOLLIN, [](uint32_t) {});
      }
    };
  };
  watches[0] = loop_.Watch(event_.get(), EPOLLIN, callback(1));
  watches[1] = loop_.Watch(another.get(), EPOLLIN, callback(0));
  Signal(event_);
  Signal(another);
  EXPECT_TRUE(RunTurn());
  EXPECT_EQ(heard, 1);
  EXPECT_TRUE(IsQuiet());
}

TEST_F(LoopTest, ATurnRunsSoManyDescriptorsAndTheNextTheRest) {
  constexpr int kRest = 10;
  std::vector<UniqueFd> events;
  std::vector<int> heard;
  for (int i = 0; i < Loop::kEventsAtATime + kRest; ++i) {
    events.push_back(NewEvent());
    loop_.Watch(events.back().get(), EPOLLIN, [&heard, i](uint32_t) { heard.push_back(i); });
  }
  for (const UniqueFd& event : events) Signal(event);
  {
    // A turn ends early on a busy machine.
    const StoppedClock clock;
    EXPECT_TRUE(RunTurn());
    EXPECT_THAT(heard, SizeIs(Loop::kEventsAtATime));
    EXPECT_TRUE(RunTurn());
  }
  EXPECT_TRUE(IsQuiet());
  EXPECT_THAT(heard, SizeIs(events.size()));
  for (size_t i = 0; i < heard.size(); ++i) EXPECT_EQ(heard[i], static_cast<int>(i));
}

TEST_F(LoopTest, ATurnThatHasTakenLongLeavesOtherDescriptorsToTheNext) {
  std::vector<UniqueFd> events;
  std::vector<int> heard;
  for (int i = 0; i < 3; ++i) {
    events.push_back(NewEvent());
    loop_.Watch(events.back().get(), EPOLLIN, [&heard, i](uint32_t) {
      heard.push_back(i);
      if (i < 2) Take(Loop::kTurnTime + absl::Microseconds(1));
    });
  }
  for (const UniqueFd& event : events) Signal(event);
  EXPECT_TRUE(RunTurn());
  EXPECT_THAT(heard, ElementsAre(0));
  EXPECT_TRUE(RunTurn());
  EXPECT_THAT(heard, ElementsAre(0, 1));
  EXPECT_TRUE(RunTurn());
  EXPECT_THAT(heard, ElementsAre(0, 1, 2));
}

TEST_F(LoopTest, EachDescriptorHasItsTurnThoughAllAreReadyAndEachTakesLong) {
  // Two times as many as are taken at a time: epoll puts those that it has told of behind the others.
  constexpr size_t kDescriptors = 2 * Loop::kEventsAtATime;
  std::vector<UniqueFd> events;
  std::vector<WatchId> watches(kDescriptors);
  std::vector<int> heard(kDescriptors);
  for (size_t i = 0; i < kDescriptors; ++i) {
    events.push_back(NewEvent());
    Signal(events.back());
    watches[i] = loop_.Watch(events.back().get(), EPOLLIN, [&, i](uint32_t) {
      ++heard[i];
      Take(Loop::kTurnTime + absl::Microseconds(1));
      loop_.Rearm(watches[i], EPOLLIN);
    });
  }
  for (size_t turn = 0; turn < kDescriptors; ++turn) EXPECT_TRUE(RunTurn());
  EXPECT_THAT(heard, Each(1));
}

TEST_F(LoopTest, ATurnThatHasTakenLongLeavesOtherTimersToTheNext) {
  std::vector<int> ran;
  const absl::Time past = Loop::Now() - absl::Seconds(1);
  for (int i = 0; i < 2; ++i) {
    loop_.StartTimer(past, [&ran, i] {
      ran.push_back(i);
      Take(Loop::kTurnTime + absl::Microseconds(1));
    });
  }
  EXPECT_TRUE(RunTurn());
  EXPECT_THAT(ran, ElementsAre(0));
  EXPECT_TRUE(RunTurn());
  EXPECT_THAT(ran, ElementsAre(0, 1));
}

TEST_F(LoopTest, DescriptorsWhoseCallbacksTakeLongKeepNeitherTimersNorTasksFromRunning) {
  std::vector<int> ran;
  loop_.Watch(event_.get(), EPOLLIN, [&](uint32_t) {
    ran.push_back(1);
    Take(Loop::kTurnTime + absl::Microseconds(1));
  });
  Signal(event_);
  loop_.Post([&] { ran.push_back(2); });
  loop_.StartTimer(Loop::Now() - absl::Seconds(1), [&] { ran.push_back(3); });
  EXPECT_TRUE(RunTurn());
  EXPECT_THAT(ran, ElementsAre(1, 2, 3));
}

TEST_F(LoopTest, TimersRunInTheOrderOfTheirTimes) {
  std::vector<int> ran;
  const absl::Time now = Loop::Now();
  loop_.StartTimer(now + absl::Milliseconds(20), [&] { ran.push_back(3); });
  loop_.StartTimer(now + absl::Milliseconds(1), [&] { ran.push_back(1); });
  loop_.StartTimer(now + absl::Milliseconds(10), [&] { ran.push_back(2); });
  loop_.StartTimer(now - absl::Hours(1), [&] { ran.push_back(0); });
  ASSERT_TRUE(RunUntil(loop_, [&] { return ran.size() == 4; }));
  EXPECT_GE(Loop::Now(), now + absl::Milliseconds(20));
  EXPECT_THAT(ran, ElementsAre(0, 1, 2, 3));
}

TEST_F(LoopTest, ACancelledTimerDoesNotRun) {
  std::vector<int> ran;
  const absl::Time now = Loop::Now();
  const TimerId cancelled = loop_.StartTimer(now + absl::Milliseconds(1), [&] { ran.push_back(1); });
  const TimerId last = loop_.StartTimer(now + absl::Milliseconds(5), [&] { ran.push_back(2); });
  loop_.CancelTimer(cancelled);
  loop_.CancelTimer(cancelled);
  loop_.CancelTimer(TimerId::kNone);
  ASSERT_TRUE(RunUntil(loop_, [&] { return !ran.empty(); }));
  loop_.CancelTimer(last);
  EXPECT_THAT(ran, ElementsAre(2));
}

// The kernel's timer fires for the one that has gone, or has fired.
TEST_F(LoopTest, ATimerRunsThatIsLaterThanOneForWhichTheLoopHasWaited) {
  std::vector<int> ran;
  const TimerId cancelled = loop_.StartTimer(Loop::Now() + absl::Milliseconds(20), [&] { ran.push_back(1); });
  EXPECT_FALSE(loop_.Wait(Loop::Now()));
  loop_.CancelTimer(cancelled);
  loop_.StartTimer(Loop::Now() + absl::Milliseconds(40), [&] { ran.push_back(2); });
  ASSERT_TRUE(RunUntil(loop_, [&] { return !ran.empty(); }));
  loop_.StartTimer(Loop::Now() + absl::Milliseconds(1), [&] { ran.push_back(3); });
  ASSERT_TRUE(RunUntil(loop_, [&] { return ran.size() == 2; }));
  EXPECT_THAT(ran, ElementsAre(2, 3));
}

TEST_F(LoopTest, ATimerRunsThatIsEarlierThanOneForWhichTheLoopHasWaited) {
  bool ran = false;
  loop_.StartTimer(Loop::Now() + absl::Hours(1), [] {});
  EXPECT_FALSE(loop_.Wait(Loop::Now()));
  const absl::Time end = Loop::Now() + absl::Seconds(30);
  loop_.StartTimer(Loop::Now() + absl::Milliseconds(1), [&] { ran = true; });
  EXPECT_TRUE(loop_.RunTurn(end));
  EXPECT_TRUE(ran);
  EXPECT_LT(Loop::Now(), end) << "only the end has woken it";
}

TEST_F(LoopTest, ATimerOfTheInfiniteFutureKeepsNoOtherFromRunning) {
  bool ran = false;
  loop_.StartTimer(absl::InfiniteFuture(), [] {});
  EXPECT_TRUE(IsQuiet());
  loop_.StartTimer(Loop::Now() + absl::Milliseconds(1), [&] { ran = true; });
  EXPECT_TRUE(RunUntil(loop_, [&] { return ran; }));
  EXPECT_TRUE(IsQuiet());
}

TEST_F(LoopTest, ATurnThatWaitsDoesNotEndForATimerThatHasGone) {
  const TimerId timer = loop_.StartTimer(Loop::Now() + absl::Milliseconds(5), [] {});
  EXPECT_FALSE(loop_.Wait(Loop::Now()));
  loop_.CancelTimer(timer);
  const absl::Time end = Loop::Now() + absl::Milliseconds(20);
  EXPECT_FALSE(loop_.RunTurn(end));
  EXPECT_GE(Loop::Now(), end);
}

TEST_F(LoopTest, ATimerMayCancelAnotherThatIsDueToo) {
  std::vector<int> ran;
  const absl::Time past = Loop::Now() - absl::Seconds(1);
  TimerId second = TimerId::kNone;
  loop_.StartTimer(past, [&] {
    ran.push_back(1);
    loop_.CancelTimer(second);
  });
  second = loop_.StartTimer(past, [&] { ran.push_back(2); });
  loop_.StartTimer(past, [&] { ran.push_back(3); });
  EXPECT_TRUE(RunTurn());
  EXPECT_TRUE(IsQuiet());
  EXPECT_THAT(ran, ElementsAre(1, 3));
}

// Otherwise a callback whose time has always passed already would keep everything else from the loop thread.
TEST_F(LoopTest, ATimerThatATimerStartsLetsOtherWorkRunFirst) {
  std::vector<int> ran;
  const absl::Time past = Loop::Now() - absl::Seconds(1);
  loop_.StartTimer(past, [&] {
    ran.push_back(1);
    loop_.Post([&] { ran.push_back(2); });
    loop_.StartTimer(past, [&] { ran.push_back(3); });
  });
  EXPECT_TRUE(RunTurn());
  EXPECT_THAT(ran, ElementsAre(1));
  EXPECT_TRUE(RunTurn());
  EXPECT_THAT(ran, ElementsAre(1, 2, 3));
}

TEST_F(LoopTest, TasksRunInTheirOrderAndThoseThatATaskPostsInTheNextTurn) {
  std::vector<int> ran;
  loop_.Post([&] {
    ran.push_back(1);
    loop_.Post([&] { ran.push_back(3); });
  });
  loop_.Post([&] { ran.push_back(2); });
  EXPECT_TRUE(RunTurn());
  EXPECT_THAT(ran, ElementsAre(1, 2));
  EXPECT_TRUE(RunTurn());
  EXPECT_THAT(ran, ElementsAre(1, 2, 3));
  EXPECT_TRUE(IsQuiet());
}

// Fabrics have stored what they note before they go on with it.
TEST_F(LoopTest, WhatACallbackPostsAndStartsRunsAfterWhatItHasLeftForTheTurnsEnd) {
  std::vector<std::string> ran;
  const auto add = [&](const char* what) { return [&ran, what] { ran.push_back(what); }; };
  const auto callback = [&] {
    loop_.Post(add("task"));
    loop_.StartTimer(Loop::Now() - absl::Seconds(1), add("timer"));
    loop_.AtTurnEnd(Loop::Stage::kWrite, add("end"));
  };
  loop_.Watch(event_.get(), EPOLLIN, [&](uint32_t) { callback(); });
  Signal(event_);
  EXPECT_TRUE(RunTurn());
  EXPECT_THAT(ran, ElementsAre("end"));
  EXPECT_TRUE(RunTurn());
  EXPECT_THAT(ran, ElementsAre("end", "task", "timer"));
  ran.clear();
  loop_.Post(callback);
  EXPECT_TRUE(RunTurn());
  EXPECT_THAT(ran, ElementsAre("end"));
}

TEST_F(LoopTest, WhatIsLeftForATurnsEndRunsByStagesAndInItsOrder) {
  std::vector<std::string> ran;
  const auto add = [&](const char* what) { return [&ran, what] { ran.push_back(what); }; };
  loop_.Post([&] {
    loop_.AtTurnEnd(Loop::Stage::kWrite, add("write"));
    loop_.AtTurnEnd(Loop::Stage::kReply, add("reply"));
    loop_.AtTurnEnd(Loop::Stage::kHandle, add("handle"));
    loop_.AtTurnEnd(Loop::Stage::kHandle, add("handle more"));
  });
  loop_.Post(add("task"));
  EXPECT_TRUE(RunTurn());
  EXPECT_THAT(ran, ElementsAre("task", "handle", "handle more", "reply", "write"));
  EXPECT_TRUE(IsQuiet());
}

TEST_F(LoopTest, WhatALaterStageLeavesForAnEarlierOneRunsBeforeItGoesOn) {
  std::vector<std::string> ran;
  const auto add = [&](const char* what) { return [&ran, what] { ran.push_back(what); }; };
  loop_.AtTurnEnd(Loop::Stage::kReply, [&] {
    ran.push_back("reply");
    loop_.AtTurnEnd(Loop::Stage::kWrite, add("write"));
    loop_.AtTurnEnd(Loop::Stage::kHandle, add("handle"));
  });
  loop_.AtTurnEnd(Loop::Stage::kReply, add("reply more"));
  EXPECT_TRUE(RunTurn());
  EXPECT_THAT(ran, ElementsAre("reply", "handle", "reply more", "write"));
}

TEST_F(LoopTest, AWatchThatIsRearmedAtTheTurnsEndIsHeardAgain) {
  int heard = 0;
  WatchId watch = WatchId::kNone;
  watch = loop_.Watch(event_.get(), EPOLLIN, [&](uint32_t) {
    ++heard;
    loop_.AtTurnEnd(Loop::Stage::kWrite, [&] { loop_.Rearm(watch, EPOLLIN); });
  });
  Signal(event_);
  EXPECT_TRUE(RunTurn());
  EXPECT_TRUE(RunTurn());
  EXPECT_EQ(heard, 2);
}

TEST_F(LoopTest, AnotherThreadsTaskWakesALoopThatWaits) {
  constexpr int kTasks = 1000;
  std::atomic<int> ran = 0;
  // The loop waits, or is about to, each time.
  std::thread poster([&] {
    for (int i = 0; i < kTasks; ++i) {
      while (ran != i) std::this_thread::yield();
      loop_.Post([&] { ++ran; });
    }
  });
  const absl::Time end = Loop::Now() + absl::Seconds(30);
  while (ran != kTasks && Loop::Now() < end) loop_.RunTurn(end);
  EXPECT_EQ(ran, kTasks);
  EXPECT_LT(Loop::Now(), end) << "only the end has woken it";
  // Where it failed, the poster has its end, too.
  while (ran != kTasks) loop_.RunTurn();
  poster.join();
}

TEST_F(LoopTest, WaitingRunsNothing) {
  std::vector<int> ran;
  loop_.Watch(event_.get(), EPOLLIN, [&](uint32_t) { ran.push_back(1); });
  EXPECT_FALSE(loop_.Wait(Loop::Now() + kQuiet));
  Signal(event_);
  EXPECT_TRUE(loop_.Wait());
  loop_.Post([&] { ran.push_back(2); });
  EXPECT_TRUE(loop_.Wait());
  EXPECT_TRUE(ran.empty());
  EXPECT_TRUE(RunTurn());
  EXPECT_THAT(ran, ElementsAre(1, 2));
  EXPECT_FALSE(loop_.Wait(Loop::Now() + kQuiet));
}

TEST_F(LoopTest, TasksThatTakeTooLongLeaveTheRestToTheNextTurnInOrder) {
  std::vector<int> ran;
  for (int i = 0; i < 3; ++i) {
    loop_.Post([&ran, &loop = loop_, i] {
      Take(Loop::kTurnTime + absl::Microseconds(1));
      ran.push_back(i);
      if (i == 0) loop.Post([&ran] { ran.push_back(3); });
    });
  }
  EXPECT_TRUE(RunTurn());
  EXPECT_THAT(ran, ElementsAre(0));
  for (int turn = 0; turn < 3; ++turn) EXPECT_TRUE(RunTurn());
  EXPECT_THAT(ran, ElementsAre(0, 1, 2, 3));
}

TEST_F(LoopTest, AFollowerHearsWhichCallbackOfATurnTookLongest) {
  static constexpr absl::Duration kLong = absl::Milliseconds(2);
  std::vector<Loop::Turn> turns;
  loop_.FollowTurns([&](const Loop::Turn& turn) { turns.push_back(turn); });
  const auto take_long = [] { Take(kLong); };
  std::vector<int> lines;

  loop_.Post([] {});
  lines.push_back(__LINE__ + 1);
  const WatchId long_watch = loop_.Watch(event_.get(), EPOLLIN, [&](uint32_t) { take_long(); });
  Signal(event_);
  EXPECT_TRUE(RunTurn());
  loop_.Unwatch(long_watch);

  lines.push_back(__LINE__ + 1);
  loop_.StartTimer(Loop::Now(), take_long);
  loop_.StartTimer(Loop::Now(), [] {});
  EXPECT_TRUE(RunTurn());

  loop_.AtTurnEnd(Loop::Stage::kHandle, [] {});
  lines.push_back(__LINE__ + 1);
  loop_.AtTurnEnd(Loop::Stage::kReply, take_long);
  EXPECT_TRUE(RunTurn());

  const WatchId watch = loop_.Watch(event_.get(), EPOLLIN, [](uint32_t) {});
  ASSERT_TRUE(loop_.Wait(Loop::Now()));
  loop_.Unwatch(watch);
  EXPECT_TRUE(IsQuiet());
  ASSERT_THAT(turns, SizeIs(lines.size())) << "nothing is told of a turn without callbacks";
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_THAT(turns[i].place.file, EndsWith("broker/runtime/loop_test.cc"));
    EXPECT_EQ(turns[i].place.line, lines[i]);
    EXPECT_GE(turns[i].longest, kLong);
    EXPECT_GE(turns[i].took, turns[i].longest);
  }
}

TEST_F(LoopTest, StopEndsRunWithTheTurn) {
  std::vector<int> ran;
  loop_.Post([&] {
    loop_.Stop();
    loop_.AtTurnEnd(Loop::Stage::kWrite, [&] { ran.push_back(2); });
    loop_.Post([&] { ran.push_back(3); });
  });
  loop_.Post([&] { ran.push_back(1); });
  loop_.Run();
  EXPECT_THAT(ran, ElementsAre(1, 2));
}

}  // namespace
}  // namespace rdmabroker
