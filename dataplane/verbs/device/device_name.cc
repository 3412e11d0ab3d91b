// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/device/device_name.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_netlink.h>
#include <unistd.h>

#include <utility>

#include "dataplane/verbs/device/rdma_message.h"
#include "dataplane/verbs/device/rdma_netlink.h"

namespace rdmabroker::verbs {

int ReadDeviceName(uint32_t index, std::string* name) {
  return AskRdmaNetlink(RDMA_NLDEV_CMD_GET, {{RDMA_NLDEV_ATTR_DEV_INDEX, index}}, false,
                        [name](const void* first, int length) {
                          if (auto device = ParseDevice(first, length); device.name) *name = *std::move(device.name);
                        });
}

int ReadDeviceName(ibv_device* device, std::string* name) {
  *name = ::ibv_get_device_name(device);
  const int index = ::ibv_get_device_index(device);
  // Below 0: libibverbs has not got the device by netlink, which this kernel does not have.
  return index < 0 ? 0 : ReadDeviceName(static_cast<uint32_t>(index), name);
}

std::optional<uint32_t> FindDeviceIndex(const std::string& name) {
  // Asking has the kernel look for a module where it has no RDMA.
  if (::access("/sys/class/infiniband", F_OK) != 0) return std::nullopt;
  std::optional<uint32_t> found;
  AskRdmaNetlink(RDMA_NLDEV_CMD_GET, {}, true, [&](const void* first, int length) {
    const DeviceMessage device = ParseDevice(first, length);
    if (device.name == name && device.index) found = device.index;
  });
  return found;
}

}  // namespace rdmabroker::verbs
