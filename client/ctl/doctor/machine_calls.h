// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CTL_DOCTOR_MACHINE_CALLS_H_
#define CLIENT_CTL_DOCTOR_MACHINE_CALLS_H_

#include <string>

#include "client/ctl/doctor/machine_state.h"

namespace rdmabroker::ctl {

// Adds what no file of ReadMachineFiles tells: the caller, the interfaces' addresses, and which devices libibverbs can
// drive. Does not ask libibverbs where ib_uverbs is not loaded, as that would have the kernel load it.
void AskKernel(MachineState* machine);

// Asks the broker on that control socket, and waits for it for a while. The path must be one that
// client::SocketPathProblem finds nothing wrong with.
BrokerState AskBroker(const std::string& control_socket);

}  // namespace rdmabroker::ctl

#endif  // CLIENT_CTL_DOCTOR_MACHINE_CALLS_H_
