// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_BENCH_FIGURES_H_
#define TESTS_BENCH_FIGURES_H_

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace rdmabroker::bench {

// Odd, so that the median is one of the runs.
inline constexpr int kRuns = 5;

// One thing that is measured; `run` returns one run's figure.
struct Contender {
  std::string name;
  std::function<double()> run;
};

// Runs all contenders in turn, kRuns times over, so that what else the machine does falls on all of them alike. Prints
// every figure; returns the median of each.
std::map<std::string, double> MediansOfAlternatingRuns(const std::string& unit,
                                                       const std::vector<Contender>& contenders);

// The median of figures, and the bounds between which the true one lies with a confidence of at least 95 % where there
// are six figures or more: the order statistics that the binomial distribution gives, whatever the figures' own is.
struct Spread {
  double low = 0;
  double median = 0;
  double high = 0;
};
Spread SpreadOf(std::vector<double> figures);

// Runs the two in turn, `pairs` times over, the other one first each time. Prints the figures of both, and returns the
// spread of those of `numerator` divided by those of `denominator` beside it.
Spread RatioOfPairs(const std::string& unit, int pairs, const Contender& numerator, const Contender& denominator);

// "name: ratio (goal)", which tests/run collects.
void PrintRatio(const std::string& name, double ratio, const std::string& goal);
void PrintRatio(const std::string& name, const Spread& ratio, const std::string& goal);

// The machine, its load, and how the processes are scheduled.
void PrintCircumstances();

}  // namespace rdmabroker::bench

#endif  // TESTS_BENCH_FIGURES_H_
