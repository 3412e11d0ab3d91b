// SPDX-License-Identifier: Apache-2.0

#include "dataplane/netlink.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <vector>

#include "dataplane/netlink_answer.h"

namespace rdmabroker {
namespace {

// What the kernel puts into one message of a dump at most (NLMSG_GOODSIZE, or what the reader offers up to 32 KiB).
constexpr size_t kMessageLength = 32 * 1024;

// Reads the answer to its end. 0, or an errno of the socket, with which more of it may be on its way.
int Receive(int netlink, NetlinkAnswer* answer, const std::function<void(const void*, int)>& on_message) {
  std::vector<char> buffer(kMessageLength);
  while (true) {
    // The kernel has each part ready when it is asked for, so this does not wait.
    const ssize_t received = ::recv(netlink, buffer.data(), buffer.size(), 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return received < 0 ? errno : EPROTO;
    switch (answer->Take(std::span(buffer).first(static_cast<size_t>(received)), on_message)) {
      case NetlinkAnswer::Progress::kMore:
        break;
      case NetlinkAnswer::Progress::kOver:
        return 0;
      case NetlinkAnswer::Progress::kMalformed:
        return EPROTO;
    }
  }
}

}  // namespace

int AskNetlink(int protocol, std::span<const char> request, UniqueFd* socket,
               const std::function<void(const void* first, int length)>& on_message) {
  if (!*socket) socket->Reset(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol));
  if (!*socket) return errno;
  NetlinkAnswer answer;
  const bool sent = ::send(socket->get(), request.data(), request.size(), 0) >= 0;
  const int error = sent ? Receive(socket->get(), &answer, on_message) : errno;
  if (error == 0) return answer.error();
  socket->Reset();
  return error;
}

}  // namespace rdmabroker
