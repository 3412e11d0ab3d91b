// SPDX-License-Identifier: Apache-2.0

#include "broker/keeper/memory_bound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "absl/strings/match.h"

namespace rdmabroker::keeper {
namespace {

constexpr rlim_t kMebibyte = 1 << 20;

TEST(BoundByCgroup, IsThreeQuartersOfTheLeastLimitThatCanBeSeen) {
  struct Row {
    const char* what;
    std::map<std::string, std::string> files;
    MemoryBound bound;
  };
  const MemoryBound none;
  const MemoryBound of_512 = {.bytes = 384 * kMebibyte, .cgroup_bytes = 512 * kMebibyte};
  const std::string self = "/proc/self/cgroup";
  const std::string two = "/sys/fs/cgroup";
  const std::string one = "/sys/fs/cgroup/memory";
  const std::string other = "7:pids:/a\n1:name=systemd:/a\n";
  const Row rows[] = {
      {"no cgroups", {}, none},
      {"cgroups without memory", {{self, other}, {one + "/a/memory.limit_in_bytes", "536870912\n"}}, none},
      {"not a list of cgroups", {{self, "0\n0:\n::\n\n"}, {two + "/memory.max", "536870912\n"}}, none},
      {"a container's own", {{self, "0::/\n"}, {two + "/memory.max", "536870912\n"}}, of_512},
      {"no limit", {{self, "0::/\n"}, {two + "/memory.max", "max\n"}}, none},
      {"not a number", {{self, "0::/\n"}, {two + "/memory.max", "512M\n"}}, none},
      {"a service's", {{self, "0::/a/b.service\n"}, {two + "/a/b.service/memory.max", "536870912\n"}}, of_512},
      {"a colon in the name", {{self, "0::/a:b\n"}, {two + "/a:b/memory.max", "536870912\n"}}, of_512},
      {"its parent's, which is less",
       {{self, "0::/a/b\n"}, {two + "/a/b/memory.max", "999999999\n"}, {two + "/a/memory.max", "536870912\n"}},
       of_512},
      {"its parent's, which is more",
       {{self, "0::/a/b\n"}, {two + "/a/b/memory.max", "536870912\n"}, {two + "/a/memory.max", "999999999\n"}},
       of_512},
      {"the host's path, and its own in the place of the root",
       {{self, "0::/kubepods/pod1/c1\n"}, {two + "/memory.max", "536870912\n"}},
       of_512},
      {"a path outside of the namespace", {{self, "0::/../c1\n"}, {two + "/memory.max", "536870912\n"}}, of_512},
      {"version 1", {{self, other + "4:cpu,memory:/a\n"}, {one + "/a/memory.limit_in_bytes", "536870912\n"}}, of_512},
      {"version 1 without a limit",
       {{self, "4:memory:/\n"}, {one + "/memory.limit_in_bytes", "9223372036854771712\n"}},
       none},
      {"version 1 beside 2 without memory",
       {{self, "4:memory:/a\n0::/\n"}, {one + "/memory.limit_in_bytes", "536870912\n"}},
       of_512},
      {"less than a broker needs",
       {{self, "0::/\n"}, {two + "/memory.max", "1048576\n"}},
       {.bytes = 16 * kMebibyte, .cgroup_bytes = kMebibyte}},
  };
  for (const Row& row : rows) {
    const MemoryBound bound = BoundByCgroup([&](const std::string& path) {
      const auto file = row.files.find(path);
      return file == row.files.end() ? std::nullopt : std::optional(file->second);
    });
    EXPECT_EQ(bound, row.bound) << row.what << ": " << bound.bytes << " of " << bound.cgroup_bytes;
  }
}

TEST(ReadMemory, TakesANumberOfBytesOrNone) {
  struct Row {
    const char* text;
    std::optional<rlim_t> bytes;
  };
  for (const Row& row : {Row{"none", RLIM_INFINITY}, Row{"16777216", 16 * kMebibyte}, Row{"402653184", 384 * kMebibyte},
                         Row{"16777215", std::nullopt}, Row{"0", std::nullopt}, Row{"-1", std::nullopt},
                         Row{"", std::nullopt}, Row{"384Mi", std::nullopt}, Row{"max", std::nullopt},
                         Row{"9223372036854771712", std::nullopt}, Row{"99999999999999999999", std::nullopt}}) {
    const auto read = ReadMemory(row.text);
    EXPECT_EQ(read.ok() ? std::optional(*read) : std::nullopt, row.bytes) << row.text;
    if (read.ok()) continue;
    for (const char* word : {row.text, "bytes from 16777216 on", "\"none\""}) {
      EXPECT_TRUE(absl::StrContains(read.status().message(), word)) << read.status();
    }
  }
}

}  // namespace
}  // namespace rdmabroker::keeper
