// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/doctor/machine_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace rdmabroker::ctl {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
constexpr char kCmNumber[] = "10:122";

// A root folder with what the test puts there.
class MachineFiles : public testing::Test {
 protected:
  MachineFiles() {
    char name[] = "/tmp/machine-files-XXXXXX";
    root_ = ::mkdtemp(name);
  }
  ~MachineFiles() override { std::filesystem::remove_all(root_); }

  void Put(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }
  void PutDevice(const std::string& name, const std::string& node_type) {
    const std::string folder = "sys/class/infiniband/" + name;
    Put(folder + "/node_type", node_type);
    Put(folder + "/ports/1/state", "4: ACTIVE");
    Put(folder + "/ports/1/link_layer", "Ethernet");
  }
  void PutGid(const std::string& device, int index, const std::string& gid, const std::string& interface) {
    const std::string folder = "sys/class/infiniband/" + device + "/ports/1/";
    Put(folder + "gids/" + std::to_string(index), gid);
    if (!interface.empty()) Put(folder + "gid_attrs/ndevs/" + std::to_string(index), interface);
  }
  MachineState Read() const { return ReadMachineFiles(root_); }

  std::filesystem::path root_;
};

IpAddress Ip(std::string_view text) { return *IpAddress::Parse(text); }

TEST_F(MachineFiles, AnEmptyFolderIsAMachineWithoutAnything) {
  const MachineState machine = Read();
  EXPECT_FALSE(machine.verbs_loaded);
  EXPECT_FALSE(machine.cm_file.has_value());
  EXPECT_FALSE(machine.max_backlog.has_value());
  EXPECT_EQ(machine.memory_lock, MemoryLock());
  EXPECT_TRUE(machine.devices.empty());
  EXPECT_TRUE(machine.interfaces.empty());
  EXPECT_EQ(machine.default_interface, "");
}

TEST_F(MachineFiles, TheConnectionManagersFileIsOpened) {
  Put("sys/class/misc/rdma_cm/dev", kCmNumber);
  ASSERT_TRUE(Read().cm_file.has_value());
  EXPECT_EQ(Read().cm_file->path, "/dev/infiniband/rdma_cm");
  EXPECT_EQ(Read().cm_file->error, ENOENT);
  EXPECT_EQ(Read().cm_file->number, kCmNumber);
  Put("dev/infiniband/rdma_cm", "");
  ASSERT_EQ(::chmod((root_ / "dev/infiniband/rdma_cm").c_str(), 0640), 0);
  EXPECT_EQ(Read().cm_file->error, 0);
  EXPECT_EQ(Read().cm_file->mode, 0640u);
  EXPECT_NE(Read().cm_file->owner, "");
  EXPECT_NE(Read().cm_file->group, "");
  // Whatever its mode, a folder cannot be opened for writing.
  std::filesystem::remove(root_ / "dev/infiniband/rdma_cm");
  std::filesystem::create_directory(root_ / "dev/infiniband/rdma_cm");
  EXPECT_EQ(Read().cm_file->error, EISDIR);
}

TEST_F(MachineFiles, ADeviceHasItsOwnVerbsFile) {
  PutDevice("rxe0", "1: CA");
  PutDevice("rxe1", "1: CA");
  Put("sys/class/infiniband_verbs/abi_version", "6");
  Put("sys/class/infiniband_verbs/uverbs0/ibdev", "rxe1");
  Put("sys/class/infiniband_verbs/uverbs0/dev", "231:192");
  Put("dev/infiniband/uverbs0", "");
  const MachineState machine = Read();
  EXPECT_TRUE(machine.verbs_loaded);
  ASSERT_EQ(machine.devices.size(), 2u);
  EXPECT_FALSE(machine.devices[0].verbs_file.has_value());
  ASSERT_TRUE(machine.devices[1].verbs_file.has_value());
  EXPECT_EQ(machine.devices[1].verbs_file->path, "/dev/infiniband/uverbs0");
  EXPECT_EQ(machine.devices[1].verbs_file->number, "231:192");
  EXPECT_EQ(machine.devices[1].verbs_file->error, 0);
}

TEST_F(MachineFiles, ARocePortHasTheInterfacesOfItsGids) {
  PutDevice("rxe0", "1: CA");
  Put("sys/class/infiniband/rxe0/parent", "eth0");
  PutGid("rxe0", 0, "fe80:0000:0000:0000:0000:0000:0000:0001", "eth0");
  PutGid("rxe0", 1, "0000:0000:0000:0000:0000:0000:0000:0000", "eth9");
  PutGid("rxe0", 2, "0000:0000:0000:0000:0000:ffff:c000:0201", "eth0.5");
  PutGid("rxe0", 10, "nonsense", "eth9");
  const MachineState machine = Read();
  ASSERT_EQ(machine.devices.size(), 1u);
  EXPECT_FALSE(machine.devices[0].iwarp);
  const DevicePort expected = {.number = 1,
                               .state = "ACTIVE",
                               .link_layer = LinkLayer::kEthernet,
                               .gids = {Ip("fe80::1"), Ip("::ffff:192.0.2.1")},
                               .interfaces = {"eth0", "eth0.5"}};
  ASSERT_EQ(machine.devices[0].ports.size(), 1u);
  EXPECT_EQ(machine.devices[0].ports[0], expected);
}

