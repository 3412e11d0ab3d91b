// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CTL_DOCTOR_JUDGE_DEVICE_H_
#define CLIENT_CTL_DOCTOR_JUDGE_DEVICE_H_

#include <string>

#include "client/ctl/doctor/finding.h"
#include "client/ctl/doctor/machine_state.h"

namespace rdmabroker::ctl {

// What a port of the device lacks, or that it lacks nothing.
// A bond's backup slave lacks nothing: it has the bond's addresses as soon as it is the active one.
Findings JudgePort(const KernelDevice& device, const DevicePort& port, const MachineState& machine);

// Why the broker rightly has no use for the device now, which lacks nothing: its interface is a bond's backup slave, or
// leads to another device, which the broker uses. Empty where neither is so.
std::string WhyIdle(const KernelDevice& device, const MachineState& machine);

}  // namespace rdmabroker::ctl

#endif  // CLIENT_CTL_DOCTOR_JUDGE_DEVICE_H_
