// SPDX-License-Identifier: Apache-2.0

#include "broker/monitoring/snapshot.h"

#include <algorithm>
#include <map>
#include <utility>

namespace rdmabroker {
namespace {

Snapshot::SessionState StateOf(const SessionRecord& session) {
  if (session.ended) return Snapshot::SessionState::kEnding;
  return session.stream ? Snapshot::SessionState::kOpen : Snapshot::SessionState::kAway;
}

Snapshot::AdapterState StateOf(const DeviceRecord& record) {
  if (record.disabled) {
    return record.adapters == 0 ? Snapshot::AdapterState::kDisabled : Snapshot::AdapterState::kDisabling;
  }
  return record.device.unusable_reason.empty() ? Snapshot::AdapterState::kEnabled : Snapshot::AdapterState::kUnusable;
}

void TakeSessions(const Records& records, Snapshot& snapshot) {
  std::vector<SessionId> ids;
  ids.reserve(records.sessions.size());
  for (const auto& [id, session] : records.sessions) {
    ++snapshot.session_states[static_cast<size_t>(StateOf(session))];
    ids.push_back(id);
  }
  const auto end = ids.begin() + static_cast<ptrdiff_t>(std::min(ids.size(), kSessionsShown));
  std::partial_sort(ids.begin(), end, ids.end());
  snapshot.sessions_left_out = static_cast<uint64_t>(ids.end() - end);
  for (auto id = ids.begin(); id != end; ++id) {
    const SessionRecord& session = records.sessions.at(*id);
    snapshot.sessions.push_back({session.id, session.adapters, session.listeners, session.shared_endpoints,
                                 session.reservations, session.connectors, session.unacknowledged()});
  }
}

void TakeAdapters(const BrokerCore& core, Snapshot& snapshot) {
  const auto devices = DeviceNames(core.records());
  const auto& active = core.index().states.active;
  for (const auto& [name, id] : std::map(devices.begin(), devices.end())) {
    const DeviceRecord* record = &core.records().devices.at(id);
    const auto connections = active.find(record->device.id);
    snapshot.adapters.push_back({name, StateOf(*record), record->adapters,
                                 connections == active.end() ? 0 : connections->second, record->counts});
  }
}

}  // namespace

Snapshot TakeSnapshot(const BrokerCore& core) {
  Snapshot snapshot;
  snapshot.states = core.index().states;
  snapshot.tally = core.tally();
  const Records& records = core.records();
  TakeSessions(records, snapshot);
  TakeAdapters(core, snapshot);
  snapshot.listeners = records.listeners.size();
  snapshot.shared_endpoints = records.shared_endpoints.size();
  snapshot.reservations = records.reservations.size();
  snapshot.kept_bytes = core.index().ledger.OfAll();
  return snapshot;
}

}  // namespace rdmabroker
