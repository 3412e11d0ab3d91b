// SPDX-License-Identifier: Apache-2.0

#include "broker/monitoring/process.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "broker/log/log.h"
#include "broker/monitoring/families.h"
#include "deploy/debian/version.h"

namespace rdmabroker {
namespace {

using prometheus::MetricFamily;

// Of /proc/self/stat (proc(5)), counted from the state, which is the third and the first after the command's name.
constexpr size_t kUserTicks = 14 - 3;
constexpr size_t kSystemTicks = 15 - 3;
constexpr size_t kStartTicks = 22 - 3;
constexpr size_t kVirtualBytes = 23 - 3;
constexpr size_t kResidentPages = 24 - 3;

std::vector<uint64_t> ReadStat() {
  std::ifstream file("/proc/self/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  // The name may have anything in it, parentheses included.
  const size_t name_end = text.rfind(')');
  std::vector<uint64_t> fields;
  if (name_end == std::string::npos || name_end + 2 > text.size()) return fields;
  for (const absl::string_view word : absl::StrSplit(text.substr(name_end + 2), ' ')) {
    uint64_t number = 0;
    if (!absl::SimpleAtoi(word, &number)) number = 0;  // The state, and the few that may be negative.
    fields.push_back(number);
  }
  return fields;
}

double SecondsNow(clockid_t clock) {
  timespec time = {};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// -1 where it cannot be read.
int64_t OpenDescriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  if (folder == nullptr) return -1;
  int64_t count = -1;  // Without the folder's own.
  while (const dirent* entry = ::readdir(folder.get())) count += entry->d_name[0] != '.' ? 1 : 0;
  return count;
}

MetricFamily Gauge(absl::string_view name, absl::string_view help, double value) {
  return GaugeFamily(name, help).Add(value).Take();
}

}  // namespace

std::vector<MetricFamily> ProcessFamilies() {
  std::vector<MetricFamily> families;
  const std::vector<uint64_t> stat = ReadStat();
  if (stat.size() > kResidentPages) {
    const auto per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
    families.push_back(CounterFamily("process_cpu_seconds_total", "Time of the processor, user's and system's.")
                           .Add(static_cast<double>(stat[kUserTicks] + stat[kSystemTicks]) / per_second)
                           .Take());
    const double booted = SecondsNow(CLOCK_REALTIME) - SecondsNow(CLOCK_BOOTTIME);
    families.push_back(Gauge("process_start_time_seconds", "When the process began, in seconds since 1970.",
                             booted + static_cast<double>(stat[kStartTicks]) / per_second));
    families.push_back(
        Gauge("process_virtual_memory_bytes", "Size of the address space.", static_cast<double>(stat[kVirtualBytes])));
    families.push_back(Gauge("process_resident_memory_bytes", "Memory that is resident.",
                             static_cast<double>(stat[kResidentPages]) * static_cast<double>(::sysconf(_SC_PAGESIZE))));
  }
  if (const int64_t open = OpenDescriptors(); open >= 0) {
    families.push_back(Gauge("process_open_fds", "Open descriptors.", static_cast<double>(open)));
  }
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    families.push_back(Gauge("process_max_fds", "So many may be open.", static_cast<double>(limit.rlim_cur)));
  }
  return families;
}

std::vector<MetricFamily> StoreFamilies(const std::string& directory) {
  struct statvfs found = {};
  if (directory.empty() || ::statvfs(directory.c_str(), &found) != 0) return {};
  const auto block = static_cast<double>(found.f_frsize);
  return {Gauge("rdma_broker_store_free_bytes", "What is free of the file system that has the store.",
                static_cast<double>(found.f_bavail) * block),
          Gauge("rdma_broker_store_size_bytes", "The size of that file system.",
                static_cast<double>(found.f_blocks) * block)};
}

std::vector<MetricFamily> ProgramFamilies() {
  Family lines = CounterFamily("rdma_broker_log_lines_total", "Lines that were logged as a warning or an error.");
  for (const LogLevel level : {LogLevel::kWarning, LogLevel::kError}) {
    lines.Add(static_cast<double>(LinesLogged(level)), {{"level", std::string(NameOf(level))}});
  }
  return {GaugeFamily("rdma_broker_build_info", "1; the label has the version.").Add(1, {{"version", kVersion}}).Take(),
          std::move(lines).Take()};
}

}  // namespace rdmabroker
