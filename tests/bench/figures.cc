// SPDX-License-Identifier: Apache-2.0

#include "tests/bench/figures.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

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

void PrintRatio(const std::string& name, double ratio, const std::string& goal) {
  std::printf("%s: %.2f (%s)\n", name.c_str(), ratio, goal.c_str());
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
