// SPDX-License-Identifier: Apache-2.0

// What becomes of the kernel's device that RDMA_DEVICE names where the broker has no descriptors left to look for it.
// Has the kernel tell of a change of the device, so it needs root's rights.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "broker/core/fabric_messages.h"
#include "broker/fabric/local_addresses.h"
#include "broker/fabric/rdmacm/device_scan.h"
#include "broker/fabric/rdmacm/rdmacm_fabric.h"
#include "broker/fabric/rdmacm/testing/no_past.h"
#include "broker/runtime/loop.h"
#include "dataplane/testing/descriptor_shortage.h"
#include "dataplane/unique_fd.h"
#include "tests/captured_log.h"
#include "tests/control/patience.h"

namespace rdmabroker {
namespace {

class FailedScan : public testing::Test {
 protected:
  void SetUp() override {
    const char* const device = std::getenv("RDMA_DEVICE");
    if (device == nullptr) GTEST_SKIP() << "RDMA_DEVICE names no device";
    device_ = device;
  }

  std::string device_;
};

TEST_F(FailedScan, FindsWhatThereIsOrSaysThatItDoesNotKnow) {
  // More than a scan has open at a time.
  constexpr int kEnough = 16;
  const auto addresses = LocalAddresses::Open();
  ASSERT_TRUE(addresses.ok()) << addresses.status();
  ScanTask task = {.ips = (*addresses)->addresses(), .known = {}, .leaving = {}};
  const auto all = ScanDevices(task);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_TRUE(std::any_of(all->devices.begin(), all->devices.end(),
                          [this](const FoundDevice& found) { return found.name == device_; }));
  for (const bool known : {false, true}) {
    if (known) {
      for (const FoundDevice& found : all->devices) task.known[found.index] = found.info;
    }
    for (int spare = 0; spare <= kEnough; ++spare) {
      SCOPED_TRACE(testing::Message() << spare << " descriptors left, devices known: " << known);
      const auto scanned = [&] {
        const DescriptorShortage few(spare);
        return ScanDevices(task);
      }();
      if (!scanned.ok()) {
        EXPECT_LT(spare, kEnough) << scanned.status();
        continue;
      }
      EXPECT_EQ(scanned->devices.size(), all->devices.size());
      for (const FoundDevice& found : scanned->devices) EXPECT_EQ(found.unusable_reason, "");
      EXPECT_TRUE(scanned->devices == all->devices);
    }
  }
}

TEST_F(FailedScan, LosesNoDeviceAndIsMadeAgain) {
  Loop loop;
  CapturedLog log;
  NoPast no_past;
  const auto fabric = RdmaCmFabric::Open(DeviceId(1), {}, no_past.past(), loop);
  ASSERT_TRUE(fabric.ok()) << fabric.status();
  std::vector<FabricReport> reports;
  (*fabric)->Start([&](FabricReport report) { reports.push_back(std::move(report)); });
  const auto is_device = [&](const FabricReport& report) {
    const auto* changed = std::get_if<DeviceChanged>(&report);
    return changed != nullptr && changed->device.name == device_;
  };
  ASSERT_TRUE(std::any_of(reports.begin(), reports.end(), is_device));
  reports.clear();

  const UniqueFd uevent(::open(("/sys/class/infiniband/" + device_ + "/uevent").c_str(), O_WRONLY | O_CLOEXEC));
  const auto failed_scans = [&] { return log.LinesWith("devices not known").size(); };
  {
    const DescriptorShortage none(0);
    ASSERT_EQ(::write(uevent.get(), "change", 6), 6);
    for (const absl::Time end = Loop::Now() + kTestPatience; failed_scans() < 2 && Loop::Now() < end;) {
      loop.RunTurn(end);
    }
    EXPECT_EQ(failed_scans(), 2U) << "the second by itself";
  }
  EXPECT_TRUE(reports.empty()) << "the device was changed or removed";
}

}  // namespace
}  // namespace rdmabroker
