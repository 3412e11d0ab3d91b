// SPDX-License-Identifier: Apache-2.0

#include "dataplane/start_thread.h"

#include <gtest/gtest.h>

#include "dataplane/testing/thread_shortage.h"

namespace rdmabroker {
namespace {

TEST(StartThread, RunsTheFunction) {
  bool ran = false;
  std::thread thread = StartThread([&] { ran = true; });
  ASSERT_TRUE(thread.joinable());
  thread.join();
  EXPECT_TRUE(ran);
}

TEST(StartThread, ReturnsNoneWhereTheProcessGetsNone) {
  const ThreadShortage shortage;
  EXPECT_FALSE(StartThread([] {}).joinable());
}

}  // namespace
}  // namespace rdmabroker
