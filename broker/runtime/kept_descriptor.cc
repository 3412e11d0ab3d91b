// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/kept_descriptor.h"

#include <linux/kcmp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace rdmabroker {

bool IsDescriptorName(std::string_view name) {
  return name.size() <= kMaxDescriptorName &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c < 127 && c != ':'; });
}

bool AreSameFile(int a, int b) {
  const pid_t self = ::getpid();
  const long order = ::syscall(SYS_kcmp, self, self, KCMP_FILE, a, b);  // 0: the same.
  if (order >= 0) return order == 0;
  struct stat first = {};
  struct stat second = {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && S_ISSOCK(first.st_mode) &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace rdmabroker
