// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/device_scan.h"

#include <fcntl.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "broker/fabric/rdmacm/cm_file.h"
#include "dataplane/ndk/qp_attributes.h"
#include "dataplane/ndk/status.h"
#include "dataplane/unique_fd.h"
#include "dataplane/verbs/device/device.h"
#include "dataplane/verbs/device/device_name.h"

namespace rdmabroker {
namespace {

// For ids that are gone before an event could come.
constexpr uint64_t kNobodysCookie = 1;

// Twice what a scan has open at a time. With less, libibverbs leaves devices out, or all of them, and does not say so.
constexpr size_t kDescriptors = 10;

absl::Status CheckDescriptors() {
  std::array<UniqueFd, kDescriptors> spare;
  for (UniqueFd& next : spare) {
    next = UniqueFd(::open("/", O_PATH | O_CLOEXEC));
    if (next) continue;
    return absl::ResourceExhaustedError(std::string("no descriptors to look for devices with: ") +
                                        std::strerror(errno) + "; let the daemon have more, as by LimitNOFILE");
  }
  return absl::OkStatus();
}

struct FreeDeviceList {
  void operator()(ibv_device** list) const { ::ibv_free_device_list(list); }
};

// The connection manager's own choice, by device index: it knows of bonds, VLANs and of devices that share an
// interface.
absl::StatusOr<std::map<uint32_t, std::vector<IpAddress>>> AddressesByDevice(const CmFile& file,
                                                                             const std::vector<IpAddress>& ips) {
  std::map<uint32_t, std::vector<IpAddress>> found;
  for (const IpAddress& ip : ips) {
    // The kernel binds an id to ::1, and then finds no way from there.
    if (ip.IsLoopback()) continue;
    KernelId id{};
    CmAddresses addresses;
    if (const int error = file.Create(kNobodysCookie, &id); error != 0) {
      return absl::ResourceExhaustedError(std::string("connection manager: ") + std::strerror(error));
    }
    if (file.Bind(id, {ip, 0}) == 0 && file.QueryAddresses(id, &addresses) == 0) {
      found[addresses.device_index].push_back(ip);
    }
    file.Destroy(id);
  }
  return found;
}

// The active MTU in bytes, the least of the active ports; nothing where none is. One port is enough: which way an
// address leads is the connection manager's to know.
std::optional<uint32_t> ActiveMtu(ibv_context* context) {
  ibv_device_attr device = {};
  if (::ibv_query_device(context, &device) != 0) return std::nullopt;
  std::optional<uint32_t> least;
  for (int number = 1; number <= device.phys_port_cnt; ++number) {
    ibv_port_attr port = {};
    if (::ibv_query_port(context, static_cast<uint8_t>(number), &port) != 0 || port.state != IBV_PORT_ACTIVE) continue;
    const uint32_t mtu = MtuInBytes(port.active_mtu);
    least = std::min(least.value_or(mtu), mtu);
  }
  return least;
}

// Fills in what only an open device tells. Why it cannot be used, or nothing.
std::string Ask(ibv_device* device, const ScanTask& task, const absl::Status& connection_manager, FoundDevice* found) {
  const verbs::DeviceContext context(::ibv_open_device(device));
  if (context == nullptr) {
    return "it cannot be opened (" + std::string(std::strerror(errno)) +
           "); let the daemon's user read and write its file in /dev/infiniband";
  }
  if (!task.known.contains(found->index)) {
    verbs::DeviceDescription description;
    const NdkStatus status = verbs::DescribeDevice(context.get(), &description);
    if (status != NdkStatus::kSuccess) return "it does not say what it can do: " + std::string(StatusName(status));
    found->info = description.info;
  }
  const std::optional<uint32_t> mtu = ActiveMtu(context.get());
  if (!found->iwarp) found->mtu = mtu.value_or(0);
  return WhyUnusable(connection_manager, mtu.has_value(), !found->addresses.empty());
}

absl::StatusOr<ScanResult> Look(const ScanTask& task) {
  const std::unique_ptr<ibv_device*, FreeDeviceList> list(::ibv_get_device_list(nullptr));
  // ENOSYS: the kernel has no RDMA.
  if (list == nullptr && errno == ENOSYS) return ScanResult();
  if (list == nullptr) return absl::UnavailableError(std::string("list of devices: ") + std::strerror(errno));
  ScanResult result;
  if (*list == nullptr) return result;
  const bool wanted = task.connection_manager.ok();
  const auto file = wanted ? CmFile::Open() : absl::StatusOr<std::shared_ptr<const CmFile>>(task.connection_manager);
  if (wanted && !file.ok() && !CmFile::WaitsForSomebody(file.status())) return file.status();
  std::map<uint32_t, std::vector<IpAddress>> addresses;
  if (file.ok()) {
    auto by_device = AddressesByDevice(**file, task.ips);
    if (!by_device.ok()) return by_device.status();
    addresses = *std::move(by_device);
  }
  for (ibv_device* const* next = list.get(); *next != nullptr; ++next) {
    FoundDevice found = {.index = static_cast<uint32_t>(::ibv_get_device_index(*next)),
                         .name = {},
                         .iwarp = (*next)->transport_type == IBV_TRANSPORT_IWARP,
                         .info = {},
                         .addresses = {},
                         .unusable_reason = {},
                         .mtu = 0};
    if (task.leaving.contains(found.index)) {
      result.leaving.insert(found.index);
      continue;
    }
    const int unnamed = verbs::ReadDeviceName(*next, &found.name);
    if (unnamed == EINVAL) continue;
    if (unnamed != 0) return absl::UnavailableError(std::string("name of a device: ") + std::strerror(unnamed));
    if (const auto known = task.known.find(found.index); known != task.known.end()) found.info = known->second;
    found.addresses = std::move(addresses[found.index]);
    found.unusable_reason = Ask(*next, task, file.status(), &found);
    result.devices.push_back(std::move(found));
  }
  return result;
}

}  // namespace

std::string WhyUnusable(const absl::Status& connection_manager, bool port_active, bool has_addresses) {
  if (absl::IsNotFound(connection_manager)) {
    return "the kernel's connection manager is not loaded; load it, as by \"modprobe rdma_ucm\"";
  }
  if (absl::IsPermissionDenied(connection_manager)) {
    return std::string(connection_manager.message()) + "; let the daemon's user read and write it";
  }
  if (!connection_manager.ok()) {
    return std::string(connection_manager.message()) + "; the daemon tries again every second";
  }
  if (!port_active) {
    return "its port is down; bring its network interface up, as by \"ip link set INTERFACE up\" (\"rdma link\" names "
           "it), and look to the cable";
  }
  if (!has_addresses) {
    return "no IP address of the daemon's network namespace leads to it; a bond's backup slave and the second device "
           "on one interface need none, any other needs one on its network interface (\"rdma link\" names it), as by "
           "\"ip address add ADDRESS dev INTERFACE\"";
  }
  return {};
}

absl::StatusOr<ScanResult> ScanDevices(const ScanTask& task) {
  if (absl::Status enough = CheckDescriptors(); !enough.ok()) return enough;
  absl::StatusOr<ScanResult> result = Look(task);
  // Others use them, too.
  if (absl::Status enough = CheckDescriptors(); !enough.ok()) return enough;
  return result;
}

}  // namespace rdmabroker
