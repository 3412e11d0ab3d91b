// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_DEADLINES_H_
#define BROKER_CORE_DEADLINES_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "broker/core/ids.h"
#include "broker/core/state.h"

namespace rdmabroker {

// The deadlines of sessions and connectors, in the order in which they come due. A user may have tens of thousands of
// connectors that come due together, so each user's are apart.
struct Deadlines {
  std::set<std::pair<Instant, SessionId>> sessions;
  // By uid. A user without any has no entry.
  absl::btree_map<uint32_t, std::set<std::pair<Instant, ConnectorId>>> connectors;
  std::set<std::pair<Instant, uint32_t>> users;  // Each user of `connectors`, by the first of theirs.

  void Add(uint32_t uid, Instant deadline, ConnectorId connector);
  void Remove(uint32_t uid, Instant deadline, ConnectorId connector);
  // Infinite where there is none.
  [[nodiscard]] Instant First() const;
  // Connectors whose deadline is not after `now`, `most` of them. Each user has the same share, but one at least, and
  // those who have waited for longest come first.
  [[nodiscard]] std::vector<ConnectorId> Due(Instant now, size_t most) const;

  bool operator==(const Deadlines&) const = default;
};

}  // namespace rdmabroker

#endif  // BROKER_CORE_DEADLINES_H_
