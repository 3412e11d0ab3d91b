// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CTL_DOCTOR_MACHINE_FILES_H_
#define CLIENT_CTL_DOCTOR_MACHINE_FILES_H_

#include <filesystem>
#include <string>

#include "client/ctl/doctor/machine_state.h"

namespace rdmabroker::ctl {

// What /sys, /proc and /dev tell below this folder; "/" is the machine's. Changes nothing. Opens the devices' files for
// a moment each, as only that shows what a container forbids. A file that is missing or makes no sense leaves its field
// as it is by default. Addresses, the library's devices, the caller and the broker are in no file.
MachineState ReadMachineFiles(const std::filesystem::path& root);

// The file as it is, without a try to use it: `error` is only set where it cannot be looked at.
UsedFile LookAt(const std::filesystem::path& root, const std::string& path);

}  // namespace rdmabroker::ctl

#endif  // CLIENT_CTL_DOCTOR_MACHINE_FILES_H_
