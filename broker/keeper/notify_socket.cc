// SPDX-License-Identifier: Apache-2.0

#include "broker/keeper/notify_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>

#include "absl/status/status.h"
#include "broker/keeper/notification.h"

namespace rdmabroker::keeper {
namespace {

// As many as one message can carry: SCM_MAX_FD, scm.h of Linux.
constexpr size_t kMaxDescriptors = 253;

absl::Status SocketError(const char* what) {
  return absl::ErrnoToStatus(errno, std::string("the notify socket: cannot ") + what);
}

// The descriptors are owned from here on, whatever becomes of the message.
void TakeControl(msghdr& header, Datagram* datagram) {
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr; control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level != SOL_SOCKET) continue;
    const size_t length = control->cmsg_len - CMSG_LEN(0);
    if (control->cmsg_type == SCM_CREDENTIALS && length == sizeof(ucred)) {
      ucred credentials = {};
      std::memcpy(&credentials, CMSG_DATA(control), sizeof credentials);
      datagram->sender = credentials.pid;
    } else if (control->cmsg_type == SCM_RIGHTS) {
      std::vector<int> numbers(length / sizeof(int));
      std::memcpy(numbers.data(), CMSG_DATA(control), numbers.size() * sizeof(int));
      for (const int number : numbers) datagram->descriptors.emplace_back(number);
    }
  }
}

// Nothing: there is none.
std::optional<Datagram> Receive(int fd) {
  std::array<char, kMaxNotification> text;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int)) + CMSG_SPACE(sizeof(ucred))> control;
  iovec part = {text.data(), text.size()};
  msghdr header = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.data(), .msg_controllen = control.size()};
  const ssize_t length = ::recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (length < 0) return std::nullopt;
  Datagram datagram;
  TakeControl(header, &datagram);
  datagram.text.assign(text.data(), static_cast<size_t>(length));
  datagram.whole = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  return datagram;
}

}  // namespace

absl::StatusOr<NotifySocket> NotifySocket::Open() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return SocketError("make it");
  // Before it has a name, so that no message comes without its sender's credentials.
  const int on = 1;
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) return SocketError("ask for credentials");
  sockaddr_un address = {.sun_family = AF_UNIX};
  // Without a name the kernel makes one: a zero byte and hexadecimal digits (unix(7)).
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address.sun_family) != 0) {
    return SocketError("name it");
  }
  socklen_t length = sizeof address;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return SocketError("ask its name");
  const size_t name_length = length - offsetof(sockaddr_un, sun_path);
  return NotifySocket(std::move(fd), "@" + std::string(address.sun_path + 1, name_length - 1));
}

void NotifySocket::Drain(int most, const std::function<void(Datagram)>& handle) {
  for (int i = 0; i < most; ++i) {
    std::optional<Datagram> datagram = Receive(fd_.get());
    if (!datagram) return;
    handle(*std::move(datagram));
  }
}

}  // namespace rdmabroker::keeper
