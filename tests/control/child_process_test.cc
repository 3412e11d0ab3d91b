// SPDX-License-Identifier: Apache-2.0

#include "tests/control/child_process.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <signal.h>

namespace rdmabroker {
namespace {

TEST(AChildProcess, ThatHasEndedFailsWhoeverWritesToItAndEndsNobody) {
  ChildProcess process({"true"});
  EXPECT_EQ(process.End(), 0);
  EXPECT_NONFATAL_FAILURE(process.WriteLine("Are you there?"), "::write");
}

TEST(AChildProcess, EndsBySigpipeAsEver) {
  ChildProcess process({"sh", "-c", "kill -PIPE $$"});
  EXPECT_EQ(process.End(), -SIGPIPE);
}

}  // namespace
}  // namespace rdmabroker
