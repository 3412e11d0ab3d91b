// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_DEVICE_DEVICE_NAME_H_
#define DATAPLANE_VERBS_DEVICE_DEVICE_NAME_H_

#include <cstdint>
#include <optional>
#include <string>

struct ibv_device;

namespace rdmabroker::verbs {

// Names of the kernel's devices, by RDMA netlink (RDMA_NLDEV_CMD_GET). An administrator or udev may rename a device,
// whose index, ibv_get_device_index(3)'s, stays. From any thread.

// The name that a device has now. 0, or an errno: EINVAL where there is no such device any more.
int ReadDeviceName(uint32_t index, std::string* name);

// The same of one of libibverbs' list. libibverbs itself goes on telling the name that the device had when this process
// first listed it (same_sysfs_dev in rdma-core's libibverbs/init.c). After an error *name is that.
int ReadDeviceName(ibv_device* device, std::string* name);

// Nothing where no device has the name, or the kernel does not tell.
std::optional<uint32_t> FindDeviceIndex(const std::string& name);

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_DEVICE_DEVICE_NAME_H_
