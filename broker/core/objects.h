// SPDX-License-Identifier: Apache-2.0

// What the objects of clients have in common: finding them, owning them, closing them.

#ifndef BROKER_CORE_OBJECTS_H_
#define BROKER_CORE_OBJECTS_H_

#include "broker/core/new_ids.h"
#include "broker/core/turn.h"

namespace rdmabroker {

// `records` may be const.
auto& TableOf(auto& records, AdapterId) { return records.adapters; }
auto& TableOf(auto& records, ListenerId) { return records.listeners; }
auto& TableOf(auto& records, SharedEndpointId) { return records.shared_endpoints; }
auto& TableOf(auto& records, ReservationId) { return records.reservations; }
auto& TableOf(auto& records, ConnectorId) { return records.connectors; }

// "listener 7".
std::string Name(const ObjectId& object);

// An object that the caller may use, or why not.
template <typename Object>
struct Found {
  Object* object = nullptr;
  Outcome refusal;

  explicit operator bool() const { return object != nullptr; }
  Object* operator->() const { return object; }
  Object& operator*() const { return *object; }
};

// Unknown, or another user's, who is not to know what there is: OBJECT_NAME_NOT_FOUND. Another session's of the same
// user: ACCESS_DENIED.
Outcome RefuseUnlessOwned(const Turn& turn, const Call& call, const ObjectId& id, const ObjectRecord* object);
// The device is gone: DEVICE_REMOVED. Its close was asked for already: INVALID_DEVICE_STATE.
Outcome RefuseUnlessUsable(Turn& turn, const ObjectId& id, const ObjectRecord& object);

// The caller's object, whatever its state: for closing it.
template <typename Kind>
auto FindOwned(Turn& turn, const Call& call, Id<Kind> id) {
  auto& table = TableOf(turn.records, id);
  const auto it = table.find(id);
  using Object = std::remove_reference_t<decltype(it->second)>;
  Object* object = it == table.end() ? nullptr : &it->second;
  Outcome refusal = RefuseUnlessOwned(turn, call, id, object);
  return refusal.status == NdkStatus::kSuccess ? Found<Object>{object, {}} : Found<Object>{nullptr, std::move(refusal)};
}

// The caller's object, if it can be used: not closing, and its device is there.
template <typename Kind>
auto FindUsable(Turn& turn, const Call& call, Id<Kind> id) {
  auto found = FindOwned(turn, call, id);
  if (!found) return found;
  Outcome refusal = RefuseUnlessUsable(turn, id, *found);
  if (refusal.status != NdkStatus::kSuccess) found = {nullptr, std::move(refusal)};
  return found;
}

const Device& DeviceOf(const Turn& turn, AdapterId adapter);
bool IsRemoved(const Turn& turn, AdapterId adapter);

// Counts a new object of the session's, or refuses it.
Outcome TakeAllowance(Turn& turn, SessionId session, const ObjectId& object);

// A new object under `adapter`, or a limit's refusal: INSUFFICIENT_RESOURCES.
template <typename Kind>
auto NewObject(Turn& turn, SessionId session, AdapterId adapter, uint64_t& counter) {
  auto& table = TableOf(turn.records, Id<Kind>());
  NewIds<Kind> ids(turn.records.counters.id_key, counter);
  const Id<Kind> id = ids.Next(table);
  using Object = typename std::remove_reference_t<decltype(table)>::mapped_type;
  Outcome refusal = TakeAllowance(turn, session, id);
  if (refusal.status != NdkStatus::kSuccess) return Found<Object>{nullptr, std::move(refusal)};
  ids.Take();
  Object& object = table[id];
  object.id = id;
  object.session = session;
  object.adapter = adapter;
  turn.index.owned[session].insert(id);
  turn.index.open[session].insert(id);
  if (adapter) ++turn.records.adapters.at(adapter).successors;
  if constexpr (std::is_same_v<Object, ConnectorRecord>) turn.index.states.Count(turn.records, object, 1);
  return Found<Object>{&object, {}};
}

// Closes the caller's object, as every Close request does: SUCCESS where nothing is left to wait for and no event can
// still be on its way, else PENDING. INVALID_DEVICE_STATE where its close is pending already.
Outcome Close(Turn& turn, const Call& call, const ObjectId& id);

// Goes on with a pending close, if it is pending and nothing stands in its way any more. `id` may be gone after it.
void TryFinishClose(Turn& turn, const ObjectId& id);

// Forgets the object without a word to its client: it was never made known, or has become part of another.
void Remove(Turn& turn, const ObjectId& id);

// Returns false if the object's close has begun or its session has ended: it begins nothing new then.
bool MayBegin(const Turn& turn, const ObjectRecord& object);

// The session has ended: closes the object, which is not being closed, as its client would.
void CloseForEndedSession(Turn& turn, const ObjectId& id);

// A successor of the object is gone.
void DropSuccessor(Turn& turn, const ObjectId& id);

// The endpoint's news for its owner.
void OnBound(Turn& turn, const ObjectId& owner, EndpointId endpoint);
void OnBindFailed(Turn& turn, const ObjectId& owner, EndpointId endpoint, const Outcome& outcome);

}  // namespace rdmabroker

#endif  // BROKER_CORE_OBJECTS_H_
