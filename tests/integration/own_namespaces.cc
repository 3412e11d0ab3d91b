// SPDX-License-Identifier: Apache-2.0

#include "tests/integration/own_namespaces.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "dataplane/unique_fd.h"
#include "tests/control/temporary_folder.h"
#include "tests/integration/interface.h"

namespace rdmabroker {
namespace {

bool own_temporary_files = false;

constexpr int kNamespaces = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWIPC;

bool Write(const char* path, const std::string& text) {
  const UniqueFd file(::open(path, O_WRONLY | O_CLOEXEC));
  return ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// For who is not root: root of a user namespace with nobody else in it.
bool BecomeRoot() {
  const std::string uid = std::to_string(::geteuid());
  const std::string gid = std::to_string(::getegid());
  return ::unshare(CLONE_NEWUSER) == 0 && Write("/proc/self/uid_map", "0 " + uid + " 1") &&
         Write("/proc/self/setgroups", "deny") && Write("/proc/self/gid_map", "0 " + gid + " 1");
}

// /tmp stays as it is: a clone may lie below it, with files that tests read by their paths.
bool TakeSharedMemory() {
  constexpr char kPlace[] = "/dev/shm";
  if (::mount("tmpfs", kPlace, "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") != 0) return false;
  TemporaryFolder::MakeIn(kPlace);
  return ::setenv("TMPDIR", kPlace, 1) == 0;
}

std::string Enter() {
  const auto problem = [](const char* what) { return std::string(what) + ": " + std::strerror(errno); };
  if (::unshare(kNamespaces) != 0 && !(BecomeRoot() && ::unshare(kNamespaces) == 0)) {
    return problem("needs the right to make namespaces");
  }
  // The mounts are to be seen by nobody else. EINVAL: the root is that of a chroot, and no mount.
  own_temporary_files = ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  if (!own_temporary_files && errno != EINVAL) return problem("cannot make mounts private");
  if (own_temporary_files && !TakeSharedMemory()) return problem("cannot mount");
  if (!RaiseInterface("lo")) return problem("cannot raise the loopback interface");
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return problem("cannot adopt orphans");
  return "";
}

}  // namespace

const std::string& EnterOwnNamespaces() {
  static const auto* const kProblem = new std::string(Enter());
  return *kProblem;
}

bool HasOwnTemporaryFiles() { return own_temporary_files; }

}  // namespace rdmabroker
