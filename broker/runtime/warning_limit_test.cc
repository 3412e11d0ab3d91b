// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/warning_limit.h"

#include <gtest/gtest.h>

namespace rdmabroker {
namespace {

TEST(WarningLimit, OneWarningASecondPassesAndTellsHowManyWereLeftOut) {
  struct Row {
    int milliseconds;
    std::optional<uint64_t> passed;
  };
  const Row rows[] = {{0, 0},     {0, {}},   {1, {}},    {999, {}},  {1000, 3},  {1001, {}},
                      {1999, {}}, {2500, 2}, {3499, {}}, {60000, 1}, {120000, 0}};
  const absl::Time start = absl::UnixEpoch() + absl::Hours(5);
  WarningLimit limit;
  for (const Row& row : rows) {
    EXPECT_EQ(limit.Pass(start + absl::Milliseconds(row.milliseconds)), row.passed) << row.milliseconds;
  }
}

TEST(WarningLimit, ManyMayComeAtOnceAfterSilence) {
  struct Row {
    int seconds;
    int come;
    int passed;
    uint64_t left_out_before;
  };
  // Each second gives one of three back.
  const Row rows[] = {{0, 5, 3, 0}, {1, 2, 1, 2}, {1, 1, 0, 0}, {3, 4, 2, 2}, {100, 4, 3, 2}};
  WarningLimit limit(3);
  for (const Row& row : rows) {
    int passed = 0;
    for (int i = 0; i < row.come; ++i) {
      const auto left_out = limit.Pass(absl::UnixEpoch() + absl::Seconds(row.seconds));
      if (!left_out) continue;
      EXPECT_EQ(*left_out, passed == 0 ? row.left_out_before : 0) << row.seconds;
      ++passed;
    }
    EXPECT_EQ(passed, row.passed) << row.seconds;
  }
}

TEST(WarningLimit, GivesBackAtItsOwnPace) {
  const absl::Time start = absl::UnixEpoch();
  WarningLimit limit(2, absl::Milliseconds(100));
  EXPECT_TRUE(limit.IsFresh(start));
  EXPECT_EQ(limit.Pass(start), 0u);
  EXPECT_EQ(limit.Pass(start), 0u);
  EXPECT_EQ(limit.Pass(start + absl::Milliseconds(99)), std::nullopt);
  EXPECT_EQ(limit.Pass(start + absl::Milliseconds(100)), 1u);
  EXPECT_FALSE(limit.IsFresh(start + absl::Milliseconds(299)));
  EXPECT_TRUE(limit.IsFresh(start + absl::Milliseconds(300)));
}

TEST(WarningLimit, AFloodIsBoundedByItsLength) {
  WarningLimit limit;
  uint64_t written = 0;
  uint64_t left_out = 0;
  constexpr uint64_t kWarnings = 1'000'000;
  for (uint64_t i = 0; i < kWarnings; ++i) {
    if (const auto passed = limit.Pass(absl::UnixEpoch() + absl::Microseconds(10) * i)) {
      ++written;
      left_out += *passed;
    }
  }
  EXPECT_EQ(written, 10u);  // In ten seconds.
  EXPECT_EQ(written + left_out, kWarnings - 99'999) << "the last interval's are told of later";
}

}  // namespace
}  // namespace rdmabroker
