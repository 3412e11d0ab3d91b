// SPDX-License-Identifier: Apache-2.0

#include "tests/survive/crowd.h"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace rdmabroker {
namespace {

constexpr char kProgram[] = "tests/survive/crowd_process";
// Few, so that setting them up does not take a small machine's whole time.
constexpr size_t kProcesses = 4;
// Longer than a crowd's own. Setting two hundred sessions up takes a guest a minute, while the machine is busy.
constexpr absl::Duration kPatience = absl::Minutes(3);

// The rest of a line that begins with "done"; fails the test where it does not.
std::istringstream Done(ChildProcess& process) {
  const std::string line = process.ReadLine(kPatience);
  EXPECT_EQ(line.rfind("done", 0), 0u) << "a crowd says: " << line;
  return std::istringstream(line.substr(std::min<size_t>(line.size(), 4)));
}

void AppendTimes(ChildProcess& process, absl::Duration since, Durations* durations) {
  std::istringstream times = Done(process);
  for (int64_t time = 0; times >> time;) durations->sorted.push_back(absl::Nanoseconds(time) - since);
}

}  // namespace

std::string Text(const Durations& durations) {
  if (durations.sorted.empty()) return "none";
  const auto text = [](absl::Duration duration) { return absl::StrCat(absl::ToInt64Milliseconds(duration), " ms"); };
  return absl::StrCat(durations.sorted.size(), ", ", text(durations.sorted.front()), " the fastest, ",
                      text(durations.median()), " the median, ", text(durations.slowest()), " the slowest");
}

Crowd::Crowd(const std::string& control_socket, size_t clients, const std::string& ip, const std::string& device) {
  listener_.emplace_back(std::vector<std::string>{kProgram, control_socket, device, "1"});
  for (size_t i = 0; i < kProcesses; ++i) {
    const size_t share = clients / kProcesses + (i < clients % kProcesses ? 1 : 0);
    processes_.emplace_back(std::vector<std::string>{kProgram, control_socket, device, absl::StrCat(share)});
  }
  Done(listener_.front());
  for (ChildProcess& process : processes_) Done(process);
  listener_.front().WriteLine(absl::StrCat("listen ", ip, ":0"));
  address_ = listener_.front().ReadLine();
}

Durations Crowd::Do(const std::string& order, absl::Duration since) {
  Durations durations;
  for (ChildProcess& process : processes_) process.WriteLine(order);
  for (ChildProcess& process : processes_) AppendTimes(process, since, &durations);
  std::sort(durations.sorted.begin(), durations.sorted.end());
  return durations;
}

Durations Crowd::EndAskAlone(absl::Duration since) {
  Durations durations;
  AppendTimes(listener_.front(), since, &durations);
  return durations;
}

int Crowd::Losses() {
  int all = 0;
  for (auto* crowd : {&processes_, &listener_}) {
    for (ChildProcess& process : *crowd) {
      process.WriteLine("losses");
      int losses = 0;
      Done(process) >> losses;
      all += losses;
    }
  }
  return all;
}

absl::Duration Crowd::Now() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::DurationFromTimespec(now);
}

}  // namespace rdmabroker
