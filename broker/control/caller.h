// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_CALLER_H_
#define BROKER_CONTROL_CALLER_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "broker/core/messages.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker {

// Who may see and end other users' sessions: the daemon's own user, one group, and root.
struct Administrators {
  uid_t daemon_uid = 0;
  std::optional<gid_t> group;
  bool root = true;  // Not where root is whoever has started a container.
};

// The user of a caller that is on another machine: (uid_t)-1, whom no process has.
inline constexpr uint32_t kNoUser = 0xFFFFFFFF;

// The uid that the kernel reports for every user whom the daemon's user namespace does not know
// (/proc/sys/kernel/overflowuid; 65534 if that cannot be read). Several users share it.
uint32_t OverflowUid();

// Who is at the other end of one connection: to the control socket, from the kernel; to the TCP port, from the
// certificate.
struct Caller {
  uint64_t connection = 0;    // SO_COOKIE: one socket, and no other while the system runs. 0 over TCP.
  Identity identity;          // Over TCP kNoUser, and no group or process.
  std::vector<gid_t> groups;  // The supplementary ones, as far as the kernel tells.
  bool administrator = false;
  bool inspector = false;         // Sees every user's sessions, as administrators do.
  std::string spiffe_id;          // Over TCP, and never empty there; on the control socket empty.
  std::optional<IpAddress> peer;  // Where he is, over TCP.

  // Has no session.
  bool IsRemote() const { return !spiffe_id.empty(); }
  // Whether `owner` is the caller's own user; of a caller with the overflow uid, its own process.
  bool IsUserOf(const Identity& owner) const {
    if (IsRemote() || owner.uid != identity.uid) return false;
    return identity.uid != OverflowUid() || (owner.pid == identity.pid && owner.pid != 0);
  }
};

// The process at the other end of a connected Unix socket (SO_PEERCRED). Nothing where the kernel will not tell.
std::optional<Identity> PeerOf(int fd);
// The same, with the groups and what else there is to know.
std::optional<Caller> CallerOf(int fd, const Administrators& administrators);

// Names him for people: "uid:" and the number, or the SPIFFE id.
std::string WhoIs(const Caller& caller);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_CALLER_H_
