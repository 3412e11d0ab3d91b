// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/doctor/machine_files.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <net/if.h>
#include <pwd.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <limits>
#include <sstream>

#include "client/ctl/doctor/device_files.h"
#include "client/ctl/doctor/sysfs.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker::ctl {
namespace {

using std::filesystem::path;

constexpr char kCmFile[] = "/dev/infiniband/rdma_cm";

// The rest of the line that begins so.
std::string LineAfter(const path& file, const std::string& beginning) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with(beginning)) return line.substr(beginning.size());
  }
  return {};
}

// Opens the device's file for a moment.
UsedFile TryDevice(const path& root, const std::string& file, const path& number) {
  UsedFile used = LookAt(root, file);
  used.number = FirstLine(number);
  if (used.error != 0) return used;
  const UniqueFd opened(::open((root / path(file).relative_path()).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!opened) used.error = errno;
  return used;
}

void AddVerbsFiles(const path& root, std::vector<KernelDevice>* devices) {
  const path folder = root / "sys/class/infiniband_verbs";
  for (const std::string& name : NamesIn(folder)) {
    const std::string owner = FirstLine(folder / name / "ibdev");
    for (KernelDevice& device : *devices) {
      if (device.name == owner) device.verbs_file = TryDevice(root, "/dev/infiniband/" + name, folder / name / "dev");
    }
  }
}

// Documentation/networking/bonding.rst: "active" or "backup"; there is no such file but for a bond's slave.
BondRole BondRoleOf(const std::string& state) {
  if (state.empty()) return BondRole::kNone;
  return state == "backup" ? BondRole::kBackup : BondRole::kActive;
}

std::vector<NetworkInterface> ReadInterfaces(const path& root) {
  std::vector<NetworkInterface> interfaces;
  const path folder = root / "sys/class/net";
  for (const std::string& name : NamesIn(folder)) {
    const std::string flags = FirstLine(folder / name / "flags");  // "0x1003"
    if (!flags.starts_with("0x")) continue;
    NetworkInterface interface = {.name = name};
    interface.up = (LeadingNumber<uint32_t>(flags.substr(2), 16).value_or(0) & IFF_UP) != 0;
    interface.carrier = FirstLine(folder / name / "carrier") == "1";
    std::error_code none;
    interface.master = std::filesystem::read_symlink(folder / name / "master", none).filename();
    interface.bond_role = BondRoleOf(FirstLine(folder / name / "bonding_slave/state"));
    interfaces.push_back(std::move(interface));
  }
  return interfaces;
}

std::string DefaultInterface(const path& root) {
  std::ifstream routes(root / "proc/net/route");
  for (std::string line; std::getline(routes, line);) {
    std::istringstream fields(line);
    std::string interface, destination, gateway, flags, references, use, metric, mask;
    fields >> interface >> destination >> gateway >> flags >> references >> use >> metric >> mask;
    if (destination == "00000000" && mask == "00000000") return interface;
  }
  return {};
}

uint64_t ReadLimit(const std::string& word) {
  constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
  return word == "unlimited" ? kUnlimited : LeadingNumber<uint64_t>(word).value_or(0);
}

MemoryLock ReadMemoryLock(const path& root) {
  const path self = root / "proc/self";
  std::istringstream limits(LineAfter(self / "limits", "Max locked memory "));
  std::string soft, hard;
  limits >> soft >> hard;
  std::string effective;
  std::istringstream(LineAfter(self / "status", "CapEff:")) >> effective;
  const uint64_t capabilities = LeadingNumber<uint64_t>(effective, 16).value_or(0);
  // The first user namespace maps every number to itself.
  uint64_t inside = 1, outside = 1, count = 0;
  std::istringstream(FirstLine(self / "uid_map")) >> inside >> outside >> count;
  const bool first = inside == 0 && outside == 0 && count == std::numeric_limits<uint32_t>::max();
  return {.soft = ReadLimit(soft), .hard = ReadLimit(hard), .exempt = first && (capabilities >> CAP_IPC_LOCK & 1) != 0};
}

}  // namespace

UsedFile LookAt(const path& root, const std::string& file) {
  UsedFile used = {.path = file};
  struct stat found = {};
  if (::stat((root / path(file).relative_path()).c_str(), &found) != 0) {
    used.error = errno;
    return used;
  }
  const passwd* const owner = ::getpwuid(found.st_uid);
  used.owner = owner != nullptr ? owner->pw_name : std::to_string(found.st_uid);
  const group* const owners = ::getgrgid(found.st_gid);
  used.group = owners != nullptr ? owners->gr_name : std::to_string(found.st_gid);
  used.mode = found.st_mode & ALLPERMS;
  return used;
}

MachineState ReadMachineFiles(const path& root) {
  MachineState machine;
  std::error_code error;
  machine.verbs_loaded = std::filesystem::exists(root / "sys/class/infiniband_verbs", error);
  const path cm = root / "sys/class/misc/rdma_cm";
  if (std::filesystem::exists(cm, error)) machine.cm_file = TryDevice(root, kCmFile, cm / "dev");
  machine.max_backlog = LeadingNumber<uint32_t>(FirstLine(root / "proc/sys/net/rdma_ucm/max_backlog"));
  machine.memory_lock = ReadMemoryLock(root);
  machine.devices = ReadDevices(root);
  AddVerbsFiles(root, &machine.devices);
  machine.interfaces = ReadInterfaces(root);
  machine.default_interface = DefaultInterface(root);
  return machine;
}

}  // namespace rdmabroker::ctl
