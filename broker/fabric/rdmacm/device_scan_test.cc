// SPDX-License-Identifier: Apache-2.0

// Of the RDMA devices of this machine, of which there is one at least: tests/vm makes such a machine.

#include "broker/fabric/rdmacm/device_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <ostream>
#include <string>

#include "absl/status/status.h"

namespace rdmabroker {
namespace {

using ::testing::HasSubstr;

struct Row {
  std::string name;
  int error = 0;
  std::string cause;
  std::string advice;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class DeviceScanWithoutRdmaCm : public testing::TestWithParam<Row> {};

TEST_P(DeviceScanWithoutRdmaCm, SaysOfEachDeviceWhyItCannotBeUsed) {
  ScanTask task;
  task.connection_manager = absl::ErrnoToStatus(GetParam().error, "rdma_cm");
  const auto found = ScanDevices(task);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_FALSE(found->devices.empty());
  for (const FoundDevice& device : found->devices) {
    EXPECT_THAT(device.unusable_reason, HasSubstr(GetParam().cause));
    EXPECT_THAT(device.unusable_reason, HasSubstr(GetParam().advice));
  }
}

INSTANTIATE_TEST_SUITE_P(For, DeviceScanWithoutRdmaCm,
                         testing::Values(Row{"ItsModuleIsNotLoaded", ENOENT, "not loaded", "modprobe rdma_ucm"},
                                         Row{"ItIsForbidden", EACCES, "rdma_cm: Permission denied", "let the daemon"},
                                         Row{"DescriptorsHaveRunOut", EMFILE, "rdma_cm: Too many open files",
                                             "tries again"}),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace rdmabroker
