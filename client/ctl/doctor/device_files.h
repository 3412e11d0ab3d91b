// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CTL_DOCTOR_DEVICE_FILES_H_
#define CLIENT_CTL_DOCTOR_DEVICE_FILES_H_

#include <filesystem>
#include <vector>

#include "client/ctl/doctor/machine_state.h"

namespace rdmabroker::ctl {

// The kernel's RDMA devices with their ports, as sysfs below this root has them
// (Documentation/ABI/stable/sysfs-class-infiniband); without their files in /dev.
std::vector<KernelDevice> ReadDevices(const std::filesystem::path& root);

}  // namespace rdmabroker::ctl

#endif  // CLIENT_CTL_DOCTOR_DEVICE_FILES_H_
