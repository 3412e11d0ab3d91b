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
