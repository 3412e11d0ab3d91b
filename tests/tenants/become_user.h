// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_TENANTS_BECOME_USER_H_
#define TESTS_TENANTS_BECOME_USER_H_

#include <grp.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace rdmabroker::tenants {

// Makes root's process that of an ordinary user. Call it while the process has one thread. Where that fails, the
// process ends.
inline void BecomeUser(uid_t uid) {
  if (::setgroups(0, nullptr) == 0 && ::setresgid(uid, uid, uid) == 0 && ::setresuid(uid, uid, uid) == 0) return;
  std::perror("becoming another user");
  std::_Exit(1);
}

}  // namespace rdmabroker::tenants

#endif  // TESTS_TENANTS_BECOME_USER_H_
