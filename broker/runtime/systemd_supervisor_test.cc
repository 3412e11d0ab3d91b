// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/systemd_supervisor.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "broker/runtime/testing/notify_listener.h"
#include "dataplane/testing/descriptor_shortage.h"

namespace rdmabroker {
namespace {

TEST(SystemdSupervisor, AProcessThatGetsNoMoreDescriptorsPassesBarriers) {
  const std::string name = NotifySocketName();
  NotifyListener listener(name);
  ASSERT_EQ(::setenv("NOTIFY_SOCKET", name.c_str(), 1), 0);
  const auto supervisor = SystemdSupervisor::FromEnvironment();
  ASSERT_EQ(::unsetenv("NOTIFY_SOCKET"), 0);
  ASSERT_TRUE(supervisor.ok()) << supervisor.status();
  const auto pass = [&] {
    // The listener's process gets no descriptor either: the kernel then closes the one of the message.
    std::thread reader([&] {
      for (std::string state; state != "BARRIER=1" && state != "STOPPING=1";) state = listener.Hear().state;
    });
    const absl::Status passed = (*supervisor)->Barrier(absl::Minutes(1));
    EXPECT_TRUE(passed.ok()) << passed;
    if (!passed.ok()) {
      EXPECT_TRUE((*supervisor)->Stopping().ok()) << "the reader waits for it";
    }
    reader.join();
  };
  const FullDescriptorTable full;
  for (int i = 0; i < 2; ++i) pass();
}

}  // namespace
}  // namespace rdmabroker
