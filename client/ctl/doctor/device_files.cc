// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/doctor/device_files.h"

#include <algorithm>
#include <cstdio>

#include "client/ctl/doctor/sysfs.h"

namespace rdmabroker::ctl {
namespace {

using std::filesystem::path;

// The MAC address that an iWARP port's GID begins with, as sysfs writes those of interfaces.
std::string MacOf(const IpAddress& gid) {
  char text[sizeof "00:00:00:00:00:00"];
  const auto& bytes = gid.bytes;
  std::snprintf(text, sizeof text, "%02x:%02x:%02x:%02x:%02x:%02x", bytes[0], bytes[1], bytes[2], bytes[3], bytes[4],
                bytes[5]);
  return text;
}

// The interface that the device stands on; empty where no file tells.
std::string OwnInterface(const path& root, const path& device, const DevicePort& port, bool iwarp) {
  // Soft-RoCE tells by itself.
  if (std::string parent = FirstLine(device / "parent"); !parent.empty()) return parent;
  if (iwarp && !port.gids.empty()) {
    for (std::string& name : NamesIn(root / "sys/class/net")) {
      if (FirstLine(root / "sys/class/net" / name / "address") == MacOf(port.gids.front())) return std::move(name);
    }
  }
  // Those of the same card, with their port of it.
  for (std::string& name : NamesIn(device / "device/net")) {
    const auto card_port = LeadingNumber<uint32_t>(FirstLine(device / "device/net" / name / "dev_port"));
    if (card_port.value_or(0) + 1 == port.number) return std::move(name);
  }
  return {};
}

void AddOnce(const std::string& name, std::vector<std::string>* names) {
  if (!name.empty() && std::find(names->begin(), names->end(), name) == names->end()) names->push_back(name);
}

LinkLayer LinkLayerOf(const std::string& word) {
  if (word == "InfiniBand") return LinkLayer::kInfiniBand;
  return word == "Ethernet" ? LinkLayer::kEthernet : LinkLayer::kUnspecified;
}

DevicePort ReadPort(const path& root, const path& device, uint32_t number, bool iwarp) {
  const path folder = device / "ports" / std::to_string(number);
  DevicePort port = {.number = number, .link_layer = LinkLayerOf(FirstLine(folder / "link_layer"))};
  const std::string state = FirstLine(folder / "state");  // "4: ACTIVE"
  port.state = state.substr(std::min(state.size(), state.find(' ') + 1));
  std::vector<std::string> gid_interfaces;
  for (const std::string& index : NamesIn(folder / "gids")) {
    const auto gid = IpAddress::Parse(FirstLine(folder / "gids" / index));
    if (!gid.has_value() || gid->IsAny()) continue;
    port.gids.push_back(*gid);
    gid_interfaces.push_back(FirstLine(folder / "gid_attrs/ndevs" / index));
  }
  AddOnce(OwnInterface(root, device, port, iwarp), &port.interfaces);
  for (const std::string& name : gid_interfaces) AddOnce(name, &port.interfaces);
  return port;
}

}  // namespace

std::vector<KernelDevice> ReadDevices(const path& root) {
  std::vector<KernelDevice> devices;
  const path folder = root / "sys/class/infiniband";
  for (const std::string& name : NamesIn(folder)) {
    KernelDevice device = {.name = name};
    device.iwarp = FirstLine(folder / name / "node_type").ends_with("RNIC");  // "4: RNIC"
    for (const std::string& port : NamesIn(folder / name / "ports")) {
      const auto number = LeadingNumber<uint32_t>(port);
      if (number.has_value()) device.ports.push_back(ReadPort(root, folder / name, *number, device.iwarp));
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace rdmabroker::ctl
