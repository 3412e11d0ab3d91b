// SPDX-License-Identifier: Apache-2.0

#include "broker/keeper/memory_bound.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace rdmabroker::keeper {
namespace {

// For no limit, version 1 reports the largest number of whole pages below 2^63.
constexpr uint64_t kNoLimit = uint64_t{1} << 62;

// Where the systems mount a version's limits, and what the limit's file is called.
struct Hierarchy {
  absl::string_view mount;
  absl::string_view file;
};
constexpr Hierarchy kVersion2 = {"/sys/fs/cgroup", "memory.max"};
constexpr Hierarchy kVersion1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"};

// A line of /proc/self/cgroup: number, controllers, path (cgroups(7)).
const Hierarchy* HierarchyOf(const std::vector<absl::string_view>& line) {
  if (line.size() != 3) return nullptr;
  if (line[0] == "0" && line[1].empty()) return &kVersion2;
  const std::vector<absl::string_view> controllers = absl::StrSplit(line[1], ',');
  return std::find(controllers.begin(), controllers.end(), "memory") != controllers.end() ? &kVersion1 : nullptr;
}

rlim_t LimitIn(const std::optional<std::string>& text) {
  uint64_t bytes = 0;
  if (!text || !absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &bytes)) return RLIM_INFINITY;
  return bytes < kNoLimit ? bytes : RLIM_INFINITY;
}

}  // namespace

std::optional<std::string> ReadTextFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

MemoryBound BoundByCgroup(absl::FunctionRef<std::optional<std::string>(const std::string& path)> read) {
  rlim_t least = RLIM_INFINITY;
  const std::string cgroups = read("/proc/self/cgroup").value_or("");
  for (const absl::string_view line : absl::StrSplit(cgroups, '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    const Hierarchy* hierarchy = HierarchyOf(parts);
    if (hierarchy == nullptr) continue;
    // A container may see its own cgroup in the mount's place, while the path is the host's: then only the last of
    // these is there.
    for (absl::string_view path = parts[2];; path = path.substr(0, path.rfind('/'))) {
      while (!path.empty() && path.back() == '/') path.remove_suffix(1);
      least = std::min(least, LimitIn(read(absl::StrCat(hierarchy->mount, path, "/", hierarchy->file))));
      if (path.find('/') == absl::string_view::npos) break;
    }
  }
  if (least == RLIM_INFINITY) return {};
  return {.bytes = std::max(least / 4 * 3, kLeastMemory), .cgroup_bytes = least};
}

absl::StatusOr<rlim_t> ReadMemory(absl::string_view text) {
  if (text == "none") return RLIM_INFINITY;
  uint64_t bytes = 0;
  if (absl::SimpleAtoi(text, &bytes) && bytes >= kLeastMemory && bytes < kNoLimit) return bytes;
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not a number of bytes from ", kLeastMemory,
                                                 " on; give one, such as 402653184, or \"none\""));
}

}  // namespace rdmabroker::keeper
