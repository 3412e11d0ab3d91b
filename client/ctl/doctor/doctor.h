// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CTL_DOCTOR_DOCTOR_H_
#define CLIENT_CTL_DOCTOR_DOCTOR_H_

#include <string>

#include "client/ctl/doctor/finding.h"
#include "client/ctl/output.h"

namespace rdmabroker::ctl {

// Looks at this machine and at the broker on that control socket, and changes nothing. Needs no privileges; what it
// says of rights is the caller's. The path must be one that client::SocketPathProblem finds nothing wrong with.
Findings Examine(const std::string& control_socket);

// A line for each finding; JSON, and YAML likewise, is {"findings": [{"what", "state", "meaning", "command"}]}, where
// "state" is "ok", "note" or "problem", and "command" is empty where no command mends it.
std::string ShowFindings(const Findings& findings, OutputForm form);

bool HasProblem(const Findings& findings);

}  // namespace rdmabroker::ctl

#endif  // CLIENT_CTL_DOCTOR_DOCTOR_H_
