// SPDX-License-Identifier: Apache-2.0

#include "broker/keeper/lifecycle.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <optional>
#include <string>

namespace rdmabroker::keeper {
namespace {

const absl::Time kBegin = absl::UnixEpoch() + absl::Hours(1);
constexpr absl::Duration kWatchdog = absl::Seconds(3);
constexpr absl::Duration kStop = absl::Seconds(5);
constexpr absl::Duration kAMoment = absl::Microseconds(1);

std::optional<Step> Signal(int signal) { return SignalChild{{signal}}; }
std::optional<Step> End(int status) { return EndKeeper{status}; }
const std::optional<Step> kNothing;

class LifecycleTest : public testing::Test {
 protected:
  // The next child, at the moment when it is due.
  void Start() {
    now_ = std::max(now_, life_.deadline());
    EXPECT_EQ(life_.Expire(now_), std::optional<Step>(StartChild()));
    life_.Started();
  }
  std::optional<Step> Hear(absl::string_view text) { return life_.Heard(now_, *ReadNotification(text, 0)); }
  std::optional<Step> Exit(int status) { return life_.Ended(now_, {.status = status}); }
  std::optional<Step> Die(int signal) { return life_.Ended(now_, {.signal = signal}); }
  // Nothing happens until then, and this does.
  std::optional<Step> ExpireAfter(absl::Duration time) {
    EXPECT_EQ(life_.deadline(), now_ + time);
    EXPECT_EQ(life_.Expire(now_ + time - kAMoment), kNothing);
    now_ += time;
    return life_.Expire(now_);
  }
  // The child dies at once; how long it is until the next one starts.
  absl::Duration WaitAfterDeath() {
    EXPECT_EQ(Die(SIGSEGV), kNothing);
    const absl::Duration wait = life_.deadline() - now_;
    Start();
    return wait;
  }

