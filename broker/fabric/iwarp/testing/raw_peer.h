// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_IWARP_TESTING_RAW_PEER_H_
#define BROKER_FABRIC_IWARP_TESTING_RAW_PEER_H_

#include <string>
#include <string_view>

#include "dataplane/ndk/socket_address.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// A TCP socket of another program: not of this fabric, and with no opinion of what it sends. Never blocks. Failing
// calls fail the test.
class RawPeer {
 public:
  enum class End { kNone, kClosed, kReset };

  RawPeer() = default;
  explicit RawPeer(UniqueFd socket) : socket_(std::move(socket)) {}

  // Connects to a listener; the kernel does its part at once, over loopback.
  static RawPeer ConnectTo(const SocketAddress& listener);
  // Bound to `local` with SO_REUSEADDR and SO_REUSEPORT, as the connections of a former broker are.
  static RawPeer ConnectFrom(const SocketAddress& local, const SocketAddress& listener);

  void Send(std::string_view bytes);
  void ShutDown();  // A FIN: nothing more comes from this side.
  void Close();     // Also a FIN, or a reset where something is unread.
  void Reset();

  // Takes what has come. received() is all of it so far.
  void Poll();
  const std::string& received() const { return received_; }
  End end() const { return end_; }
  int fd() const { return socket_.get(); }

 private:
  UniqueFd socket_;
  std::string received_;
  End end_ = End::kNone;
};

// The listening socket of another program, on an address that the kernel picks.
class RawListener {
 public:
  explicit RawListener(IpFamily family);
  const SocketAddress& address() const { return address_; }
  // False if nobody has connected yet.
  bool Accept(RawPeer* peer);

 private:
  UniqueFd socket_;
  SocketAddress address_;
};

IpAddress LoopbackOf(IpFamily family);

// Returns this process's socket that connects these addresses, or -1.
int SocketBetween(const SocketAddress& local, const SocketAddress& peer);
// Returns the value of a socket's option.
int OptionOf(int socket, int level, int option);

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_IWARP_TESTING_RAW_PEER_H_
