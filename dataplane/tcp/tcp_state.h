// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_TCP_TCP_STATE_H_
#define DATAPLANE_TCP_TCP_STATE_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "dataplane/ndk/socket_address.h"

namespace rdmabroker::tcp {

// What the kernel's TCP knows of a connection.
struct TcpState {
  bool open = false;                        // Established, and this side has not ended it.
  bool closed = false;                      // The connection is over; an error of the socket's tells why.
  std::chrono::milliseconds silence{0};     // Since anything came from the peer's TCP.
  std::chrono::milliseconds since_sent{0};  // Since data was sent, or sent again.
  bool unacknowledged = false;              // Some of it is.
  bool unsent = false;                      // Something waits to be sent: alone, it is the peer who takes no more.
  uint32_t unanswered = 0;                  // Probes, of a silent peer or of one that takes no more.
};

// Nothing where the socket is not TCP's.
std::optional<TcpState> ReadTcpState(int socket);

// Of a connection whose socket somebody else has, or the kernel itself (sock_diag(7)). 0, or an errno: ENOENT where the
// network namespace of the calling thread has no such connection, or the kernel shows none; others may pass, but for a
// process that may not open netlink sockets. From any thread.
int FindTcpState(const SocketAddress& local, const SocketAddress& peer, TcpState* state);

}  // namespace rdmabroker::tcp

#endif  // DATAPLANE_TCP_TCP_STATE_H_
