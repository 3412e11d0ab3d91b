// SPDX-License-Identifier: Apache-2.0

// The device as its network namespace has it: the test moves into an empty one.

#include "broker/fabric/iwarp/iwarp_fabric.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "broker/fabric/fabric_records.h"
#include "broker/fabric/iwarp/testing/task_queue.h"
#include "broker/runtime/descriptor_keep.h"
#include "broker/runtime/fake_supervisor.h"
#include "broker/runtime/handoff_table.h"
#include "broker/runtime/watcher.h"
#include "tests/integration/interface.h"

namespace rdmabroker {
namespace {

void ExpectUnusableUntilThereIsAnAddress() {
  ASSERT_EQ(::unshare(CLONE_NEWNET), 0) << "a network namespace of one's own needs root: " << std::strerror(errno);
  TaskQueue tasks;
  Watcher watcher(tasks);
  HandoffTable handoffs;
  FakeSupervisor supervisor(false);
  DescriptorKeep keep(supervisor);
  FabricRecords records;
  auto fabric = IwarpFabric::Open(DeviceId(1), IwarpOptions(), watcher, handoffs, keep, records);
  ASSERT_TRUE(fabric.ok()) << fabric.status();
  std::vector<Device> devices;
  (*fabric)->Start([&](const FabricReport& report) { devices.push_back(std::get<DeviceChanged>(report).device); });
  const auto run_until = [&](const auto& done) {
    const absl::Time end = Watcher::Now() + absl::Seconds(20);
    while (!done() && Watcher::Now() < end) tasks.RunOne(absl::Seconds(1));
    return done();
  };
  ASSERT_TRUE(run_until([&] { return !devices.empty(); }));
  EXPECT_EQ(devices[0].addresses.size(), 0u);
  EXPECT_NE(devices[0].unusable_reason.find("no interface"), std::string::npos) << devices[0].unusable_reason;
  ASSERT_TRUE(RaiseInterface("lo")) << std::strerror(errno);
  ASSERT_TRUE(run_until([&] { return !devices.back().addresses.empty(); }));
  EXPECT_EQ(devices.back().unusable_reason, "");
}

TEST(IwarpFabric, CannotBeOpenedWhileNoInterfaceHasAnAddress) {
  // The namespace is its thread's, and goes with it.
  std::thread(ExpectUnusableUntilThereIsAnAddress).join();
}

}  // namespace
}  // namespace rdmabroker
