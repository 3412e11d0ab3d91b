// SPDX-License-Identifier: Apache-2.0

#include "dataplane/netlink.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rdmabroker {
namespace {

// What the kernel puts into one message of a dump at most (NLMSG_GOODSIZE, or what the reader offers up to 32 KiB).
constexpr size_t kMessageLength = 32 * 1024;

// Reads the answer to its end. 0, or an errno of the socket, with which more of it may be on its way.
int Receive(int netlink, int* answer, const std::function<void(const void*, int)>& on_message) {
  std::vector<char> buffer(kMessageLength);
  bool interrupted = false;
  while (true) {
    // The kernel has each part ready when it is asked for, so this does not wait.
    const ssize_t received = ::recv(netlink, buffer.data(), buffer.size(), 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return received < 0 ? errno : EPROTO;
    auto left = static_cast<uint32_t>(received);
    for (const auto* header = reinterpret_cast<const nlmsghdr*>(buffer.data()); NLMSG_OK(header, left);
         header = NLMSG_NEXT(header, left)) {
      interrupted |= (header->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
      if (header->nlmsg_type == NLMSG_DONE) {
        // A list that was broken off says so at its end.
        if (NLMSG_PAYLOAD(header, 0) >= sizeof *answer) *answer = -*static_cast<const int*>(NLMSG_DATA(header));
        if (*answer == 0 && interrupted) *answer = EINTR;
        return 0;
      }
      if (header->nlmsg_type == NLMSG_ERROR) {
        *answer = -static_cast<const nlmsgerr*>(NLMSG_DATA(header))->error;
        return 0;
      }
      on_message(NLMSG_DATA(header), static_cast<int>(NLMSG_PAYLOAD(header, 0)));
    }
  }
}

}  // namespace

int AskNetlink(int protocol, std::span<const char> request, UniqueFd* socket,
               const std::function<void(const void* first, int length)>& on_message) {
  if (!*socket) socket->Reset(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol));
  if (!*socket) return errno;
  int answer = 0;
  const bool sent = ::send(socket->get(), request.data(), request.size(), 0) >= 0;
  const int error = sent ? Receive(socket->get(), &answer, on_message) : errno;
  if (error == 0) return answer;
  socket->Reset();
  return error;
}

}  // namespace rdmabroker
