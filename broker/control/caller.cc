// SPDX-License-Identifier: Apache-2.0

#include "broker/control/caller.h"

#include <sys/socket.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace rdmabroker {
namespace {

// More supplementary groups than a process can have (NGROUPS_MAX, limits.h of Linux).
constexpr size_t kMaxGroups = 65536;

std::vector<gid_t> GroupsOf(int fd) {
  std::vector<gid_t> groups(64);
  socklen_t length = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
  while (::getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &length) != 0) {
    // The length that is needed has been written.
    if (errno != ERANGE || length / sizeof(gid_t) > kMaxGroups) return {};
    groups.resize(length / sizeof(gid_t));
  }
  groups.resize(length / sizeof(gid_t));
  return groups;
}

uint32_t ReadOverflowUid() {
  std::ifstream file("/proc/sys/kernel/overflowuid");
  uint32_t uid = 0;
  return file >> uid ? uid : 65534;
}

}  // namespace

uint32_t OverflowUid() {
  static const uint32_t kUid = ReadOverflowUid();
  return kUid;
}

std::optional<Identity> PeerOf(int fd) {
  ucred credentials = {};
  socklen_t length = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return std::nullopt;
  return Identity{credentials.uid, credentials.gid, credentials.pid};
}

std::optional<Caller> CallerOf(int fd, const Administrators& administrators) {
  const std::optional<Identity> peer = PeerOf(fd);
  if (!peer) return std::nullopt;
  Caller caller;
  socklen_t length = sizeof caller.connection;
  if (::getsockopt(fd, SOL_SOCKET, SO_COOKIE, &caller.connection, &length) != 0) return std::nullopt;
  caller.identity = *peer;
  caller.groups = GroupsOf(fd);
  const auto is_member = [&](gid_t group) {
    return peer->gid == group || std::find(caller.groups.begin(), caller.groups.end(), group) != caller.groups.end();
  };
  caller.administrator = (administrators.root && peer->uid == 0) ||
                         (peer->uid == administrators.daemon_uid && peer->uid != OverflowUid()) ||
                         (administrators.group && is_member(*administrators.group));
  return caller;
}

std::string WhoIs(const Caller& caller) {
  return caller.IsRemote() ? caller.spiffe_id : absl::StrCat("uid:", caller.identity.uid);
}

}  // namespace rdmabroker
