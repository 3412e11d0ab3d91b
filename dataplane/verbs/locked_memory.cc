// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/locked_memory.h"

#include <sys/resource.h>

#include <charconv>
#include <fstream>
#include <iterator>

namespace rdmabroker::verbs {

LockedMemory ReadLockedMemory() {
  rlimit limit = {};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  std::ifstream status("/proc/self/status");
  return {.limit = limit.rlim_cur,
          .locked = PinnedBytes(std::string(std::istreambuf_iterator<char>(status), std::istreambuf_iterator<char>()))};
}

uint64_t PinnedBytes(std::string_view status) {
  constexpr std::string_view kName = "\nVmPin:";
  const size_t at = status.find(kName);
  const size_t digits = at == status.npos ? at : status.find_first_of("0123456789", at);
  uint64_t kilobytes = 0;
  if (digits != status.npos) std::from_chars(status.data() + digits, status.data() + status.size(), kilobytes);
  return kilobytes * 1024;
}

std::string Objection(const LockedMemory& memory, std::optional<uint64_t> length) {
  const bool fits = length && memory.locked <= memory.limit && *length <= memory.limit - memory.locked;
  if (memory.limit == RLIM_INFINITY || fits) return {};
  return "RLIMIT_MEMLOCK allows this process " + std::to_string(memory.limit) + " bytes of locked memory, " +
         std::to_string(memory.locked) + " are locked, and " +
         (length ? std::to_string(*length) + " " : std::string()) +
         "more were asked for; raise it, as by LimitMEMLOCK=infinity in its systemd unit or \"ulimit -l unlimited\"";
}

}  // namespace rdmabroker::verbs
