// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/locked_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace rdmabroker::verbs {
namespace {

TEST(LockedMemory, IsTheReasonWhereTheLimitWouldBePassed) {
  struct Row {
    uint64_t limit;
    uint64_t locked;
    uint64_t length;
    bool is_reason;
  };
  for (const Row& row :
       {Row{100, 0, 100, false}, Row{100, 0, 101, true}, Row{100, 60, 40, false}, Row{100, 60, 41, true},
        Row{100, 101, 1, true}, Row{100, 1, ~0ull, true}, Row{RLIM_INFINITY, 5, ~0ull, false}}) {
    SCOPED_TRACE(testing::Message() << row.limit << ", " << row.locked << ", " << row.length);
    EXPECT_NE(Objection({.limit = row.limit, .locked = row.locked}, row.length).empty(), row.is_reason);
  }
}

TEST(LockedMemory, SaysWhichLimitWasMetAndWhatWasAskedFor) {
  EXPECT_EQ(
      Objection({.limit = 8192, .locked = 4096}, 16384),
      "RLIMIT_MEMLOCK allows this process 8192 bytes of locked memory, 4096 are locked, and 16384 more were asked "
      "for; raise it, as by LimitMEMLOCK=infinity in its systemd unit or \"ulimit -l unlimited\"");
}

TEST(LockedMemory, IsReadFromTheKernel) {
  EXPECT_EQ(PinnedBytes("VmLck:\t     100 kB\nVmPin:\t      12 kB\nVmHWM:\t 3 kB\n"), 12u * 1024);
  EXPECT_EQ(PinnedBytes("Name:\tcat\n"), 0u);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before), 0);
  EXPECT_EQ(ReadLockedMemory().limit, before.rlim_cur);
}

}  // namespace
}  // namespace rdmabroker::verbs
