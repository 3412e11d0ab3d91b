// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/figures.h"

#include <gtest/gtest.h>

#include <vector>

namespace rdmabroker::bench {
namespace {

std::vector<double> UpTo(int count) {
  std::vector<double> figures;
  for (int figure = count; figure >= 1; --figure) figures.push_back(figure);
  return figures;
}

// The ranks are those of tables of the sign test.
TEST(Figures, AnIntervalHasTheRanksThatTheBinomialDistributionGives) {
  struct Row {
    int count;
    double low, median, high;
  };
  for (const Row& row : {Row{1, 1, 1, 1}, Row{5, 1, 3, 5}, Row{6, 1, 3.5, 6}, Row{9, 2, 5, 8}, Row{16, 4, 8.5, 13},
                         Row{20, 6, 10.5, 15}, Row{25, 8, 13, 18}}) {
    const Spread spread = SpreadOf(UpTo(row.count));
    EXPECT_EQ(spread.low, row.low) << row.count;
    EXPECT_EQ(spread.median, row.median) << row.count;
    EXPECT_EQ(spread.high, row.high) << row.count;
  }
}

TEST(Figures, PairsGoFirstInTurnAndAreDividedOneByOne) {
  std::vector<int> order;
  const Spread ratio = RatioOfPairs("none", 3,
                                    {"twice",
                                     [&] {
                                       order.push_back(2);
                                       return 2.0 * static_cast<double>(order.size());
                                     }},
                                    {"once", [&] {
                                       order.push_back(1);
                                       return 1.0;
                                     }});
  EXPECT_EQ(order, (std::vector<int>{2, 1, 1, 2, 2, 1}));
  EXPECT_EQ(ratio.median, 8.0);
}

}  // namespace
}  // namespace rdmabroker::bench
