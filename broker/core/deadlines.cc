// SPDX-License-Identifier: Apache-2.0

#include "broker/core/deadlines.h"

#include <algorithm>
#include <iterator>

#include "absl/time/time.h"

namespace rdmabroker {

void Deadlines::Add(uint32_t uid, Instant deadline, ConnectorId connector) {
  auto& own = connectors[uid];
  const auto added = own.emplace(deadline, connector).first;
  if (added != own.begin()) return;
  if (own.size() > 1) users.erase({std::next(added)->first, uid});
  users.emplace(deadline, uid);
}

void Deadlines::Remove(uint32_t uid, Instant deadline, ConnectorId connector) {
  const auto found = connectors.find(uid);
  auto& own = found->second;
  const auto removed = own.find({deadline, connector});
  const bool was_first = removed == own.begin();
  own.erase(removed);
  if (!was_first) return;
  users.erase({deadline, uid});
  if (own.empty()) {
    connectors.erase(found);
  } else {
    users.emplace(own.begin()->first, uid);
  }
}

Instant Deadlines::First() const {
  Instant first = absl::InfiniteFuture();
  if (!sessions.empty()) first = sessions.begin()->first;
  if (!users.empty()) first = std::min(first, users.begin()->first);
  return first;
}

std::vector<ConnectorId> Deadlines::Due(Instant now, size_t most) const {
  size_t waiting = 0;
  for (auto user = users.begin(); user != users.end() && user->first <= now && waiting < most; ++user) ++waiting;
  std::vector<ConnectorId> due;
  if (waiting == 0) return due;
  const size_t share = most / waiting;
  for (auto user = users.begin(); waiting > 0; ++user, --waiting) {
    const auto& own = connectors.at(user->second);
    size_t left = share;
    for (auto next = own.begin(); next != own.end() && next->first <= now && left > 0; ++next, --left) {
      due.push_back(next->second);
    }
  }
  return due;
}

}  // namespace rdmabroker
