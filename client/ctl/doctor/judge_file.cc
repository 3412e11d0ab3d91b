// SPDX-License-Identifier: Apache-2.0

#include "client/ctl/doctor/judge_file.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

namespace rdmabroker::ctl {
namespace {

std::string Permissions(uint32_t mode) {
  const char digits[] = {'0', static_cast<char>('0' + (mode >> 6 & 7)), static_cast<char>('0' + (mode >> 3 & 7)),
                         static_cast<char>('0' + (mode & 7))};
  return std::string(digits, sizeof digits);
}

// The kernel makes these files for everybody: ib_uverbs and rdma_ucm both name 0666 (uverbs_main.c, ucma.c).
std::string MakeNode(const UsedFile& file) {
  std::string numbers = file.number;
  std::replace(numbers.begin(), numbers.end(), ':', ' ');
  return "mkdir -p /dev/infiniband && mknod -m 0666 " + ShellWord(file.path) + " c " + numbers;
}

}  // namespace

std::string ShellWord(std::string_view word) {
  const bool harmless = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::strchr("-_./:@%+", c) != nullptr;
  });
  if (harmless) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

bool IsForItsGroup(const UsedFile& file, uint32_t permissions) {
  return (file.mode & permissions) == permissions && file.group != "root";
}

std::string JoinCommand(const std::string& group, const std::string& user) {
  return "usermod --append --groups " + ShellWord(group) + " " + ShellWord(user);
}

Finding JudgeDeviceFile(const UsedFile& file, const std::string& user) {
  const std::string is = "is " + file.owner + ":" + file.group + " " + Permissions(file.mode);
  switch (file.error) {
    case 0:
      return {file.path, Severity::kOk, "can be opened; it " + is, ""};
    case ENOENT:
      return {file.path, Severity::kProblem,
              "the kernel has the device, but its file is not there; in a container, start that with "
              "--device=/dev/infiniband",
              MakeNode(file)};
    case EACCES:
      return {file.path, Severity::kProblem,
              user + " may not open it, as it " + is +
                  "; a new group counts from the next login, a mode until udev makes the file anew",
              IsForItsGroup(file) ? JoinCommand(file.group, user) : "chmod 0666 " + ShellWord(file.path)};
    case EPERM:
      return {file.path, Severity::kProblem,
              "the container's list of devices forbids to open it; start the container with --device=" + file.path, ""};
    default:
      return {file.path, Severity::kProblem,
              std::string("cannot be opened: ") + std::strerror(file.error) + "; the kernel's log may say why",
              "dmesg | tail"};
  }
}

}  // namespace rdmabroker::ctl
