// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CTL_DOCTOR_FINDING_H_
#define CLIENT_CTL_DOCTOR_FINDING_H_

#include <string>
#include <vector>

namespace rdmabroker::ctl {

enum class Severity {
  kOk,
  kNote,     // Works, but not as far as it could.
  kProblem,  // Something cannot work.
};

// What was found about one thing.
struct Finding {
  std::string what;
  Severity severity = Severity::kOk;
  std::string meaning;
  // For bash on Debian 12, as root but for ulimit. Words in capitals are the reader's to replace. Empty where no
  // command mends it.
  std::string command;

  bool operator==(const Finding&) const = default;
};

using Findings = std::vector<Finding>;

}  // namespace rdmabroker::ctl

#endif  // CLIENT_CTL_DOCTOR_FINDING_H_
