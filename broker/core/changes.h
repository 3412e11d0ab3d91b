// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_CHANGES_H_
#define BROKER_CORE_CHANGES_H_

#include <vector>

#include "broker/core/state.h"

namespace rdmabroker {

// Which records may differ from what they were. One that is not among the records any more is gone.
struct Changes {
  bool all = false;  // Any of those that are there, and of those that were; the rest of this is empty then.
  bool counters = false;
  // Each id once, in order.
  std::vector<DeviceId> devices;
  std::vector<SessionId> sessions;
  std::vector<AdapterId> adapters;
  std::vector<ListenerId> listeners;
  std::vector<SharedEndpointId> shared_endpoints;
  std::vector<ReservationId> reservations;
  std::vector<ConnectorId> connectors;
  std::vector<EndpointId> endpoints;
  std::vector<ConnectionId> connections;

  bool operator==(const Changes&) const = default;
};

// Calls `use` once for each table, with what each of `all` (Records, Changes) has for it: use(table, ids).
template <typename Use, typename... All>
void ForEachTable(Use use, All&... all) {
  use(all.devices...);
  use(all.sessions...);
  use(all.adapters...);
  use(all.listeners...);
  use(all.shared_endpoints...);
  use(all.reservations...);
  use(all.connectors...);
  use(all.endpoints...);
  use(all.connections...);
}

}  // namespace rdmabroker

#endif  // BROKER_CORE_CHANGES_H_
