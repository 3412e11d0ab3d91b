// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/doctor/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rdmabroker::ctl {
namespace {

using testing::HasSubstr;

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

IpAddress Ip(std::string_view text) { return *IpAddress::Parse(text); }

UsedFile OpenFile(const std::string& path, const std::string& number) {
  return {.path = path, .owner = "root", .group = "root", .mode = 0666, .number = number};
}

// Nothing is missing: Soft-RoCE on the interface eth0.
MachineState WholeMachine() {
  MachineState machine;
  machine.user = "ann";
  machine.verbs_loaded = true;
  machine.cm_file = OpenFile("/dev/infiniband/rdma_cm", "10:122");
  machine.max_backlog = 1024;
  machine.memory_lock = {.soft = kUnlimited, .hard = kUnlimited, .exempt = false};
  machine.interfaces = {{"eth0", true, true, {{Ip("192.0.2.1"), 24}, {Ip("fe80::1%2"), 64}}},
                        {"lo", true, true, {{Ip("127.0.0.1"), 8}}}};
  machine.default_interface = "eth0";
  DevicePort port = {.number = 1,
                     .state = "ACTIVE",
                     .link_layer = LinkLayer::kEthernet,
                     .gids = {Ip("fe80::1"), Ip("::ffff:192.0.2.1")},
                     .interfaces = {"eth0"}};
  machine.devices = {{.name = "rxe0",
                      .iwarp = false,
                      .verbs_file = OpenFile("/dev/infiniband/uverbs0", "231:192"),
                      .in_library = true,
                      .ports = {port}}};
  machine.broker.socket = {.path = "/run/rdma-broker/control.sock", .owner = "root", .group = "rdma", .mode = 0660};
  machine.broker.answers = true;
  machine.broker.devices = {{"iwarp0", true, ""}, {"rxe0", true, "", 1024}};
  return machine;
}

DevicePort& Port(MachineState& machine) { return machine.devices[0].ports[0]; }
NetworkInterface& Eth0(MachineState& machine) { return machine.interfaces[0]; }

// What is broken, and all that is found but for what is in order.
struct Row {
  const char* broken;
  std::function<void(MachineState&)> break_it;
  struct Expected {
    const char* what;
    Severity severity;
    const char* meaning;  // Part of it.
    std::string command;
  };
  std::vector<Expected> expected;
};

constexpr Severity kProblem = Severity::kProblem;
constexpr Severity kNote = Severity::kNote;

void NobodyAnswers(MachineState& machine, int error) {
  machine.broker.answers = false;
  machine.broker.devices.clear();
  machine.broker.socket.error = error;
}

void BeInfiniBand(MachineState& machine) {
  Port(machine).link_layer = LinkLayer::kInfiniBand;
  Port(machine).gids = {Ip("fe80::2:c903:0:1")};
}

// Above eth0, whose addresses are the bond's from then on.
void MakeBond(MachineState& machine) {
  Eth0(machine).master = "bond0";
  Eth0(machine).bond_role = BondRole::kActive;
  Port(machine).interfaces.push_back("bond0");
  machine.interfaces.push_back({"bond0", true, true, std::exchange(Eth0(machine).addresses, {})});
}

// Another device on eth0, which its addresses lead to as well.
void AddSecondDevice(MachineState& machine) {
  KernelDevice second = machine.devices[0];
  second.name = "siw0";
  machine.devices.push_back(second);
  machine.broker.devices.push_back({"siw0", false, "no address leads to it"});
}

const std::string kMemlockFile = " >>/etc/security/limits.d/rdma-memlock.conf";

const std::vector<Row>& MachineRows() {
  static const std::vector<Row> kRows = {
      {"nothing", [](MachineState&) {}, {}},
      {"ib_uverbs is not loaded",
       [](MachineState& m) {
         m.verbs_loaded = false;
         m.devices[0].verbs_file.reset();
         m.devices[0].in_library = false;
       },
       {{"ib_uverbs", kProblem, "not loaded", "modprobe ib_uverbs"}}},
      {"rdma_ucm is not loaded",
       [](MachineState& m) {
         m.cm_file.reset();
         m.max_backlog.reset();
       },
       {{"rdma_ucm", kProblem, "not loaded", "modprobe rdma_ucm"}}},
      {"another network namespace tells no backlog", [](MachineState& m) { m.max_backlog.reset(); }, {}},
      {"the kernel holds fewer requests than a broker's listener",
       [](MachineState& m) { m.max_backlog = 1023; },
       {{"max_backlog", kProblem, "1023 connect requests", "echo 1024 >/proc/sys/net/rdma_ucm/max_backlog"}}},
      {"there is no device",
       [](MachineState& m) { m.devices.clear(); },
       {{"devices", kProblem, "iWARP in user space", "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0"}}},
      {"there is no device and no default route",
       [](MachineState& m) {
         m.devices.clear();
         m.default_interface.clear();
         Eth0(m).name = "a;b";
       },
       {{"devices", kProblem, "", "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev 'a;b'"}}},
      {"there is no device and no interface with an address but loopback",
       [](MachineState& m) {
         m.devices.clear();
         m.default_interface.clear();
         m.interfaces.erase(m.interfaces.begin());
       },
       {{"devices", kProblem, "", "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev INTERFACE"}}},
      {"little memory may be locked",
       [](MachineState& m) { m.memory_lock = {.soft = 65536, .hard = 65536}; },
       {{"memlock", kProblem, "64 KiB", "echo 'ann - memlock unlimited'" + kMemlockFile}}},
      {"little memory may be locked, and the caller can raise that",
       [](MachineState& m) { m.memory_lock = {.soft = (8 << 20) - 1, .hard = kUnlimited}; },
       {{"memlock", kProblem, "LimitMEMLOCK=infinity", "ulimit -l unlimited"}}},
      {"the kernel's default of memory may be locked",
       [](MachineState& m) { m.memory_lock = {.soft = 8 << 20, .hard = 8 << 20}; },
       {{"memlock", kNote, "8192 KiB", "echo 'ann - memlock unlimited'" + kMemlockFile}}},
      {"a capability makes up for the limit",
       [](MachineState& m) { m.memory_lock = {.soft = 65536, .hard = 65536, .exempt = true}; },
       {}},
  };
  return kRows;
}

const std::vector<Row>& FileRows() {
  static const std::vector<Row> kRows = {
      {"a file is missing",
       [](MachineState& m) {
         m.cm_file->error = ENOENT;
         m.devices[0].in_library = true;
       },
       {{"/dev/infiniband/rdma_cm", kProblem, "--device=/dev/infiniband",
         "mkdir -p /dev/infiniband && mknod -m 0666 /dev/infiniband/rdma_cm c 10 122"}}},
      {"the library leaves a device out whose file is missing",
       [](MachineState& m) {
         m.devices[0].verbs_file->error = ENOENT;
         m.devices[0].in_library = false;
       },
       {{"/dev/infiniband/uverbs0", kProblem, "not there",
         "mkdir -p /dev/infiniband && mknod -m 0666 /dev/infiniband/uverbs0 c 231 192"}}},
      {"a file is its owner's",
       [](MachineState& m) {
         m.devices[0].verbs_file->error = EACCES;
         m.devices[0].verbs_file->mode = 0600;
       },
       {{"/dev/infiniband/uverbs0", kProblem, "ann may not open it, as it is root:root 0600",
         "chmod 0666 /dev/infiniband/uverbs0"}}},
      {"a file is its group's",
       [](MachineState& m) {
         m.cm_file->error = EACCES;
         m.cm_file->mode = 0660;
         m.cm_file->group = "rdma";
       },
       {{"/dev/infiniband/rdma_cm", kProblem, "next login", "usermod --append --groups rdma ann"}}},
      {"a file is the group root's, which is none to join",
       [](MachineState& m) {
         m.cm_file->error = EACCES;
         m.cm_file->mode = 0660;
       },
       {{"/dev/infiniband/rdma_cm", kProblem, "root:root 0660", "chmod 0666 /dev/infiniband/rdma_cm"}}},
      {"a file may only be read by its group",
       [](MachineState& m) {
         m.cm_file->error = EACCES;
         m.cm_file->mode = 0640;
         m.cm_file->group = "rdma";
       },
       {{"/dev/infiniband/rdma_cm", kProblem, "root:rdma 0640", "chmod 0666 /dev/infiniband/rdma_cm"}}},
      {"a container forbids the device",
       [](MachineState& m) { m.cm_file->error = EPERM; },
       {{"/dev/infiniband/rdma_cm", kProblem, "--device=/dev/infiniband/rdma_cm", ""}}},
      {"a device does not open",
       [](MachineState& m) { m.devices[0].verbs_file->error = ENXIO; },
       {{"/dev/infiniband/uverbs0", kProblem, "No such device or address", "dmesg | tail"}}},
      {"a driver is the kernel's only",
       [](MachineState& m) { m.devices[0].verbs_file.reset(); },
       {{"rxe0", kProblem, "not offer it to programs", "dmesg | tail"}}},
      {"the library cannot drive a device",
       [](MachineState& m) { m.devices[0].in_library = false; },
       {{"rxe0", kProblem, "libibverbs", "apt-get install --yes ibverbs-providers"}}},
  };
  return kRows;
}

const std::vector<Row>& PortRows() {
  static const std::vector<Row> kRows = {
      {"an interface is down",
       [](MachineState& m) {
         Eth0(m).up = Eth0(m).carrier = false;
         Port(m).state = "DOWN";
         Eth0(m).addresses.clear();
       },
       {{"rxe0 port 1", kProblem, "eth0 is down", "ip link set dev eth0 up"}}},
      {"an interface has no carrier",
       [](MachineState& m) { Eth0(m).carrier = false; },
       {{"rxe0 port 1", kProblem, "eth0 has no carrier", ""}}},
      {"a port is down although its interface is up",
       [](MachineState& m) { Port(m).state = "DOWN"; },
       {{"rxe0 port 1", kProblem, "in state DOWN", "ip link set dev eth0 down && ip link set dev eth0 up"}}},
      {"a port is down and has no interface",
       [](MachineState& m) {
         Port(m).state = "DOWN";
         Port(m).interfaces.clear();
       },
       {{"rxe0 port 1", kProblem, "in state DOWN; look to the cable", ""}}},
      {"an InfiniBand port's cable is out",
       [](MachineState& m) {
         BeInfiniBand(m);
         Port(m).interfaces.clear();
         Port(m).state = "DOWN";
       },
       {{"rxe0 port 1", kProblem, "in state DOWN; look to the cable", ""}}},
      {"no subnet manager has seen an InfiniBand port",
       [](MachineState& m) {
         BeInfiniBand(m);
         Port(m).state = "INIT";
       },
       {{"rxe0 port 1", kProblem, "subnet manager", "apt-get install --yes opensm && systemctl start opensm"}}},
      {"an InfiniBand port has no interface",
       [](MachineState& m) {
         BeInfiniBand(m);
         Port(m).interfaces.clear();
       },
       {{"rxe0 port 1", kProblem, "no network interface", "modprobe ib_ipoib"}}},
      {"an InfiniBand port has its one GID", BeInfiniBand, {}},
      {"nothing tells a port's interface",
       [](MachineState& m) { Port(m).interfaces.clear(); },
       {{"rxe0 port 1", kNote, "no file tells", "rdma link"}}},
      {"an interface has no address",
       [](MachineState& m) { Eth0(m).addresses.clear(); },
       {{"rxe0 port 1", kProblem, "eth0 has no IP address", "ip address add ADDRESS/PREFIX dev eth0"}}},
      {"an interface has only a link-local address",
       [](MachineState& m) { Eth0(m).addresses.erase(Eth0(m).addresses.begin()); },
       {{"rxe0 port 1", kNote, "link-local", "ip address add ADDRESS/PREFIX dev eth0"}}},
      {"an interface has only loopback's address",
       [](MachineState& m) {
         Eth0(m).addresses = {{Ip("127.0.0.2"), 8}};
       },
       {{"rxe0 port 1", kProblem, "eth0 has no IP address", "ip address add ADDRESS/PREFIX dev eth0"}}},
      {"the address is a bond's above the interface",
       [](MachineState& m) {
         m.interfaces.push_back({"bond0", true, true, Eth0(m).addresses});
         Eth0(m).addresses.clear();
         Port(m).interfaces = {"eth0", "bond0"};
       },
       {}},
      {"an interface is a bond's backup slave, and has no GID",
       [](MachineState& m) {
         MakeBond(m);
         Eth0(m).bond_role = BondRole::kBackup;
         Port(m).gids.clear();
         m.broker.devices[1] = {"rxe0", false, "no address leads to it"};
       },
       {}},
      {"an interface is a bond's backup slave, and GIDs of before are left",
       [](MachineState& m) {
         MakeBond(m);
         Eth0(m).bond_role = BondRole::kBackup;
         Port(m).gids.pop_back();
       },
       {}},
      {"an interface is a bond's backup slave, and has no carrier",
       [](MachineState& m) {
         MakeBond(m);
         Eth0(m).bond_role = BondRole::kBackup;
         Eth0(m).carrier = false;
       },
       {{"rxe0 port 1", kProblem, "eth0 has no carrier", ""}}},
      {"an interface is a bond's active slave", MakeBond, {}},
      {"no file tells that the bond leads to its active slave's port",
       [](MachineState& m) {
         MakeBond(m);
         Port(m).interfaces = {"eth0"};
       },
       {}},
      {"a bond has no address",
       [](MachineState& m) {
         MakeBond(m);
         m.interfaces.back().addresses.clear();
       },
       {{"rxe0 port 1", kProblem, "bond0 has no IP address", "ip address add ADDRESS/PREFIX dev bond0"}}},
      {"a bond has only a link-local address",
       [](MachineState& m) {
         MakeBond(m);
         m.interfaces.back().addresses.erase(m.interfaces.back().addresses.begin());
       },
       {{"rxe0 port 1", kNote, "link-local", "ip address add ADDRESS/PREFIX dev bond0"}}},
      {"the port of a bond's active slave is down although that is up",
       [](MachineState& m) {
         MakeBond(m);
         Port(m).state = "DOWN";
       },
       {{"rxe0 port 1", kProblem, "another slave of bond0", ""}}},
      {"an interface is a bridge's port",
       [](MachineState& m) {
         Eth0(m).master = "br0";
         Eth0(m).addresses.clear();
       },
       {{"rxe0 port 1", kProblem, "a part of br0", ""}}},
      {"an IPv4 address has no GID",
       [](MachineState& m) { Port(m).gids.pop_back(); },
       {{"rxe0 port 1", kProblem, "no GID for 192.0.2.1",
         "ip address del 192.0.2.1/24 dev eth0 && ip address add 192.0.2.1/24 dev eth0"}}},
      {"an IPv6 address has no GID",
       [](MachineState& m) { Port(m).gids.erase(Port(m).gids.begin()); },
       {{"rxe0 port 1", kProblem, "no GID for fe80::1,",
         "ip address del fe80::1/64 dev eth0 && ip address add fe80::1/64 dev eth0"}}},
      {"an InfiniBand port has no GID",
       [](MachineState& m) {
         BeInfiniBand(m);
         Port(m).gids.clear();
       },
       {{"rxe0 port 1", kProblem, "it has no GID", "dmesg | tail"}}},
      {"an iWARP device's GID is no address",
       [](MachineState& m) {
         m.devices[0].iwarp = true;
         Port(m).gids = {Ip("200::")};
       },
       {}},
      {"an iWARP device has no GID",
       [](MachineState& m) {
         m.devices[0].iwarp = true;
         Port(m).gids.clear();
       },
       {{"rxe0 port 1", kProblem, "it has no GID", "dmesg | tail"}}},
      {"of two ports one is down",
       [](MachineState& m) { m.devices[0].ports.push_back({.number = 2, .state = "DOWN"}); },
       {{"rxe0 port 2", kProblem, "in state DOWN", ""}}},
  };
  return kRows;
}

const std::vector<Row>& BrokerRows() {
  static const std::vector<Row> kRows = {
      {"there is no socket",
       [](MachineState& m) { NobodyAnswers(m, ENOENT); },
       {{"broker", kProblem, "no broker listens on /run/rdma-broker/control.sock",
         "mkdir -p /run/rdma-broker && rdma-brokerd &"}}},
      {"there is no socket where it is not by default",
       [](MachineState& m) {
         NobodyAnswers(m, ENOENT);
         m.broker.socket_is_default = false;
       },
       {{"broker", kProblem, "no broker listens on", "rdma-brokerd --config FILE &"}}},
      {"nobody answers",
       [](MachineState& m) {
         NobodyAnswers(m, 0);
         m.broker.silence = "it hangs";
       },
       {{"broker", kProblem, "it hangs", "mkdir -p /run/rdma-broker && rdma-brokerd &"}}},
      {"the socket is its group's",
       [](MachineState& m) { NobodyAnswers(m, EACCES); },
       {{"broker", kProblem, "ann may not use", "usermod --append --groups rdma ann"}}},
      {"the socket is nobody else's",
       [](MachineState& m) {
         NobodyAnswers(m, EACCES);
         m.broker.socket.mode = 0600;
       },
       {{"broker", kProblem, "control.socket_group",
         "chgrp rdma /run/rdma-broker/control.sock && chmod 0660 /run/rdma-broker/control.sock && usermod --append "
         "--groups rdma ann"}}},
      {"the socket's folder hides it from all but its group",
       [](MachineState& m) {
         NobodyAnswers(m, EACCES);
         m.broker.socket.owner.clear();
         m.broker.folder = {.path = "/run/rdma-broker", .owner = "rdma-broker", .group = "rdma", .mode = 0750};
       },
       {{"broker", kProblem, "ann may not use", "usermod --append --groups rdma ann"}}},
      {"the socket's folder hides it from all but its owner",
       [](MachineState& m) {
         NobodyAnswers(m, EACCES);
         m.broker.socket.owner.clear();
         m.broker.folder = {.path = "/run/rdma-broker", .owner = "rdma-broker", .group = "rdma", .mode = 0700};
       },
       {{"broker", kProblem, "ann may not use", "chmod a+x /run/rdma-broker"}}},
      {"the broker cannot use a device",
       [](MachineState& m) {
         m.broker.devices[1] = {"rxe0", false, "its port is down"};
       },
       {{"broker, rxe0", kProblem, "cannot use it: its port is down", ""}}},
      {"two devices share an interface, and the broker uses one", AddSecondDevice, {}},
      {"two devices share an interface, and the broker uses neither",
       [](MachineState& m) {
         AddSecondDevice(m);
         m.broker.devices[1] = {"rxe0", false, "no descriptor"};
       },
       {{"broker, rxe0", kProblem, "no descriptor", ""}, {"broker, siw0", kProblem, "no address leads to it", ""}}},
      {"the broker does not see a device",
       [](MachineState& m) { m.broker.devices.pop_back(); },
       {{"broker, rxe0", kProblem, "does not see it", ""}}},
      {"the broker has no adapter",
       [](MachineState& m) {
         m.broker.devices = {{"rxe0", false, "why"}};
       },
       {{"broker, rxe0", kProblem, "why", ""}, {"broker", kProblem, "no usable adapter", ""}}},
  };
  return kRows;
}

void ExpectAllFound(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.broken);
    MachineState machine = WholeMachine();
    row.break_it(machine);
    Findings found = Judge(machine);
    std::erase_if(found, [](const Finding& finding) { return finding.severity == Severity::kOk; });
    ASSERT_EQ(found.size(), row.expected.size()) << testing::PrintToString(found.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].what, row.expected[i].what);
      EXPECT_EQ(found[i].severity, row.expected[i].severity) << found[i].what;
      EXPECT_THAT(found[i].meaning, HasSubstr(row.expected[i].meaning));
      EXPECT_EQ(found[i].command, row.expected[i].command);
    }
  }
}

