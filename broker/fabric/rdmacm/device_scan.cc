// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/rdmacm/device_scan.h"

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "broker/fabric/rdmacm/cm_file.h"
#include "dataplane/ndk/status.h"
#include "dataplane/verbs/device/device.h"

namespace rdmabroker {
namespace {

// For ids that are gone before an event could come.
constexpr uint64_t kNobodysCookie = 1;

struct FreeDeviceList {
  void operator()(ibv_device** list) const { ::ibv_free_device_list(list); }
};

// The connection manager's own choice, by device index: it knows of bonds, VLANs and of devices that share an
// interface. The ids go with the file.
std::map<uint32_t, std::vector<IpAddress>> AddressesByDevice(const std::vector<IpAddress>& ips) {
  std::map<uint32_t, std::vector<IpAddress>> found;
  const auto file = CmFile::Open();
  if (!file.ok()) return found;
  for (const IpAddress& ip : ips) {
    // The kernel binds an id to ::1, and then finds no way from there.
    if (ip.IsLoopback()) continue;
    KernelId id{};
    CmAddresses addresses;
    if ((*file)->Create(kNobodysCookie, &id) != 0) break;
    if ((*file)->Bind(id, {ip, 0}) == 0 && (*file)->QueryAddresses(id, &addresses) == 0) {
      found[addresses.device_index].push_back(ip);
    }
    (*file)->Destroy(id);
  }
  return found;
}

std::string WhyUnusable(ibv_context* context, const FoundDevice& device) {
  ibv_port_attr port = {};
  if (::ibv_query_port(context, 1, &port) != 0 || port.state != IBV_PORT_ACTIVE) {
    return "its port is down; bring its network interface up, as by \"ip link set INTERFACE up\" (\"rdma link\" names "
           "it), and look to the cable";
  }
  if (device.addresses.empty()) {
    return "no IP address of the daemon's network namespace leads to it; give its network interface one, as by \"ip "
           "address add ADDRESS dev INTERFACE\" (\"rdma link\" names it)";
  }
  return {};
}

FoundDevice Look(ibv_device* device, ScanTask& task, std::vector<IpAddress> addresses) {
  FoundDevice found = {.index = static_cast<uint32_t>(::ibv_get_device_index(device)),
                       .name = ::ibv_get_device_name(device),
                       .info = {},
                       .addresses = std::move(addresses),
                       .unusable_reason = {}};
  const verbs::DeviceContext context(::ibv_open_device(device));
  if (context == nullptr) {
    found.unusable_reason = "it cannot be opened (" + std::string(std::strerror(errno)) +
                            "); let the daemon's user read and write its file in /dev/infiniband";
    return found;
  }
  if (const auto known = task.known.find(found.index); known != task.known.end()) {
    found.info = known->second;
  } else {
    verbs::DeviceDescription description;
    const NdkStatus status = verbs::DescribeDevice(context.get(), &description);
    if (status != NdkStatus::kSuccess) {
      found.unusable_reason = "it cannot be asked for what it can do: " + std::string(StatusName(status));
      return found;
    }
    found.info = description.info;
  }
  found.unusable_reason = WhyUnusable(context.get(), found);
  return found;
}

}  // namespace

std::vector<FoundDevice> ScanDevices(ScanTask task) {
  std::vector<FoundDevice> devices;
  const std::unique_ptr<ibv_device*, FreeDeviceList> list(::ibv_get_device_list(nullptr));
  if (list == nullptr || *list == nullptr) return devices;
  auto addresses = AddressesByDevice(task.ips);
  for (ibv_device* const* next = list.get(); *next != nullptr; ++next) {
    const auto index = static_cast<uint32_t>(::ibv_get_device_index(*next));
    if (!task.leaving.contains(index)) devices.push_back(Look(*next, task, std::move(addresses[index])));
  }
  return devices;
}

}  // namespace rdmabroker
