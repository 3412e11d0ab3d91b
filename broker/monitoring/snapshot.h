// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_MONITORING_SNAPSHOT_H_
#define BROKER_MONITORING_SNAPSHOT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "broker/core/broker_core.h"

namespace rdmabroker {

// More sessions have no series of their own: each has six, and a server that collects them keeps each for weeks.
inline constexpr size_t kSessionsShown = 1000;

// What is shown of a core, for a thread that may not touch it.
struct Snapshot {
  enum class SessionState : uint8_t { kOpen, kAway, kEnding };
  static constexpr size_t kSessionStates = 3;

  struct Session {
    SessionId id;
    uint32_t adapters = 0;
    uint32_t listeners = 0;
    uint32_t shared_endpoints = 0;
    uint32_t reservations = 0;
    uint32_t connectors = 0;
    size_t unacknowledged_events = 0;
  };

  enum class AdapterState : uint8_t { kEnabled, kUnusable, kDisabling, kDisabled };
  static constexpr size_t kAdapterStates = 4;

  struct Adapter {
    std::string name;
    AdapterState state = AdapterState::kEnabled;
    uint32_t open = 0;
    uint32_t active_connections = 0;
    ConnectionCounts counts;
  };

  StateCounts states;
  Tally tally;
  std::array<uint64_t, kSessionStates> session_states = {};
  std::vector<Session> sessions;  // The first kSessionsShown, by their ids.
  uint64_t sessions_left_out = 0;
  std::vector<Adapter> adapters;  // By their names, each once.
  size_t listeners = 0;
  size_t shared_endpoints = 0;
  size_t reservations = 0;
  size_t kept_descriptors = 0;
  size_t most_kept_descriptors = 0;
  uint64_t kept_bytes = 0;  // Of all users (Ledger).
  size_t held_octets = 0;   // What clients' connections hold in memory (UserCosts).
};

// Looks at each session and each device, and at nothing of which there are more.
Snapshot TakeSnapshot(const BrokerCore& core);

}  // namespace rdmabroker

#endif  // BROKER_MONITORING_SNAPSHOT_H_