  double random_ = 1;
  absl::Time now_ = kBegin;
  Lifecycle life_{{.watchdog_interval = kWatchdog, .stop_time = kStop}, [this] { return random_; }};
};

TEST_F(LifecycleTest, AChildIsStartedAtOnce) {
  EXPECT_LE(life_.deadline(), kBegin);
  Start();
  EXPECT_EQ(life_.deadline(), absl::InfiniteFuture()) << "however long it takes until it is ready";
}

TEST_F(LifecycleTest, AChildThatDiesIsStartedAgainEachTimeLater) {
  Start();
  EXPECT_EQ(WaitAfterDeath(), absl::ZeroDuration());
  absl::Duration wait = absl::Milliseconds(100);
  for (; wait < absl::Seconds(10); wait *= 2) EXPECT_EQ(WaitAfterDeath(), wait);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(WaitAfterDeath(), absl::Seconds(10));
}

TEST_F(LifecycleTest, AWaitIsDrawnFromItsUpperHalf) {
  Start();
  WaitAfterDeath();
  random_ = 0;
  EXPECT_EQ(WaitAfterDeath(), absl::Milliseconds(50));
  random_ = 0.5;
  EXPECT_EQ(WaitAfterDeath(), absl::Milliseconds(150));
}

TEST_F(LifecycleTest, AChildThatWasReadyForLongIsStartedAgainAtOnce) {
  Start();
  for (int i = 0; i < 10; ++i) WaitAfterDeath();
  Hear("READY=1");
  now_ += Lifecycle::kSteady - kAMoment;
  EXPECT_EQ(WaitAfterDeath(), absl::Seconds(10));
  Hear("READY=1");
  now_ += Lifecycle::kSteady / 2;
  Hear("READY=1");
  now_ += Lifecycle::kSteady / 2;
  EXPECT_EQ(WaitAfterDeath(), absl::ZeroDuration());
  now_ += absl::Hours(1);
  EXPECT_EQ(WaitAfterDeath(), absl::Milliseconds(100)) << "that one was never ready";
}

TEST_F(LifecycleTest, AChildThatMakesWayIsFollowedAtOnce) {
  Start();
  for (int i = 0; i < 10; ++i) WaitAfterDeath();
  for (int i = 0; i < 3; ++i) {
    Hear("READY=1");
    Hear("STOPPING=1");
    EXPECT_EQ(Exit(75), kNothing);
    EXPECT_EQ(life_.deadline(), now_);
    Start();
  }
  EXPECT_EQ(Exit(75), kNothing);
  EXPECT_EQ(life_.deadline(), now_ + absl::Milliseconds(100)) << "that one was never ready";
}

TEST_F(LifecycleTest, AChildThatEndsWellEndsTheKeeper) {
  Start();
  Hear("READY=1");
  EXPECT_EQ(Exit(0), End(0));
  EXPECT_EQ(life_.deadline(), absl::InfiniteFuture());
  EXPECT_EQ(life_.Signalled(now_, SIGTERM), kNothing);
}

TEST_F(LifecycleTest, AFailureThatNoTryMendsEndsTheKeeperUnlessOneWasEverReady) {
  struct Row {
    int status;
    bool hopeless;
  };
  for (const Row& row : {Row{1, false}, Row{2, true}, Row{3, false}, Row{126, true}, Row{127, true}, Row{255, false}}) {
    SCOPED_TRACE(row.status);
    Lifecycle first({.stop_time = kStop}, [] { return 0; });
    first.Started();
    EXPECT_EQ(first.Ended(now_, {.status = row.status}), row.hopeless ? End(row.status) : kNothing);
    Lifecycle later({.stop_time = kStop}, [] { return 0; });
    later.Started();
    later.Heard(now_, *ReadNotification("READY=1", 0));
    EXPECT_EQ(later.Ended(now_, {.signal = SIGSEGV}), kNothing);
    later.Started();
    EXPECT_EQ(later.Ended(now_, {.status = row.status}), kNothing) << "what is kept is worth another try";
  }
}

TEST_F(LifecycleTest, AReadyChildThatIsSilentIsAbortedAndThenKilled) {
  Start();
  EXPECT_EQ(Hear("READY=1"), kNothing);
  EXPECT_EQ(ExpireAfter(kWatchdog), Signal(SIGABRT));
  EXPECT_EQ(Hear("WATCHDOG=1"), kNothing) << "too late";
  EXPECT_EQ(ExpireAfter(kStop), Signal(SIGKILL));
  EXPECT_EQ(ExpireAfter(kStop), kNothing) << "it is stuck";
  EXPECT_EQ(life_.deadline(), absl::InfiniteFuture());
  EXPECT_EQ(Die(SIGKILL), kNothing);
  EXPECT_EQ(life_.deadline(), now_) << "and is started again";
}

TEST_F(LifecycleTest, AChildThatIsHeardLivesOn) {
  Start();
  Hear("READY=1");
  for (int i = 0; i < 5; ++i) {
    now_ += kWatchdog - kAMoment;
    EXPECT_EQ(life_.Expire(now_), kNothing);
    EXPECT_EQ(Hear("WATCHDOG=1"), kNothing);
  }
  now_ += kWatchdog - kAMoment;
  Hear("STATUS=well");
  EXPECT_EQ(ExpireAfter(kAMoment), Signal(SIGABRT)) << "a status is no heartbeat";
}

TEST_F(LifecycleTest, AChildMayChangeItsWatchdogButNotItsSuccessors) {
  Start();
  EXPECT_EQ(Hear("WATCHDOG_USEC=1000000"), kNothing);
  now_ += absl::Seconds(1) - kAMoment;
  Hear("WATCHDOG_USEC=0\nWATCHDOG=1");
  EXPECT_EQ(life_.deadline(), absl::InfiniteFuture());
  Die(SIGSEGV);
  Start();
  Hear("READY=1");
  EXPECT_EQ(ExpireAfter(kWatchdog), Signal(SIGABRT));
}

TEST_F(LifecycleTest, AChildMayAskForTheWatchdogsBite) {
  Start();
  EXPECT_EQ(Hear("WATCHDOG=trigger"), Signal(SIGABRT));
  EXPECT_EQ(Hear("WATCHDOG=trigger"), kNothing);
  EXPECT_EQ(ExpireAfter(kStop), Signal(SIGKILL));
}

TEST_F(LifecycleTest, AStoppingChildIsNotWatchedButKilledWhenItTakesTooLong) {
  Start();
  Hear("READY=1");
  EXPECT_EQ(Hear("STOPPING=1"), kNothing);
  EXPECT_EQ(Hear("READY=1"), kNothing);
  EXPECT_EQ(ExpireAfter(kStop), Signal(SIGKILL));
  EXPECT_EQ(Die(SIGKILL), kNothing) << "nobody asked for its end";
}

TEST_F(LifecycleTest, ARequestToEndIsPassedOnAndNoChildFollows) {
  for (const int signal : {SIGTERM, SIGINT}) {
    struct Row {
      ChildEnd end;
      int status;
    };
    for (const Row& row : {Row{{.status = 0}, 0}, Row{{.status = 1}, 1}, Row{{.signal = SIGTERM}, 128 + SIGTERM}}) {
      Lifecycle life({.stop_time = kStop}, [] { return 0; });
      life.Started();
      EXPECT_EQ(life.Signalled(now_, signal), Signal(signal));
      EXPECT_EQ(life.Ended(now_, row.end), End(row.status));
      EXPECT_EQ(life.deadline(), absl::InfiniteFuture());
      EXPECT_EQ(life.Expire(now_ + absl::Hours(1)), kNothing);
    }
  }
}

TEST_F(LifecycleTest, AChildThatDoesNotEndIsKilledAndAtLastGivenUp) {
  Start();
  EXPECT_EQ(life_.Signalled(now_, SIGTERM), Signal(SIGTERM));
  now_ += kStop / 2;
  EXPECT_EQ(life_.Signalled(now_, SIGTERM), Signal(SIGTERM)) << "it is passed on, and is no respite";
  EXPECT_EQ(ExpireAfter(kStop / 2), Signal(SIGKILL));
  EXPECT_EQ(ExpireAfter(kStop), End(128 + SIGKILL));
}

TEST_F(LifecycleTest, ARequestToEndCountsForAChildThatIsStuckAlready) {
  Start();
  Hear("WATCHDOG=trigger");
  ExpireAfter(kStop);
  ExpireAfter(kStop);
  now_ += absl::Hours(1);
  EXPECT_EQ(life_.Signalled(now_, SIGTERM), Signal(SIGTERM));
  EXPECT_EQ(ExpireAfter(kStop), End(128 + SIGKILL));
}

TEST_F(LifecycleTest, ARequestToEndBetweenTwoChildrenEndsAtOnce) {
  Start();
  Exit(3);
  EXPECT_EQ(life_.Signalled(now_, SIGTERM), End(3));
  EXPECT_EQ(life_.Expire(now_ + absl::Hours(1)), kNothing);
}

TEST_F(LifecycleTest, OtherSignalsAreTheChilds) {
  EXPECT_EQ(life_.Signalled(now_, SIGHUP), kNothing) << "there is none";
  Start();
  Hear("READY=1");
  const absl::Time deadline = life_.deadline();
  for (const int signal : {SIGHUP, SIGUSR1, SIGUSR2}) EXPECT_EQ(life_.Signalled(now_, signal), Signal(signal));
  EXPECT_EQ(life_.deadline(), deadline);
  EXPECT_EQ(Die(SIGUSR1), kNothing) << "it is started again";
}

TEST_F(LifecycleTest, OtherSignalsWaitUntilTheChildIsReady) {
  Start();
  for (const int signal : {SIGUSR2, SIGHUP, SIGUSR1, SIGUSR2}) EXPECT_EQ(life_.Signalled(now_, signal), kNothing);
  EXPECT_EQ(Hear("STATUS=begins\nWATCHDOG=1"), kNothing);
  EXPECT_EQ(Hear("READY=1"), std::optional<Step>(SignalChild{{SIGUSR2, SIGHUP, SIGUSR1}}));
  EXPECT_EQ(life_.deadline(), now_ + kWatchdog);
  EXPECT_EQ(Hear("READY=1"), kNothing) << "it has them";
}

TEST_F(LifecycleTest, AChildTakesTheSignalsAlongThatWaited) {
  Start();
  EXPECT_EQ(life_.Signalled(now_, SIGHUP), kNothing);
  Exit(3);
  Start();
  EXPECT_EQ(Hear("READY=1"), kNothing);
}

TEST_F(LifecycleTest, AChildThatIsEndedBeforeItIsReadyGetsNoOtherSignal) {
  Start();
  EXPECT_EQ(life_.Signalled(now_, SIGHUP), kNothing);
  EXPECT_EQ(life_.Signalled(now_, SIGTERM), Signal(SIGTERM));
  EXPECT_EQ(life_.Signalled(now_, SIGUSR2), kNothing);
  EXPECT_EQ(Hear("READY=1"), kNothing);
  EXPECT_EQ(Exit(0), End(0));
}

}  // namespace
}  // namespace rdmabroker::keeper
