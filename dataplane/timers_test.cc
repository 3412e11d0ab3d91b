// SPDX-License-Identifier: Apache-2.0

#include "dataplane/timers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace rdmabroker {
namespace {

using std::chrono_literals::operator""s;

class Timed final : public DataObject {
 public:
  Timed(std::string* log, std::string name) : timer(this, [log, name = std::move(name)] { *log += name; }) {}

  Timer timer;
};

class TimersTest : public testing::Test {
 protected:
  ~TimersTest() override {
    for (Timed* const timed : {a_, b_}) {
      timers_.Set(&timed->timer, std::nullopt);
      timed->Close({});
    }
  }
  std::string RunUntil(Timer::Clock::duration time) {
    while (const auto due = timers_.Take(kStart + time)) due.Run();
    return std::exchange(log_, "");
  }

  const Timer::Clock::time_point kStart = Timer::Clock::now();
  std::string log_;
  Timers timers_;
  Timed* const a_ = new Timed(&log_, "a");
  Timed* const b_ = new Timed(&log_, "b");
};

TEST_F(TimersTest, RunInTheOrderOfTheirTimesAndOnce) {
  EXPECT_EQ(timers_.first(), std::nullopt);
  timers_.Set(&a_->timer, kStart + 2s);
  timers_.Set(&b_->timer, kStart + 1s);
  EXPECT_EQ(timers_.first(), kStart + 1s);
  EXPECT_EQ(RunUntil(0s), "");
  EXPECT_EQ(RunUntil(1s), "b");
  EXPECT_EQ(RunUntil(3s), "a");
  EXPECT_EQ(RunUntil(9s), "");
  timers_.Set(&b_->timer, kStart + 4s);
  EXPECT_EQ(RunUntil(4s), "b");
}

TEST_F(TimersTest, TheLastTimeThatWasSetHolds) {
  timers_.Set(&a_->timer, kStart + 1s);
  timers_.Set(&a_->timer, kStart + 3s);
  timers_.Set(&b_->timer, kStart + 1s);
  timers_.Set(&b_->timer, std::nullopt);
  EXPECT_EQ(RunUntil(2s), "");
  EXPECT_EQ(RunUntil(3s), "a");
}

TEST_F(TimersTest, OneThatIsDueKeepsItsObjectUntilItHasRun) {
  auto* const closed = new Timed(&log_, "c");
  timers_.Set(&closed->timer, kStart);
  {
    const auto due = timers_.Take(kStart);
    EXPECT_EQ(closed->Close([this] { log_ += "!"; }), NdkStatus::kPending);
    due.Run();
    EXPECT_EQ(log_, "c");
  }
  EXPECT_EQ(std::exchange(log_, ""), "c!");
}

}  // namespace
}  // namespace rdmabroker