TEST_F(MachineFiles, AnIwarpPortStandsOnTheInterfaceWithItsMacAddress) {
  PutDevice("siw0", "4: RNIC");
  PutGid("siw0", 0, "0200:00ab:cd01:0000:0000:0000:0000:0000", "");
  Put("sys/class/net/eth0/address", "02:00:00:ab:cd:02");
  Put("sys/class/net/eth1/address", "02:00:00:ab:cd:01");
  const MachineState machine = Read();
  ASSERT_EQ(machine.devices.size(), 1u);
  EXPECT_TRUE(machine.devices[0].iwarp);
  EXPECT_EQ(machine.devices[0].ports[0].interfaces, std::vector<std::string>{"eth1"});
}

TEST_F(MachineFiles, APortOfACardHasTheInterfaceOfTheSamePort) {
  PutDevice("mlx4_0", "1: CA");
  Put("sys/class/infiniband/mlx4_0/ports/2/state", "1: DOWN");
  Put("sys/class/infiniband/mlx4_0/ports/2/link_layer", "InfiniBand");
  Put("sys/class/infiniband/mlx4_0/device/net/ib1/dev_port", "1");
  Put("sys/class/infiniband/mlx4_0/device/net/ib0/dev_port", "0");
  const MachineState machine = Read();
  ASSERT_EQ(machine.devices.size(), 1u);
  ASSERT_EQ(machine.devices[0].ports.size(), 2u);
  EXPECT_EQ(machine.devices[0].ports[0].interfaces, std::vector<std::string>{"ib0"});
  const DevicePort expected = {
      .number = 2, .state = "DOWN", .link_layer = LinkLayer::kInfiniBand, .gids = {}, .interfaces = {"ib1"}};
  EXPECT_EQ(machine.devices[0].ports[1], expected);
}

TEST_F(MachineFiles, AnInterfaceIsUpAndHasACarrierOrNot) {
  Put("sys/class/net/a/flags", "0x1003");
  Put("sys/class/net/a/carrier", "1");
  Put("sys/class/net/b/flags", "0x1003");
  Put("sys/class/net/b/carrier", "0");
  Put("sys/class/net/c/flags", "0x1002");
  Put("sys/class/net/bonding_masters", "");
  const std::vector<NetworkInterface> expected = {
      {"a", true, true, {}}, {"b", true, false, {}}, {"c", false, false, {}}};
  EXPECT_EQ(Read().interfaces, expected);
}

TEST_F(MachineFiles, AnInterfaceMayBePartOfABondOrOfAnotherInterface) {
  for (const char* const name : {"active", "alone", "backup", "port"}) {
    Put(std::string("sys/class/net/") + name + "/flags", "0x1003");
  }
  Put("sys/class/net/active/bonding_slave/state", "active");
  Put("sys/class/net/backup/bonding_slave/state", "backup");
  std::filesystem::create_symlink("../bond0", root_ / "sys/class/net/active/master");
  std::filesystem::create_symlink("../../virtual/net/bond0", root_ / "sys/class/net/backup/master");
  std::filesystem::create_symlink("../br0", root_ / "sys/class/net/port/master");
  const std::vector<NetworkInterface> expected = {{"active", true, false, {}, "bond0", BondRole::kActive},
                                                  {"alone", true, false, {}},
                                                  {"backup", true, false, {}, "bond0", BondRole::kBackup},
                                                  {"port", true, false, {}, "br0", BondRole::kNone}};
  EXPECT_EQ(Read().interfaces, expected);
}

TEST_F(MachineFiles, TheDefaultRoutesInterfaceIsTheDefault) {
  Put("proc/net/route",
      "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
      "tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n"
      "eth1\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0");
  EXPECT_EQ(Read().default_interface, "eth1");
}

TEST_F(MachineFiles, TheBacklogIsRead) {
  Put("proc/sys/net/rdma_ucm/max_backlog", "1024");
  EXPECT_EQ(Read().max_backlog, 1024u);
}

struct LockRow {
  const char* limits;
  const char* capabilities;
  const char* uid_map;
  MemoryLock lock;
};

TEST_F(MachineFiles, TheLimitOfLockedMemoryIsTheCallers) {
  constexpr char kFirstNamespace[] = "         0          0 4294967295";
  const LockRow rows[] = {
      {"65536                unlimited            bytes",
       "0000000000000000",
       kFirstNamespace,
       {.soft = 65536, .hard = kUnlimited, .exempt = false}},
      {"unlimited            unlimited            bytes",
       "0000000000000000",
       kFirstNamespace,
       {.soft = kUnlimited, .hard = kUnlimited, .exempt = false}},
      {"65536                131072               bytes",
       "000001ffffffffff",
       kFirstNamespace,
       {.soft = 65536, .hard = 131072, .exempt = true}},
      {"65536                131072               bytes",
       "0000000000004000",
       "0 1000 1",
       {.soft = 65536, .hard = 131072, .exempt = false}},
      {"65536                131072               bytes",
       "000001ffffffbfff",
       kFirstNamespace,
       {.soft = 65536, .hard = 131072, .exempt = false}},
  };
  for (const LockRow& row : rows) {
    SCOPED_TRACE(std::string(row.limits) + row.capabilities + row.uid_map);
    Put("proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max locked memory         " +
            std::string(row.limits));
    Put("proc/self/status", "Name:\tdoctor\nCapEff:\t" + std::string(row.capabilities));
    Put("proc/self/uid_map", row.uid_map);
    EXPECT_EQ(Read().memory_lock, row.lock);
  }
}

}  // namespace
}  // namespace rdmabroker::ctl
