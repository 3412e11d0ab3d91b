// SPDX-License-Identifier: Apache-2.0

#include "broker/crash_points/crash_points.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <string>

#include "broker/crash_points/armed_points.h"

namespace rdmabroker {
namespace {

void Reach(const std::string& point) {
  static const char* const kFolder = std::getenv(kArmedPoints);
  if (kFolder == nullptr) return;
  const std::string armed = std::string(kFolder) + "/" + point;
  struct stat file = {};
  if (::stat(armed.c_str(), &file) != 0) return;
  if (file.st_size > 0 && ::truncate(armed.c_str(), file.st_size - 1) == 0) return;
  if (::unlink(armed.c_str()) != 0) return;
  ::kill(::getpid(), SIGKILL);
}

}  // namespace

CrashPoints::CrashPoints(Step step) : step_(step) { Reach(AllSteps()[static_cast<size_t>(step)].before); }

CrashPoints::~CrashPoints() { Reach(AllSteps()[static_cast<size_t>(step_)].after); }

}  // namespace rdmabroker
