// SPDX-License-Identifier: Apache-2.0

// Of the RDMA devices of this machine, of which there is one at least: tests/vm makes such a machine.

#include "broker/fabric/rdmacm/device_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "absl/status/status.h"

namespace rdmabroker {
namespace {

using ::testing::HasSubstr;

TEST(DeviceScan, SaysOfEachDeviceWhyItCannotBeUsedWithoutRdmaCm) {
  ScanTask task;
  task.connection_manager = absl::ErrnoToStatus(EMFILE, "rdma_cm");
  const auto found = ScanDevices(task);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_FALSE(found->devices.empty());
  for (const FoundDevice& device : found->devices) {
    EXPECT_THAT(device.unusable_reason, HasSubstr("rdma_cm: Too many open files"));
  }
}

}  // namespace
}  // namespace rdmabroker
