// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/doctor/judge_device.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/ctl/doctor/judge_file.h"

namespace rdmabroker::ctl {
namespace {

// RoCE's identifier of an IPv4 address is that address as IPv6 has it (InfiniBand Architecture Specification, volume 1,
// A17.4.3); of an IPv6 address, the address.
IpAddress GidOf(const IpAddress& ip) {
  IpAddress gid{.family = IpFamily::kIpv6, .bytes = ip.bytes};
  if (ip.family == IpFamily::kIpv6) return gid;
  gid.bytes = {};
  gid.bytes[10] = gid.bytes[11] = 0xFF;
  std::copy_n(ip.bytes.begin(), 4, gid.bytes.begin() + 12);
  return gid;
}

const NetworkInterface* Find(const MachineState& machine, const std::string& name) {
  const auto found = std::find_if(machine.interfaces.begin(), machine.interfaces.end(),
                                  [&](const NetworkInterface& interface) { return interface.name == name; });
  return found == machine.interfaces.end() ? nullptr : &*found;
}

// The interface that the port stands on; null where no file tells.
const NetworkInterface* OwnInterface(const DevicePort& port, const MachineState& machine) {
  return port.interfaces.empty() ? nullptr : Find(machine, port.interfaces.front());
}

bool IsBackup(const NetworkInterface* interface) {
  return interface != nullptr && interface->bond_role == BondRole::kBackup;
}

std::string BackupInWords(const NetworkInterface& interface) {
  return "its network interface " + interface.name + " is a backup slave of " + interface.master +
         " and takes over when it becomes the active one";
}

// An address that can be connected from, and where it is.
struct PlacedAddress {
  InterfaceAddress address;
  std::string interface;
};

std::vector<PlacedAddress> AddressesOf(const DevicePort& port, const MachineState& machine) {
  std::vector<PlacedAddress> placed;
  std::vector<std::string> names = port.interfaces;
  const NetworkInterface* const own = OwnInterface(port, machine);
  const bool slave = own != nullptr && own->bond_role != BondRole::kNone;
  if (slave && std::find(names.begin(), names.end(), own->master) == names.end()) names.push_back(own->master);
  for (const std::string& name : names) {
    const NetworkInterface* const interface = Find(machine, name);
    if (interface == nullptr) continue;
    for (const InterfaceAddress& address : interface->addresses) {
      if (!address.ip.IsLoopback()) placed.push_back({address, name});
    }
  }
  return placed;
}

// Why no packet can leave it. Empty findings where one can.
Findings JudgeLink(const std::string& what, const DevicePort& port, const MachineState& machine) {
  const NetworkInterface* const interface = OwnInterface(port, machine);
  if (interface != nullptr && !interface->up) {
    return {{what, Severity::kProblem, "its network interface " + interface->name + " is down",
             "ip link set dev " + ShellWord(interface->name) + " up"}};
  }
  if (interface != nullptr && !interface->carrier) {
    return {{what, Severity::kProblem,
             "its network interface " + interface->name + " has no carrier; look to the cable and to the other end",
             ""}};
  }
  if (port.state == "ACTIVE") return {};
  if (port.link_layer == LinkLayer::kInfiniBand && port.state != "DOWN") {
    return {{what, Severity::kProblem,
             "it is in state " + port.state + ", as no subnet manager has set it up; one in the subnet must run",
             "apt-get install --yes opensm && systemctl start opensm"}};
  }
  if (interface == nullptr) {
    return {
        {what, Severity::kProblem, "it is in state " + port.state + "; look to the cable and to the other end", ""}};
  }
  if (interface->bond_role == BondRole::kActive) {
    return {{what, Severity::kProblem,
             "it is in state " + port.state + ", although " + interface->name + " is up; have another slave of " +
                 interface->master + " be active, then set this one down and up",
             ""}};
  }
  const std::string set = "ip link set dev " + ShellWord(interface->name);
  return {{what, Severity::kProblem,
           "it is in state " + port.state + ", although " + interface->name +
               " is up; that has to come up anew, which breaks its connections",
           set + " down && " + set + " up"}};
}

// A bond's slave is found by the bond's addresses. Who is part of anything else may have none for a reason.
Findings JudgeNoAddress(const std::string& what, const NetworkInterface& interface) {
  const bool slave = interface.bond_role != BondRole::kNone;
  const std::string& needs = slave ? interface.master : interface.name;
  const std::string missing = " has no IP address, by which connections find it";
  if (slave || interface.master.empty()) {
    return {{what, Severity::kProblem, "its network interface " + needs + missing,
             "ip address add ADDRESS/PREFIX dev " + ShellWord(needs)}};
  }
  return {{what, Severity::kProblem,
           "its network interface " + needs + ", a part of " + interface.master + "," + missing, ""}};
}

Findings JudgeAddresses(const std::string& what, const DevicePort& port, const MachineState& machine,
                        const std::vector<PlacedAddress>& placed) {
  if (port.interfaces.empty() && port.link_layer == LinkLayer::kInfiniBand) {
    return {{what, Severity::kProblem,
             "it has no network interface, by whose address connections find it; ib_ipoib makes one",
             "modprobe ib_ipoib"}};
  }
  if (port.interfaces.empty()) {
    return {
        {what, Severity::kNote, "no file tells its network interface; the interface needs an IP address", "rdma link"}};
  }
  const NetworkInterface* const own = OwnInterface(port, machine);
  if (placed.empty()) return JudgeNoAddress(what, own != nullptr ? *own : NetworkInterface{port.interfaces.front()});
  if (std::all_of(placed.begin(), placed.end(), [](const auto& each) { return each.address.ip.IsLinkLocal(); })) {
    return {{what, Severity::kNote, "its only IP address is link-local, and so of use in its own network alone",
             "ip address add ADDRESS/PREFIX dev " + ShellWord(placed.front().interface)}};
  }
  return {};
}

Findings JudgeGids(const std::string& what, const KernelDevice& device, const DevicePort& port,
                   const std::vector<PlacedAddress>& placed) {
  Findings findings;
  // An iWARP device has one for its MAC address, and connects by IP addresses. An InfiniBand port has its own.
  if (!device.iwarp && port.link_layer == LinkLayer::kEthernet) {
    for (const auto& [address, interface] : placed) {
      if (std::find(port.gids.begin(), port.gids.end(), GidOf(address.ip)) != port.gids.end()) continue;
      IpAddress ip = address.ip;
      ip.scope_id = 0;  // The interface is named beside it.
      const std::string anew =
          ip.ToString() + "/" + std::to_string(address.prefix_length) + " dev " + ShellWord(interface);
      findings.push_back(
          {what, Severity::kProblem,
           "it has no GID for " + ip.ToString() +
               ", so that address cannot connect; it has to come anew, which breaks the connections that it has",
           absl::StrCat("ip address del ", anew, " && ip address add ", anew)});
    }
  }
  if (findings.empty() && port.gids.empty()) {
    findings.push_back({what, Severity::kProblem,
                        "it has no GID, so nothing can connect over it; the kernel's log may say why", "dmesg | tail"});
  }
  return findings;
}

bool IsUsed(const KernelDevice& device, const MachineState& machine) {
  return std::ranges::any_of(machine.broker.devices,
                             [&](const BrokersDevice& each) { return each.name == device.name && each.usable; });
}

std::string Describe(const DevicePort& port, const std::vector<PlacedAddress>& placed) {
  std::string text = port.state;
  for (const auto& [address, interface] : placed) text += ", " + address.ip.ToString() + " on " + interface;
  return text;
}

}  // namespace

Findings JudgePort(const KernelDevice& device, const DevicePort& port, const MachineState& machine) {
  const std::string what = device.name + " port " + std::to_string(port.number);
  // What follows from a dead link needs no mending of its own.
  if (Findings link = JudgeLink(what, port, machine); !link.empty()) return link;
  if (const NetworkInterface* const own = OwnInterface(port, machine); IsBackup(own)) {
    return {{what, Severity::kOk, port.state + "; " + BackupInWords(*own), ""}};
  }
  const std::vector<PlacedAddress> placed = AddressesOf(port, machine);
  Findings findings = JudgeAddresses(what, port, machine, placed);
  const Findings gids = JudgeGids(what, device, port, placed);
  findings.insert(findings.end(), gids.begin(), gids.end());
  if (findings.empty()) findings.push_back({what, Severity::kOk, Describe(port, placed), ""});
  return findings;
}

std::string WhyIdle(const KernelDevice& device, const MachineState& machine) {
  for (const DevicePort& port : device.ports) {
    const NetworkInterface* const own = OwnInterface(port, machine);
    if (own == nullptr) continue;
    if (IsBackup(own)) return BackupInWords(*own);
    for (const KernelDevice& other : machine.devices) {
      const auto shares = [&](const DevicePort& each) { return OwnInterface(each, machine) == own; };
      if (other.name == device.name || !IsUsed(other, machine) || std::ranges::none_of(other.ports, shares)) continue;
      return "the addresses of " + own->name + " lead to " + other.name + ", which shares that network interface";
    }
  }
  return {};
}

}  // namespace rdmabroker::ctl
