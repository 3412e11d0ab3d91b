// SPDX-License-Identifier: Apache-2.0

// What a fabric makes of devices of the kernel that change without a word, or while it looks at them. Makes devices of
// the kind of the one that RDMA_DEVICE names, and changes their files' rights, so it needs root's rights and a machine
// of its own.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "broker/core/fabric_messages.h"
#include "broker/fabric/rdmacm/cm_file.h"
#include "broker/fabric/rdmacm/rdmacm_fabric.h"
#include "broker/fabric/rdmacm/testing/no_past.h"
#include "broker/runtime/loop.h"
#include "dataplane/unique_fd.h"
#include "tests/control/child_process.h"
#include "tests/control/patience.h"

namespace rdmabroker {
namespace {

// What is still to come comes within this. Too short, a test might pass that should fail.
constexpr absl::Duration kQuiet = absl::Milliseconds(500);

class ChangedDevice : public testing::Test {
 protected:
  void SetUp() override {
    const char* const device = std::getenv("RDMA_DEVICE");
    if (device == nullptr) GTEST_SKIP() << "RDMA_DEVICE names no device";
    device_ = device;
  }

  void Open() {
    auto opened = RdmaCmFabric::Open(DeviceId(1), {}, no_past_.past(), loop_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    fabric_ = *std::move(opened);
    fabric_->Start([this](FabricReport report) { reports_.push_back(std::move(report)); });
  }
  // Whether it becomes so, while the fabric goes on.
  bool Becomes(const std::function<bool()>& condition) {
    const absl::Time end = Loop::Now() + kTestPatience;
    while (!condition()) {
      if (Loop::Now() >= end) return false;
      loop_.RunTurn(end);
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
  bool Removed(DeviceId id) const {
    return std::ranges::find(reports_, FabricReport(DeviceRemoved{id})) != reports_.end();
  }
  // Until it looks at devices no more.
  void LookToTheEnd() {
    const auto& looks = RdmaCmFabric::kLooksAgain;
    const absl::Time end = Loop::Now() + std::accumulate(looks.begin(), looks.end(), absl::ZeroDuration());
    while (Loop::Now() < end) loop_.RunTurn(end);
    while (loop_.RunTurn(Loop::Now() + kQuiet)) continue;
  }
  // By which it is opened.
  std::string FileOfDevice() const {
    for (const auto& entry : std::filesystem::directory_iterator("/sys/class/infiniband_verbs")) {
      std::string name;
      std::ifstream(entry.path() / "ibdev") >> name;
      if (name == device_) return "/dev/infiniband/" + entry.path().filename().string();
    }
    return {};
  }
  static void Run(const std::vector<std::string>& command) {
    EXPECT_EQ(ChildProcess(command).End(), 0) << ::testing::PrintToString(command);
  }

  std::string device_;
  Loop loop_;
  std::vector<FabricReport> reports_;
  NoPast no_past_;
  std::unique_ptr<RdmaCmFabric> fabric_;
};

// While it lives, this process is nobody, who may not open the file until he is let.
class Nobody {
 public:
  explicit Nobody(std::string file) : file_(std::move(file)) {
    EXPECT_EQ(::stat(file_.c_str(), &before_), 0);
    EXPECT_EQ(::chmod(file_.c_str(), 0600), 0);
    EXPECT_EQ(::seteuid(kId), 0);
  }
  ~Nobody() {
    EXPECT_EQ(::seteuid(0), 0);
    EXPECT_EQ(::chmod(file_.c_str(), before_.st_mode & 0777), 0);
  }
  Nobody(const Nobody&) = delete;
  Nobody& operator=(const Nobody&) = delete;

  void Let(bool may) const {
    EXPECT_EQ(::seteuid(0), 0);
    EXPECT_EQ(::chmod(file_.c_str(), may ? 0666 : 0600), 0);
    EXPECT_EQ(::seteuid(kId), 0);
  }

 private:
  static constexpr uid_t kId = 65534;
  const std::string file_;
  struct stat before_ = {};
};

TEST_F(ChangedDevice, IsUsableSoonAfterTheDaemonMayOpenTheConnectionManagerOfWhichNothingTells) {
  const Nobody nobody("/dev/infiniband/rdma_cm");
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NE(Last(device_).unusable_reason.find("Permission denied"), std::string::npos)
      << Last(device_).unusable_reason;
  nobody.Let(true);
  EXPECT_TRUE(Becomes([this] { return Last(device_).unusable_reason.empty(); })) << Last(device_).unusable_reason;
  fabric_ = nullptr;
}

// Nothing tells of the rights to the device's file either, and they wait until they are asked for.
TEST_F(ChangedDevice, IsLookedAtAgainAfterTheStartAndEachChangeAsItMayHaveAnAddressLater) {
  const auto opens = [this] { return Last(device_).unusable_reason.find("cannot be opened") == std::string::npos; };
  const UniqueFd uevent(::open(("/sys/class/infiniband/" + device_ + "/uevent").c_str(), O_WRONLY | O_CLOEXEC));
  const Nobody nobody(FileOfDevice());
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_FALSE(opens()) << Last(device_).unusable_reason;
  nobody.Let(true);
  EXPECT_TRUE(Becomes(opens)) << Last(device_).unusable_reason;

  LookToTheEnd();
  nobody.Let(false);
  ASSERT_EQ(::write(uevent.get(), "change", 6), 6);
  ASSERT_TRUE(Becomes([&] { return !opens(); }));
  nobody.Let(true);
  EXPECT_TRUE(Becomes(opens)) << Last(device_).unusable_reason;
  fabric_ = nullptr;
}

// Two more devices, of which none has an address.
class MovedAddress : public ChangedDevice {
 protected:
  static constexpr char kFrom[] = "from", kTo[] = "to";
  static constexpr char kAddress[] = "10.82.0.1";

  void SetUp() override {
    ChangedDevice::SetUp();
    if (IsSkipped()) return;
    Run({"ip", "link", "add", kFrom, "type", "veth", "peer", "name", kTo});
    for (const char* const end : {kFrom, kTo}) {
      Run({"ip", "link", "set", end, "addrgenmode", "none"});
      Run({"ip", "link", "set", end, "up"});
      Run({"rdma", "link", "add", end, "type", device_.substr(0, device_.find_first_of("0123456789")), "netdev", end});
    }
  }
  void TearDown() override {
    if (IsSkipped()) return;
    fabric_ = nullptr;
    Run({"ip", "link", "del", kFrom});
  }
  static void Address(const char* action, const char* interface) {
    Run({"ip", "address", action, std::string(kAddress) + "/24", "dev", interface});
  }
  // For which device the connection manager takes the address; 0: none.
  static uint32_t TakenFor() {
    const auto file = CmFile::Open();
    KernelId id{};
    CmAddresses addresses;
    EXPECT_EQ((*file)->Create(1, &id), 0);
    if ((*file)->Bind(id, {*IpAddress::Parse(kAddress), 0}) != 0) return 0;
    return (*file)->QueryAddresses(id, &addresses) == 0 ? addresses.device_index : 0;
  }
};

TEST_F(MovedAddress, ToAnotherDeviceWhileItWasLookedForTakesTheFirstDeviceNotAlongWhenThatGoes) {
  ASSERT_NO_FATAL_FAILURE(Open());
  LookToTheEnd();
  const DeviceId from = Last(kFrom).id, to = Last(kTo).id;
  ASSERT_TRUE(from && to);
  Address("add", kFrom);
  ASSERT_TRUE(rdmabroker::Becomes([] { return TakenFor() != 0; }));
  const uint32_t index = TakenFor();
  ASSERT_TRUE(loop_.RunTurn(Loop::Now() + kTestPatience)) << "nothing tells of the new address";
  ASSERT_TRUE(loop_.Wait(Loop::Now() + kTestPatience)) << "nobody looks whose it is";
  Address("del", kFrom);
  Address("add", kTo);
  ASSERT_TRUE(rdmabroker::Becomes([&] { return TakenFor() != 0 && TakenFor() != index; }));
  ASSERT_TRUE(loop_.RunTurn(Loop::Now()));
  ASSERT_EQ(Last(kFrom).addresses, std::vector{*IpAddress::Parse(kAddress)}) << "it had moved too early";

  ASSERT_TRUE(Becomes([this] { return Last(kFrom).addresses.empty() && !Last(kTo).addresses.empty(); }));
  ChildProcess removal({"rdma", "link", "del", kTo});
  EXPECT_TRUE(Becomes([&] { return Removed(to); }));
  EXPECT_EQ(removal.End(), 0);
  while (loop_.RunTurn(Loop::Now() + kQuiet)) continue;
  EXPECT_FALSE(Removed(from));
}

}  // namespace
}  // namespace rdmabroker
