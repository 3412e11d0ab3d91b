// SPDX-License-Identifier: Apache-2.0

#include "broker/core/objects.h"

#include <utility>

#include "broker/core/nouns.h"
#include "broker/core/sessions.h"

namespace rdmabroker {
namespace {

// Calls `use` with the record that `id` names; nothing if there is none.
template <typename Use>
void WithRecord(Turn& turn, const ObjectId& id, Use use) {
  std::visit(
      [&](auto typed) {
        auto& table = TableOf(turn.records, typed);
        if (const auto it = table.find(typed); it != table.end()) use(it->second);
      },
      id);
}

// How many objects of a kind a session has, and may have.
struct Allowance {
  uint32_t& count;
  uint32_t limit;
};

Allowance AllowanceOf(Turn& turn, SessionRecord& session, const ObjectId& object) {
  const Limits& limits = turn.limits;
  switch (object.index()) {
    case 0:
      return {session.adapters, limits.adapters_per_session};
    case 1:
      return {session.listeners, limits.listeners_per_session};
    case 2:
      return {session.shared_endpoints, limits.shared_endpoints_per_session};
    case 3:
      return {session.reservations, limits.reservations_per_session};
    default:
      return {session.connectors, limits.connectors_per_session};
  }
}

void Forget(Turn& turn, const ObjectId& id, const ObjectRecord& object) {
  SessionRecord& session = turn.records.sessions.at(object.session);
  const uint32_t uid = session.identity.uid;
  --AllowanceOf(turn, session, id).count;
  turn.index.ledger.Release(uid, kObjectBytes);
  const auto of_user = turn.index.objects_of_uid.find(uid);
  if (--of_user->second.all == 0) turn.index.objects_of_uid.erase(of_user);
  const auto owned = turn.index.owned.find(object.session);
  owned->second.erase(id);
  if (owned->second.empty()) turn.index.owned.erase(owned);
  LeaveOpen(turn, session, id);
  std::visit(
      [&](auto typed) {
        ListOf(turn.index.lists, typed).Remove(uid, typed);
        if constexpr (std::is_same_v<decltype(typed), ListenerId>) turn.index.roaming.erase({object.session, typed});
        TableOf(turn.records, typed).erase(typed);
      },
      id);
}

template <typename Object>
void BeginClose(Turn& turn, const ObjectId& id, Object& object) {
  object.closing = true;
  LeaveOpen(turn, turn.records.sessions.at(object.session), id);
  StartClosing(turn, object);
}

// The objects that the closed one depended on.
template <typename Object>
void LeaveAntecedents(Turn& turn, const Object& object) {
  if constexpr (std::is_same_v<Object, AdapterRecord>) {
    LeaveDevice(turn, object);
  } else {
    if constexpr (std::is_same_v<Object, ConnectorRecord>) {
      if (object.listener) DropSuccessor(turn, object.listener);
      if (object.shared_endpoint) DropSuccessor(turn, object.shared_endpoint);
    }
    DropSuccessor(turn, object.adapter);
  }
}

// A refusal names only the kind: its id will be given to another object, perhaps another user's.
const char* KindOf(const ObjectId& object) {
  static constexpr const char* kKinds[] = {"adapter", "listener", "shared endpoint", "reservation", "connector"};
  return kKinds[object.index()];
}

bool AnyEventUnacknowledged(const Turn& turn, const ObjectRecord& object) {
  return object.last_event > std::as_const(turn.records.sessions).at(object.session).acknowledged;
}

// Whether an antecedent's close waits for this object's: then the order of the two completions is the stream's.
bool AntecedentWaits(const Turn& turn, const ObjectRecord& object) {
  return object.adapter && std::as_const(turn.records.adapters).at(object.adapter).closing;
}

// One that has connected through a shared endpoint is not bare: whether that one waits makes no difference.
bool AntecedentWaits(const Turn& turn, const ConnectorRecord& connector) {
  return AntecedentWaits(turn, static_cast<const ObjectRecord&>(connector)) ||
         (connector.listener && std::as_const(turn.records.listeners).at(connector.listener).closing);
}

}  // namespace

std::string Name(const ObjectId& object) {
  return std::visit([&](auto id) { return absl::StrCat(KindOf(object), " ", id.value()); }, object);
}

Outcome TakeAllowance(Turn& turn, SessionId session, const ObjectId& object) {
  SessionRecord& record = turn.records.sessions.at(session);
  const auto [count, limit] = AllowanceOf(turn, record, object);
  if (count >= limit) {
    return Refuse(NdkStatus::kInsufficientResources, KindOf(object), ": the session has ", count, " of at most ", limit,
                  "; close some, or raise the limit");
  }
  const uint32_t uid = record.identity.uid;
  const auto of_user = turn.index.objects_of_uid.find(uid);
  if (of_user != turn.index.objects_of_uid.end() && of_user->second.all >= turn.limits.objects_per_uid) {
    return Refuse(NdkStatus::kInsufficientResources, KindOf(object), ": uid ", uid, " has ", of_user->second.all,
                  " objects already; close some, or raise objects_per_uid");
  }
  if (auto refusal = RefuseIfFull(turn, uid)) return *std::move(refusal);
  ++count;
  ++turn.index.objects_of_uid[uid].all;
  std::visit([&](auto id) { ListOf(turn.index.lists, id).Add(uid, id); }, object);
  turn.index.ledger.Charge(uid, kObjectBytes);
  return Done();
}

Outcome RefuseUnlessOwned(const Turn& turn, const Call& call, const ObjectId& id, const ObjectRecord* object) {
  const auto& sessions = std::as_const(turn.records.sessions);
  const auto uid_of = [&](SessionId session) { return sessions.at(session).identity.uid; };
  if (object == nullptr || !object->ready || uid_of(object->session) != uid_of(call.session)) {
    return Refuse(NdkStatus::kObjectNameNotFound, Name(id), ": unknown, or closed already");
  }
  if (object->session != call.session)
    return Refuse(NdkStatus::kAccessDenied, Name(id), ": belongs to another session");
  return Done();
}

Outcome RefuseUnlessUsable(Turn& turn, const ObjectId& id, const ObjectRecord& object) {
  if (object.closing) return Refuse(NdkStatus::kInvalidDeviceState, Name(id), ": is being closed");
  const AdapterId* own = std::get_if<AdapterId>(&id);
  if (IsRemoved(turn, own != nullptr ? *own : object.adapter)) {
    return Refuse(NdkStatus::kDeviceRemoved, Name(id), ": its device is gone; close it");
  }
  return Done();
}

const Device& DeviceOf(const Turn& turn, AdapterId adapter) {
  const Records& records = turn.records;
  return records.devices.at(records.adapters.at(adapter).device).device;
}

bool IsRemoved(const Turn& turn, AdapterId adapter) {
  const Records& records = turn.records;
  return records.devices.at(records.adapters.at(adapter).device).removed;
}

Outcome Close(Turn& turn, const Call& call, const ObjectId& id) {
  Outcome outcome;
  const auto find = [&](auto typed) -> ObjectRecord* {
    auto& table = TableOf(turn.records, typed);
    const auto it = table.find(typed);
    return it == table.end() ? nullptr : &it->second;
  };
  outcome = RefuseUnlessOwned(turn, call, id, std::visit(find, id));
  if (outcome.status != NdkStatus::kSuccess) return outcome;
  WithRecord(turn, id, [&](auto& object) {
    if (object.closing) {
      outcome = Refuse(NdkStatus::kInvalidDeviceState, Name(id), ": is being closed already");
      return;
    }
    const bool at_once =
        IsBare(turn, object) && !AnyEventUnacknowledged(turn, object) && !AntecedentWaits(turn, object);
    if (!at_once) {
      object.close_request = call.id;
      outcome = Pending();
    }
    BeginClose(turn, id, object);
  });
  TryFinishClose(turn, id);
  return outcome;
}

void TryFinishClose(Turn& turn, const ObjectId& id) {
  WithRecord(turn, id, [&](auto& object) {
    if (!object.closing || !CanFinish(turn, object)) return;
    Complete(turn, object, object.close_request, Done());
    Remove(turn, id);
  });
}

void Remove(Turn& turn, const ObjectId& id) {
  WithRecord(turn, id, [&](auto& object) {
    const auto removed = object;
    using Object = std::decay_t<decltype(object)>;
    if constexpr (std::is_same_v<Object, ConnectorRecord>) turn.index.states.Count(turn.records, object, -1);
    Forget(turn, id, object);
    LeaveAntecedents(turn, removed);
    ForgetIfDone(turn, removed.session);
  });
}

bool MayBegin(const Turn& turn, const ObjectRecord& object) {
  return !object.closing && !std::as_const(turn.records.sessions).at(object.session).ended;
}

void CloseForEndedSession(Turn& turn, const ObjectId& id) {
  WithRecord(turn, id, [&](auto& object) { BeginClose(turn, id, object); });
  TryFinishClose(turn, id);
}

void DropSuccessor(Turn& turn, const ObjectId& id) {
  WithRecord(turn, id, [](auto& object) { --object.successors; });
  TryFinishClose(turn, id);
}

void OnBound(Turn& turn, const ObjectId& owner, EndpointId endpoint) {
  WithRecord(turn, owner, [&](auto& object) {
    if constexpr (!std::is_same_v<decltype(object), AdapterRecord&>) OnBound(turn, object, endpoint);
  });
}

void OnBindFailed(Turn& turn, const ObjectId& owner, EndpointId endpoint, const Outcome& outcome) {
  WithRecord(turn, owner, [&](auto& object) {
    if constexpr (!std::is_same_v<decltype(object), AdapterRecord&>) OnBindFailed(turn, object, endpoint, outcome);
  });
}

}  // namespace rdmabroker
