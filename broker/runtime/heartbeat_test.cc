// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/heartbeat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "broker/runtime/fake_supervisor.h"
#include "broker/runtime/loop_for_test.h"

namespace rdmabroker {
namespace {

using testing::Each;
using testing::SizeIs;

class HeartbeatTest : public testing::Test {
 protected:
  // Whether anything is heard before a timer that is due later than any heartbeat of a running one.
  size_t HeardWithin(const FakeSupervisor& supervisor, absl::Duration time) {
    const size_t before = supervisor.told().size();
    bool over = false;
    loop_.StartTimer(Loop::Now() + time, [&] { over = true; });
    EXPECT_TRUE(RunUntil(loop_, [&] { return over; }));
    return supervisor.told().size() - before;
  }

  Loop loop_;
};

TEST_F(HeartbeatTest, IsHeardTwiceWithinTheWatchdogsInterval) {
  EXPECT_EQ(Heartbeat::PeriodOf(absl::Seconds(30)), absl::Seconds(15));
  constexpr absl::Duration kInterval = absl::Milliseconds(20);
  FakeSupervisor supervisor(true, kInterval);
  const absl::Time begin = Loop::Now();
  const Heartbeat heartbeat(supervisor, loop_);
  EXPECT_THAT(supervisor.told(), SizeIs(1)) << "the first is heard at once";
  ASSERT_TRUE(RunUntil(loop_, [&] { return supervisor.told().size() == 5; }));
  EXPECT_GE(Loop::Now() - begin, 4 * Heartbeat::PeriodOf(kInterval)) << "oftener is a waste";
  EXPECT_THAT(supervisor.told(), Each("ping"));
}

TEST_F(HeartbeatTest, GoesOnWhereTheSupervisorDoesNotHear) {
  FakeSupervisor supervisor(true, absl::Milliseconds(2));
  supervisor.Answer(absl::UnavailableError("gone"));
  const Heartbeat heartbeat(supervisor, loop_);
  EXPECT_EQ(HeardWithin(supervisor, absl::Milliseconds(5)), 0u);
  supervisor.Answer(absl::OkStatus());
  EXPECT_TRUE(RunUntil(loop_, [&] { return !supervisor.told().empty(); }));
}

TEST_F(HeartbeatTest, EndsWithItsObject) {
  FakeSupervisor supervisor(true, absl::Milliseconds(2));
  std::make_unique<Heartbeat>(supervisor, loop_).reset();
  EXPECT_EQ(HeardWithin(supervisor, absl::Milliseconds(20)), 0u);
}

TEST_F(HeartbeatTest, IsNotHeardWhereNobodyWaitsForIt) {
  FakeSupervisor supervisor;
  const Heartbeat heartbeat(supervisor, loop_);
  EXPECT_THAT(supervisor.told(), SizeIs(0));
}

}  // namespace
}  // namespace rdmabroker
