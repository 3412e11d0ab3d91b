// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_LISTENING_SOCKET_H_
#define BROKER_CONTROL_LISTENING_SOCKET_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "broker/runtime/descriptor_keep.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// A Unix socket that the broker listens on.
struct ListeningSocket {
  std::string path;
  int type = 0;  // SOCK_STREAM, SOCK_SEQPACKET.
  mode_t mode = 0;
  std::optional<gid_t> group;  // None: the process's own.
};

// Makes the socket, listening. One that nobody listens on any more is replaced. ALREADY_EXISTS where a live process
// listens on it; UNAVAILABLE where another process holds a lock (flock(2)) on the folder, by which those that start at
// once take turns; else what the system said. All with the path.
absl::StatusOr<UniqueFd> ListenOnUnixSocket(const ListeningSocket& wanted);

// The listening sockets that outlive processes, with those who connect meanwhile: what the supervisor has made itself,
// named "socket" (FileDescriptorName= of systemd.socket(5)), and what a process has made and kept as "socket.NAME".
class KeptSockets {
 public:
  // `keep` outlives it.
  explicit KeptSockets(DescriptorKeep& keep) : keep_(keep), inherited_(keep.Take("socket")) {}
  KeptSockets(const KeptSockets&) = delete;
  KeptSockets& operator=(const KeptSockets&) = delete;

  // The one of that path, or a new one, which is kept. Errors as those of ListenOnUnixSocket.
  absl::StatusOr<UniqueFd> Listen(const ListeningSocket& wanted, const std::string& name);
  // What is inherited and nobody has listened on is closed, and kept no longer.
  void ForgetTheRest() { Forget(""); }

 private:
  // Those that are kept under that name; all where it is empty.
  void Forget(const std::string& kept_name);

  DescriptorKeep& keep_;
  std::vector<KeptDescriptor> inherited_;
};

// The name of a socket that this process listens on: takes it away in the end, unless it is another's by then.
class SocketName {
 public:
  explicit SocketName(std::string path);
  ~SocketName();
  SocketName(const SocketName&) = delete;
  SocketName& operator=(const SocketName&) = delete;

 private:
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_LISTENING_SOCKET_H_
