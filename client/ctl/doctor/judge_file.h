// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CTL_DOCTOR_JUDGE_FILE_H_
#define CLIENT_CTL_DOCTOR_JUDGE_FILE_H_

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "client/ctl/doctor/finding.h"
#include "client/ctl/doctor/machine_state.h"

namespace rdmabroker::ctl {

// The word as bash reads it: in quotes where it has more than letters, digits and what is harmless.
std::string ShellWord(std::string_view word);

// Whether the user can open a device's file for reading and writing.
Finding JudgeDeviceFile(const UsedFile& file, const std::string& user);

// Whether the file's group has these permissions, and is one to put users into.
bool IsForItsGroup(const UsedFile& file, uint32_t permissions = S_IRGRP | S_IWGRP);

// The command that puts the user into the group.
std::string JoinCommand(const std::string& group, const std::string& user);

}  // namespace rdmabroker::ctl

#endif  // CLIENT_CTL_DOCTOR_JUDGE_FILE_H_
