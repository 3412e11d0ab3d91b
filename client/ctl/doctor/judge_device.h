// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CTL_DOCTOR_JUDGE_DEVICE_H_
#define CLIENT_CTL_DOCTOR_JUDGE_DEVICE_H_

#include "client/ctl/doctor/finding.h"
#include "client/ctl/doctor/machine_state.h"

namespace rdmabroker::ctl {

// What a port of the device lacks, or that it lacks nothing.
Findings JudgePort(const KernelDevice& device, const DevicePort& port, const MachineState& machine);

}  // namespace rdmabroker::ctl

#endif  // CLIENT_CTL_DOCTOR_JUDGE_DEVICE_H_
