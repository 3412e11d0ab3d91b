// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_CALLER_H_
#define BROKER_CONTROL_CALLER_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "broker/core/messages.h"

namespace rdmabroker {

// Who may see and end other users' sessions: root, the daemon's own user, and one group.
struct Administrators {
  uid_t daemon_uid = 0;
  std::optional<gid_t> group;
};

// Who is at the other end of one connection to the control socket, from the kernel.
struct Caller {
  uint64_t connection = 0;  // SO_COOKIE: one socket, and no other while the system runs.
  Identity identity;
  bool administrator = false;
};

// Reads SO_PEERCRED and SO_PEERGROUPS of a connected Unix socket. Nothing where the kernel will not tell.
std::optional<Caller> CallerOf(int fd, const Administrators& administrators);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_CALLER_H_