TEST(Judging, FindsWhatTheMachineMissesAndNothingElse) { ExpectAllFound(MachineRows()); }
TEST(Judging, FindsWhichFilesCannotBeUsedAndNothingElse) { ExpectAllFound(FileRows()); }
TEST(Judging, FindsWhatAPortMissesAndNothingElse) { ExpectAllFound(PortRows()); }
TEST(Judging, FindsWhatTheBrokerMissesAndNothingElse) { ExpectAllFound(BrokerRows()); }

TEST(Judging, WhatIsInOrderIsSaidWithoutACommand) {
  const char* const expected[] = {
      "ib_uverbs", "rdma_ucm", "/dev/infiniband/rdma_cm", "max_backlog", "/dev/infiniband/uverbs0", "rxe0 port 1",
      "memlock",   "broker"};
  const Findings found = Judge(WholeMachine());
  ASSERT_EQ(found.size(), std::size(expected));
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].what, expected[i]);
    EXPECT_EQ(found[i].severity, Severity::kOk) << found[i].what;
    EXPECT_EQ(found[i].command, "") << found[i].what;
  }
  EXPECT_EQ(found[5].meaning, "ACTIVE, 192.0.2.1 on eth0, fe80::1%2 on eth0");
  EXPECT_EQ(found[7].meaning, "it answers; usable adapters: iwarp0, rxe0 (MTU 1024)");
}

