// SPDX-License-Identifier: Apache-2.0

#include "broker/fabric/iwarp/testing/raw_peer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "dataplane/ndk/kernel_address.h"

namespace rdmabroker {
namespace {

UniqueFd NewSocket(IpFamily family) {
  UniqueFd socket(::socket(family == IpFamily::kIpv4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_TRUE(socket) << std::strerror(errno);
  return socket;
}

void BindTo(int socket, const SocketAddress& address) {
  KernelAddress kernel = ToKernel(address);
  EXPECT_EQ(::bind(socket, kernel.get(), kernel.length), 0) << std::strerror(errno);
}

RawPeer Connected(UniqueFd socket, const SocketAddress& listener) {
  KernelAddress kernel = ToKernel(listener);
  EXPECT_EQ(::connect(socket.get(), kernel.get(), kernel.length), 0) << std::strerror(errno);
  return RawPeer(std::move(socket));
}

void SetLinger(int socket) {
  const linger now = {.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

}  // namespace

IpAddress LoopbackOf(IpFamily family) { return *IpAddress::Parse(family == IpFamily::kIpv4 ? "127.0.0.1" : "::1"); }

int SocketBetween(const SocketAddress& local, const SocketAddress& peer) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::atoi(entry.path().filename().c_str());
    KernelAddress its, peers;
    if (::getsockname(fd, its.get(), &its.length) != 0 || ::getpeername(fd, peers.get(), &peers.length) != 0) continue;
    if (FromKernel(its) == local && FromKernel(peers) == peer) return fd;
  }
  return -1;
}

int OptionOf(int socket, int level, int option) {
  int value = 0;
  socklen_t length = sizeof value;
  EXPECT_EQ(::getsockopt(socket, level, option, &value, &length), 0) << std::strerror(errno);
  return value;
}

RawPeer RawPeer::ConnectTo(const SocketAddress& listener) { return Connected(NewSocket(listener.ip.family), listener); }

RawPeer RawPeer::ConnectFrom(const SocketAddress& local, const SocketAddress& listener) {
  UniqueFd socket = NewSocket(local.ip.family);
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  BindTo(socket.get(), local);
  return Connected(std::move(socket), listener);
}

void RawPeer::Send(std::string_view bytes) {
  EXPECT_EQ(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()))
      << std::strerror(errno);
}

void RawPeer::ShutDown() { EXPECT_EQ(::shutdown(socket_.get(), SHUT_WR), 0) << std::strerror(errno); }

void RawPeer::Close() { socket_.Reset(); }

void RawPeer::Reset() {
  SetLinger(socket_.get());
  socket_.Reset();
}

void RawPeer::Poll() {
  char buffer[4096];
  while (end_ == End::kNone) {
    const ssize_t count = ::recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN) return;
    if (count > 0) received_.append(buffer, static_cast<size_t>(count));
    if (count == 0) end_ = End::kClosed;
    if (count < 0) end_ = End::kReset;
  }
}

RawListener::RawListener(IpFamily family) : socket_(NewSocket(family)) {
  BindTo(socket_.get(), {LoopbackOf(family), 0});
  EXPECT_EQ(::listen(socket_.get(), 16), 0);
  KernelAddress kernel;
  EXPECT_EQ(::getsockname(socket_.get(), kernel.get(), &kernel.length), 0);
  address_ = FromKernel(kernel);
  EXPECT_EQ(::fcntl(socket_.get(), F_SETFL, O_NONBLOCK), 0);
}

bool RawListener::Accept(RawPeer* peer) {
  UniqueFd socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) return false;
  *peer = RawPeer(std::move(socket));
  return true;
}

}  // namespace rdmabroker
