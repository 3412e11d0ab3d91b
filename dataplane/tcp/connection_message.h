// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_TCP_CONNECTION_MESSAGE_H_
#define DATAPLANE_TCP_CONNECTION_MESSAGE_H_

#include <cstdint>
#include <optional>

#include "dataplane/tcp/tcp_state.h"

struct tcp_info;  // linux/tcp.h's

namespace rdmabroker::tcp {

TcpState StateFrom(const tcp_info& info);

// Of a message in the kernel's answer to a question about one connection (sock_diag(7)): what it says of the connection
// to that port of the peer's. Where there is none, it may be about a socket that listens. No I/O.
std::optional<TcpState> ParseConnectionMessage(const void* first, int length, uint16_t peer_port);

}  // namespace rdmabroker::tcp

#endif  // DATAPLANE_TCP_CONNECTION_MESSAGE_H_
