// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_FABRIC_IWARP_OPTIONS_H_
#define BROKER_FABRIC_IWARP_OPTIONS_H_

#include <cstddef>

#include "absl/time/time.h"
#include "broker/fabric/handshake_turns.h"

namespace rdmabroker {

// What can be configured of user-space iWARP, with defaults that carry their reasons.
struct IwarpOptions {
  // CRC-32C over each FPDU; in use where either side wants it (RFC 5044, section 4.4). TCP's own sum is weak.
  bool crc = true;
  // How long an accepted socket may take for its MPA request: an initiator sends it right after TCP's handshake, so
  // this is room for two lost segments (1 s and 2 s, RFC 6298) and a slow path.
  absl::Duration request_timeout = absl::Seconds(10);
  // Accepted sockets without a complete MPA request. When there are more, the oldest gives way: one that speaks MPA
  // is through within a round trip. Per listener as many as Linux queues by default (net.core.somaxconn).
  size_t half_open_per_listener = 4096;
  // A quarter of the descriptors that a service may have by default on many systems (65536).
  size_t half_open = 16384;
  // How long a rejected peer may take to close: an early close by this side may reset the stream, and with it the
  // reject's private data. One lost segment and its retransmission on a slow path.
  absl::Duration linger = absl::Seconds(2);
  // How long a connection waits for a former one with the same addresses and ports: while that is open, in which time a
  // client that has ended it has closed its socket; while it ends or is in the kernel's TIME_WAIT (TCP_TIMEWAIT_LEN,
  // include/net/tcp.h). And how often it looks.
  absl::Duration open_wait = absl::Seconds(2);
  absl::Duration time_wait = absl::Seconds(60);
  absl::Duration time_wait_poll = absl::Milliseconds(50);
  HandshakePace handshakes;
};

}  // namespace rdmabroker

#endif  // BROKER_FABRIC_IWARP_OPTIONS_H_
