// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_KEEPER_NOTIFY_SOCKET_H_
#define BROKER_KEEPER_NOTIFY_SOCKET_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker::keeper {

// A message as it came. Its descriptors are closed with it.
struct Datagram {
  pid_t sender = 0;  // On the kernel's word. 0: a process that cannot be seen from this pid namespace.
  std::string text;
  std::vector<UniqueFd> descriptors;
  bool whole = false;  // False: it was too long, or not all its descriptors could be received.
};

// The socket that NOTIFY_SOCKET names. Its name is an abstract one that the kernel picks: there is nothing to be left
// behind, it needs no file system that can be written, and whoever writes to it is known by the kernel's word and not
// by having got there. One thread.
class NotifySocket {
 public:
  static absl::StatusOr<NotifySocket> Open();

  int fd() const { return fd_.get(); }
  // As in NOTIFY_SOCKET.
  const std::string& address() const { return address_; }

  // Hands messages over, each once it has come and before the next one is received, which ends a barrier in its turn:
  // until there are no more, but `most` at a time. Does not wait.
  void Drain(int most, const std::function<void(Datagram)>& handle);

 private:
  NotifySocket(UniqueFd fd, std::string address) : fd_(std::move(fd)), address_(std::move(address)) {}

  UniqueFd fd_;
  std::string address_;
};

}  // namespace rdmabroker::keeper

#endif  // BROKER_KEEPER_NOTIFY_SOCKET_H_
