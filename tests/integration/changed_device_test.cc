// SPDX-License-Identifier: Apache-2.0

// What a fabric makes of devices of the kernel that change without a word. Changes their files' rights, so it needs root's rights
// and a machine of its own.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "broker/core/fabric_messages.h"
#include "broker/fabric/iwarp/testing/task_queue.h"
#include "broker/fabric/rdmacm/rdmacm_fabric.h"
#include "broker/runtime/watcher.h"
#include "tests/control/patience.h"

namespace rdmabroker {
namespace {

class ChangedDevice : public testing::Test {
 protected:
  void SetUp() override {
    const char* const device = std::getenv("RDMA_DEVICE");
    if (device == nullptr) GTEST_SKIP() << "RDMA_DEVICE names no device";
    device_ = device;
  }

  void Open() {
    auto opened = RdmaCmFabric::Open(DeviceId(1), {}, tasks_, watcher_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    fabric_ = *std::move(opened);
    fabric_->Start([this](FabricReport report) { reports_.push_back(std::move(report)); });
  }
  // Whether it becomes so, while the fabric goes on.
  bool Becomes(const std::function<bool()>& condition) {
    const absl::Time end = absl::Now() + kTestPatience;
    while (!condition()) {
      if (absl::Now() >= end) return false;
      tasks_.RunOne(end - absl::Now());
    }
    return true;
  }
  // The last that was reported of it; with no id where nothing was.
  Device Last(const std::string& name) const {
    Device last;
    for (const FabricReport& report : reports_) {
      const auto* changed = std::get_if<DeviceChanged>(&report);
      if (changed != nullptr && changed->device.name == name) last = changed->device;
    }
    return last;
  }

  std::string device_;
  TaskQueue tasks_;
  Watcher watcher_{tasks_};
  std::vector<FabricReport> reports_;
  std::unique_ptr<RdmaCmFabric> fabric_;
};

// While it lives, this process is nobody, who may not open the connection manager's file until he is let.
class Nobody {
 public:
  Nobody() {
    EXPECT_EQ(::stat(kFile, &before_), 0);
    EXPECT_EQ(::chmod(kFile, 0600), 0);
    EXPECT_EQ(::seteuid(kId), 0);
  }
  ~Nobody() {
    EXPECT_EQ(::seteuid(0), 0);
    EXPECT_EQ(::chmod(kFile, before_.st_mode & 0777), 0);
  }
  Nobody(const Nobody&) = delete;
  Nobody& operator=(const Nobody&) = delete;

  void Let() const {
    EXPECT_EQ(::seteuid(0), 0);
    EXPECT_EQ(::chmod(kFile, 0666), 0);
    EXPECT_EQ(::seteuid(kId), 0);
  }

 private:
  static constexpr char kFile[] = "/dev/infiniband/rdma_cm";
  static constexpr uid_t kId = 65534;
  struct stat before_ = {};
};

TEST_F(ChangedDevice, IsUsableSoonAfterTheDaemonMayOpenTheConnectionManagerOfWhichNothingTells) {
  const Nobody nobody;
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NE(Last(device_).unusable_reason.find("Permission denied"), std::string::npos)
      << Last(device_).unusable_reason;
  nobody.Let();
  EXPECT_TRUE(Becomes([this] { return Last(device_).unusable_reason.empty(); })) << Last(device_).unusable_reason;
  fabric_ = nullptr;
}

}  // namespace
}  // namespace rdmabroker
