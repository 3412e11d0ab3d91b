// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CTL_DOCTOR_JUDGE_H_
#define CLIENT_CTL_DOCTOR_JUDGE_H_

#include "client/ctl/doctor/finding.h"
#include "client/ctl/doctor/machine_state.h"

namespace rdmabroker::ctl {

// What a broker and its clients miss on this machine, and what they have. The same machine gives the same findings, in
// the order in which they are best mended.
Findings Judge(const MachineState& machine);

}  // namespace rdmabroker::ctl

#endif  // CLIENT_CTL_DOCTOR_JUDGE_H_
