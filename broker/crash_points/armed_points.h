// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CRASH_POINTS_ARMED_POINTS_H_
#define BROKER_CRASH_POINTS_ARMED_POINTS_H_

#include <string>
#include <vector>

namespace rdmabroker {

// The environment variable of rdma-brokerd-with-crash-points that names a folder. Where that has a file with the name
// of a point, the process that comes there takes a byte off it and goes on; where the file is empty, it removes it and
// is killed by SIGKILL.
inline constexpr char kArmedPoints[] = "RDMA_BROKER_CRASH_POINTS";

// What stands around one step.
struct StepPoints {
  std::string before;
  std::string after;
  std::string meaning;  // What is done between the two.
};

// All of them, in the order of Step.
const std::vector<StepPoints>& AllSteps();

}  // namespace rdmabroker

#endif  // BROKER_CRASH_POINTS_ARMED_POINTS_H_
