// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/device/device_name.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_netlink.h>
#include <unistd.h>

#include <cstring>

#include "dataplane/netlink.h"
#include "dataplane/verbs/device/rdma_netlink.h"

namespace rdmabroker::verbs {
namespace {

std::string ReadText(const rtattr* attribute) {
  const auto* const text = static_cast<const char*>(RTA_DATA(attribute));
  return {text, ::strnlen(text, RTA_PAYLOAD(attribute))};
}

}  // namespace

int ReadDeviceName(uint32_t index, std::string* name) {
  const auto read = [name](int type, const rtattr* attribute) {
    if (type == RDMA_NLDEV_ATTR_DEV_NAME) *name = ReadText(attribute);
  };
  return AskRdmaNetlink(RDMA_NLDEV_CMD_GET, {{RDMA_NLDEV_ATTR_DEV_INDEX, index}}, false,
                        [&](const void* first, int length) { ForEachAttribute(first, length, read); });
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
    uint32_t index = 0;
    bool named = false;
    ForEachAttribute(first, length, [&](int type, const rtattr* attribute) {
      if (type == RDMA_NLDEV_ATTR_DEV_INDEX) index = ReadNumber(attribute);
      if (type == RDMA_NLDEV_ATTR_DEV_NAME) named = ReadText(attribute) == name;
    });
    if (named) found = index;
  });
  return found;
}

}  // namespace rdmabroker::verbs
