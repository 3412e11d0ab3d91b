// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_LIMITS_H_
#define BROKER_CORE_LIMITS_H_

#include <cstdint>

#include "absl/time/time.h"

namespace rdmabroker {

// How much of the work that can wait is still done in a turn of the loop. The defaults keep what a turn does of each
// kind within some milliseconds.
struct TurnBudget {
  // Objects of ended sessions whose close begins. Each takes some 20 us with what follows.
  uint32_t closes = 64;
  // Acknowledged events, and events and answers of ended sessions, that are dropped. Each takes some 2 us, most of them
  // in the store.
  uint32_t drops = 1024;
  // Sessions that end because their grace period is over. Each takes some 50 us.
  uint32_t ends = 8;
  // Connectors whose deadline has passed. Each takes some 20 us with what follows.
  uint32_t timeouts = 64;

  bool operator==(const TurnBudget&) const = default;
};

// How much a client may hold and how long the broker waits. The defaults carry their reasons. Every number can be set
// in the configuration, but for the budget of a turn.
struct Limits {
  // Per user id, so that one user's processes cannot shut the others out.
  uint32_t sessions_per_uid = 1024;    // A busy node runs hundreds of processes of one service user.
  uint32_t endpoints_per_uid = 12288;  // Three quarters of the ephemeral ports; others have the rest at least.
  uint32_t objects_per_uid = 65536;    // Of every kind together: the connectors of four full sessions.
  // Memory: the 65,536 objects take 160 MiB, and an event with private data for each of them 64 MiB more. Four users at
  // this limit fill the store.
  uint64_t kept_bytes_per_uid = uint64_t{256} << 20;

  // Per session.
  uint32_t adapters_per_session = 64;           // A process opens each of a node's NICs a few times at most.
  uint32_t listeners_per_session = 256;         // One for each address and service that a process offers.
  uint32_t shared_endpoints_per_session = 256;  // As listeners.
  uint32_t reservations_per_session = 256;      // As listeners, for which they stand in.
  uint32_t connectors_per_session = 16384;      // As many as there are ephemeral ports.
  // Answers kept for repeats, and so how many requests a client may have unanswered at a time.
  uint32_t answers_kept = 64;
  // Events kept until they are acknowledged. A connector has at most three at a time; beyond four for each that a
  // session may have, the client does not acknowledge, and nothing new is begun for it.
  uint32_t events_kept = 65536;

  TurnBudget a_turn;

  // Connectors of one listener that the client has neither accepted, rejected nor closed; further requests are
  // refused at once. NDKPI has no backlog argument; 1024 is what a storm of clients needs within one round trip.
  uint32_t backlog = 1024;

  // Own deadlines. The kernel's (102 s without an answer on Soft-RoCE) cannot be set and are a backstop only.
  absl::Duration connect_timeout = absl::Seconds(60);     // Connect, until the peer accepts or rejects.
  absl::Duration establish_timeout = absl::Seconds(60);   // Accept and CompleteConnect, until established.
  absl::Duration disconnect_timeout = absl::Seconds(60);  // Disconnect, until the peer disconnects too.
  // A client fetches an established connection right after it learns of it, or has returned: one local round trip. The
  // grace period comes on top, as it may be stopped meanwhile; and while its session is away the time is never over.
  absl::Duration handoff_timeout = absl::Seconds(10);
  // How long a session whose stream the broker ended may stay away: a debugger or a freezer holds it that long.
  absl::Duration session_grace = absl::Seconds(30);

  // NDKPI lets no new connection in over a listener that is being closed, and does not say whether a request that was
  // delivered before is new. True: Accept works. False: it rejects the peer.
  bool accept_on_closing_listener = true;

  // Lower ports are root's, as the kernel's own (net.ipv4.ip_unprivileged_port_start, whose default this is).
  uint16_t first_unprivileged_port = 1024;

  // Where port 0 is looked for (IANA's dynamic ports, RFC 6335 section 6), both ends included.
  uint16_t first_ephemeral_port = 49152;
  uint16_t last_ephemeral_port = 65535;

  bool operator==(const Limits&) const = default;
};

}  // namespace rdmabroker

#endif  // BROKER_CORE_LIMITS_H_
