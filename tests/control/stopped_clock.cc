// SPDX-License-Identifier: Apache-2.0

#include "tests/control/stopped_clock.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>

namespace rdmabroker {
namespace {

constexpr int64_t kGoes = -1;

std::atomic<int64_t> stopped_at_ns = kGoes;
// By how much the clock is ahead of the system's while it goes.
std::atomic<int64_t> ahead_ns = 0;

int64_t SystemNs() {
  timespec time = {};
  ::syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &time);
  return absl::ToInt64Nanoseconds(absl::DurationFromTimespec(time));
}

}  // namespace

StoppedClock::StoppedClock() { stopped_at_ns = SystemNs() + ahead_ns; }

StoppedClock::~StoppedClock() {
  // It goes on from where it is.
  ahead_ns = stopped_at_ns - SystemNs();
  stopped_at_ns = kGoes;
}

void StoppedClock::Move(absl::Duration by) { stopped_at_ns += absl::ToInt64Nanoseconds(by); }

}  // namespace rdmabroker

// The program's own, in place of the C library's.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (clock != CLOCK_BOOTTIME) return static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  const int64_t stopped_ns = rdmabroker::stopped_at_ns;
  const int64_t now_ns = stopped_ns == rdmabroker::kGoes ? rdmabroker::SystemNs() + rdmabroker::ahead_ns : stopped_ns;
  *time = absl::ToTimespec(absl::Nanoseconds(now_ns));
  return 0;
}
