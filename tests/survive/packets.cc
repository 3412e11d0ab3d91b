// SPDX-License-Identifier: Apache-2.0

#include "tests/survive/packets.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>

namespace rdmabroker {
namespace {

// Far more than private data and a device's description take.
constexpr size_t kLargest = 65536;

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address = {.sun_family = AF_UNIX};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

UniqueFd NewSocket() { return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); }

}  // namespace

ReceivedPacket ReceivePacket(int socket, int flags) {
  ReceivedPacket packet = {.bytes = std::string(kLargest, '\0')};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec part = {packet.bytes.data(), packet.bytes.size()};
  msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  const ssize_t length = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
  packet.bytes.resize(static_cast<size_t>(std::max<ssize_t>(length, 0)));
  if (const cmsghdr* header = length > 0 ? CMSG_FIRSTHDR(&message) : nullptr; header != nullptr) {
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    packet.descriptor.Reset(descriptor);
  }
  return packet;
}

UniqueFd ListenAt(const std::string& path) {
  UniqueFd socket = NewSocket();
  const sockaddr_un address = AddressOf(path);
  const bool listens = ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                       ::listen(socket.get(), 1) == 0;
  return listens ? std::move(socket) : UniqueFd();
}

UniqueFd ConnectTo(const std::string& path) {
  UniqueFd socket = NewSocket();
  const sockaddr_un address = AddressOf(path);
  const bool connected = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  return connected ? std::move(socket) : UniqueFd();
}

}  // namespace rdmabroker