TEST(Judging, WhatWaitsForItsTurnIsSaid) {
  MachineState machine = WholeMachine();
  AddSecondDevice(machine);
  const auto said = [&machine](const std::string& what) {
    for (const Finding& finding : Judge(machine)) {
      if (finding.what == what) return finding.meaning;
    }
    return std::string();
  };
  EXPECT_THAT(said("broker, siw0"), HasSubstr("eth0 lead to rxe0"));
  MakeBond(machine);
  Eth0(machine).bond_role = BondRole::kBackup;
  machine.broker.devices[1].usable = false;
  for (const char* const what : {"rxe0 port 1", "broker, rxe0"}) {
    EXPECT_THAT(said(what), HasSubstr("eth0 is a backup slave of bond0 and takes over")) << what;
  }
}

TEST(Judging, AHostileNameStaysOneWordOfTheCommand) {
  MachineState machine = WholeMachine();
  Eth0(machine).name = Port(machine).interfaces[0] = "$(x)'y";
  Eth0(machine).up = false;
  for (const Finding& finding : Judge(machine)) {
    if (finding.severity != kProblem) continue;
    EXPECT_EQ(finding.command, "ip link set dev '$(x)'\\''y' up");
  }
}

}  // namespace
}  // namespace rdmabroker::ctl
