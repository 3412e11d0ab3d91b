// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/figures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

namespace rdmabroker::bench {

std::map<std::string, double> MediansOfAlternatingRuns(const std::string& unit,
                                                       const std::vector<Contender>& contenders) {
  std::map<std::string, std::vector<double>> figures;
  for (int run = 0; run < kRuns; ++run) {
    for (const Contender& contender : contenders) figures[contender.name].push_back(contender.run());
  }
  std::map<std::string, double> medians;
  for (const Contender& contender : contenders) {
    std::vector<double>& of_one = figures[contender.name];
    std::printf("  %s, %s:", contender.name.c_str(), unit.c_str());
    for (const double figure : of_one) std::printf(" %.4g", figure);
    std::sort(of_one.begin(), of_one.end());
    medians[contender.name] = of_one[of_one.size() / 2];
    std::printf("; median %.4g\n", medians[contender.name]);
  }
  std::fflush(stdout);
  return medians;
}

Spread SpreadOf(std::vector<double> figures) {
  if (figures.empty()) return {};
  std::sort(figures.begin(), figures.end());
  const size_t count = figures.size();
  // The probability that the median is beyond the figure with `left_out` others outside of it is that of so few heads.
  size_t left_out = 0;
  double probability = std::pow(0.5, static_cast<double>(count)), heads = probability;
  while (2 * (left_out + 1) < count) {
    heads *= static_cast<double>(count - left_out) / static_cast<double>(left_out + 1);
    if (probability + heads > 0.025) break;
    probability += heads;
    ++left_out;
  }
  return {.low = figures[left_out],
          .median = (figures[(count - 1) / 2] + figures[count / 2]) / 2,
          .high = figures[count - 1 - left_out]};
}

Spread RatioOfPairs(const std::string& unit, int pairs, const Contender& numerator, const Contender& denominator) {
  std::vector<double> above, below, ratios;
  for (int pair = 0; pair < pairs; ++pair) {
    if (pair % 2 == 0) above.push_back(numerator.run());
    below.push_back(denominator.run());
    if (pair % 2 != 0) above.push_back(numerator.run());
    ratios.push_back(above.back() / below.back());
  }
  for (const auto& [contender, figures] : {std::pair(&numerator, &above), std::pair(&denominator, &below)}) {
    std::printf("  %s, %s:", contender->name.c_str(), unit.c_str());
    for (const double figure : *figures) std::printf(" %.4g", figure);
    std::printf("; median %.4g\n", SpreadOf(*figures).median);
  }
  std::fflush(stdout);
  return SpreadOf(ratios);
}

void PrintRatio(const std::string& name, double ratio, const std::string& goal) {
  std::printf("%s: %.2f (%s)\n", name.c_str(), ratio, goal.c_str());
  std::fflush(stdout);
}

void PrintRatio(const std::string& name, const Spread& ratio, const std::string& goal) {
  std::printf("%s: %.3f (%s; 95 %% interval %.3f to %.3f)\n", name.c_str(), ratio.median, goal.c_str(), ratio.low,
              ratio.high);
  std::fflush(stdout);
}

void PrintCircumstances() {
  std::string model = "unknown processor";
  std::ifstream processors("/proc/cpuinfo");
  int count = 0;
  for (std::string line; std::getline(processors, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    model = line.substr(line.find(':') + 2);
    ++count;
  }
  std::string kernel, load;
  std::ifstream release("/proc/sys/kernel/osrelease"), average("/proc/loadavg");
  std::getline(release, kernel);
  std::getline(average, load);
  std::printf("  %d x %s, Linux %s, load %s\n", count, model.c_str(), kernel.c_str(), load.c_str());
  std::fflush(stdout);
}

}  // namespace rdmabroker::bench
