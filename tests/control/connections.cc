// SPDX-License-Identifier: Apache-2.0

#include "tests/control/connections.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "dataplane/ndk/socket_address.h"

namespace rdmabroker {
namespace {

UniqueFd ConnectTo(const std::string& path, int type) {
  sockaddr_un address = {.sun_family = AF_UNIX};
  std::memcpy(address.sun_path, path.c_str(), std::min(path.size() + 1, sizeof address.sun_path));
  UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return UniqueFd();
  return fd;
}

}  // namespace

UniqueFd ConnectAs(uid_t uid, gid_t gid, const std::string& path, int type) {
  UniqueFd fd;
  int error = 0;
  // The kernel knows credentials of threads; only the C library gives all threads the same.
  std::thread([&] {
    const bool own = uid == ::getuid() && gid == ::getgid();
    if (!own && (::syscall(SYS_setgroups, 0, nullptr) != 0 || ::syscall(SYS_setresgid, gid, gid, gid) != 0 ||
                 ::syscall(SYS_setresuid, uid, uid, uid) != 0)) {
      error = errno;
      return;
    }
    fd = ConnectTo(path, type);
    error = errno;
  }).join();
  errno = error;
  return fd;
}

UniqueFd ConnectFrom(const char* host, const std::string& address) {
  sockaddr_in from = {.sin_family = AF_INET};
  sockaddr_in to = {.sin_family = AF_INET,
                    .sin_port = htons(SocketAddress::Parse(address)->port),
                    .sin_addr = {htonl(INADDR_LOOPBACK)}};
  ::inet_pton(AF_INET, host, &from.sin_addr);
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from), 0);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  return fd;
}

bool IsOver(const UniqueFd& connection) {
  char octet = 0;
  const ssize_t size = ::recv(connection.get(), &octet, 1, MSG_DONTWAIT);
  return size == 0 || (size < 0 && errno == ECONNRESET);
}

}  // namespace rdmabroker
