// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_INDEX_H_
#define BROKER_CORE_INDEX_H_

#include <array>
#include <compare>
#include <cstdint>
#include <set>
#include <utility>
#include <variant>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "broker/core/deadlines.h"
#include "broker/core/ledger.h"
#include "broker/core/state.h"

namespace rdmabroker {

// A concrete local address: at most one endpoint at a time has it.
struct AddressKey {
  uint64_t network_namespace = 0;
  PortSpace port_space = PortSpace::kRdmaCm;
  SocketAddress address;

  bool operator==(const AddressKey&) const = default;

  template <typename H>
  friend H AbslHashValue(H state, const AddressKey& key) {
    return H::combine(std::move(state), key.network_namespace, key.port_space, key.address);
  }
};

// Ports of one number that can collide.
struct PortKey {
  uint64_t network_namespace = 0;
  PortSpace port_space = PortSpace::kRdmaCm;
  uint16_t port = 0;

  bool operator==(const PortKey&) const = default;

  template <typename H>
  friend H AbslHashValue(H state, const PortKey& key) {
    return H::combine(std::move(state), key.network_namespace, key.port_space, key.port);
  }
};

// A connection's addresses: at most one connection at a time has them.
struct FourTuple {
  uint64_t network_namespace = 0;
  PortSpace port_space = PortSpace::kRdmaCm;
  SocketAddress local;
  SocketAddress peer;

  bool operator==(const FourTuple&) const = default;

  template <typename H>
  friend H AbslHashValue(H state, const FourTuple& tuple) {
    return H::combine(std::move(state), tuple.network_namespace, tuple.port_space, tuple.local, tuple.peer);
  }
};

// A queue pair in use. Numbers are a session's own claim until a fabric has verified them, so that a false claim
// blocks nobody else.
struct QpKey {
  SessionId session;
  DeviceId device;
  QpNumber qp;

  bool operator==(const QpKey&) const = default;

  template <typename H>
  friend H AbslHashValue(H state, const QpKey& key) {
    return H::combine(std::move(state), key.session, key.device, key.qp);
  }
};

// How many records are in which state, so that whoever shows it need not look at all of them.
struct StateCounts {
  std::array<uint32_t, kConnectorStates> connectors = {};  // By ConnectorState.
  std::array<uint32_t, kEndpointStates> endpoints = {};    // By EndpointState.
  // Connectors with an established connection, those that are being disconnected included. None for a device with 0.
  absl::flat_hash_map<DeviceId, uint32_t> active;

  // One more, or, with `by` of -1, one less. Of the connector as it is now.
  void Count(const Records& records, const ConnectorRecord& connector, int by);
  void Count(const EndpointRecord& endpoint, int by);

  bool operator==(const StateCounts&) const = default;
};

// How many objects the sessions of one user have. Lists has the count of each kind. A user without objects has no entry
// in the index.
struct ObjectsOfUser {
  uint32_t all = 0;
  uint32_t undecided = 0;  // Connectors that were delivered, and neither accepted, rejected nor closed.

  bool operator==(const ObjectsOfUser&) const = default;
};

// The ids of one kind of record, sorted, so that a page of a list costs only as much as the rows on it.
template <typename Id>
struct OrderedIds {
  absl::btree_set<Id> all;
  // A user without ids has no entry.
  absl::flat_hash_map<uint32_t, absl::btree_set<Id>> of_user;

  [[nodiscard]] uint32_t CountOf(uint32_t uid) const {
    const auto found = of_user.find(uid);
    return found == of_user.end() ? 0 : static_cast<uint32_t>(found->second.size());
  }
  void Add(uint32_t uid, Id id) {
    all.insert(id);
    of_user[uid].insert(id);
  }
  void Remove(uint32_t uid, Id id) {
    all.erase(id);
    const auto found = of_user.find(uid);
    found->second.erase(id);
    if (found->second.empty()) of_user.erase(found);
  }

  bool operator==(const OrderedIds&) const = default;
};

// The user of an endpoint is EndpointRecord::uid; the user of another record is its session's.
struct Lists {
  OrderedIds<SessionId> sessions;
  OrderedIds<AdapterId> adapters;
  OrderedIds<ListenerId> listeners;
  OrderedIds<SharedEndpointId> shared_endpoints;
  OrderedIds<ReservationId> reservations;
  OrderedIds<ConnectorId> connectors;
  OrderedIds<EndpointId> endpoints;

  bool operator==(const Lists&) const = default;
};

// `lists` may be const.
auto& ListOf(auto& lists, SessionId) { return lists.sessions; }
auto& ListOf(auto& lists, AdapterId) { return lists.adapters; }
auto& ListOf(auto& lists, ListenerId) { return lists.listeners; }
auto& ListOf(auto& lists, SharedEndpointId) { return lists.shared_endpoints; }
auto& ListOf(auto& lists, ReservationId) { return lists.reservations; }
auto& ListOf(auto& lists, ConnectorId) { return lists.connectors; }
auto& ListOf(auto& lists, EndpointId) { return lists.endpoints; }

// Ways to find records, derived from them alone. Nothing iterates over a hash table where order would show.
struct Index {
  Index();
  Index(const Index&);
  Index(Index&&) noexcept;
  Index& operator=(const Index&);
  Index& operator=(Index&&) noexcept;
  ~Index();

  absl::flat_hash_map<AddressKey, EndpointId> addresses;
  absl::flat_hash_map<PortKey, std::set<EndpointId>> wildcards;
  absl::flat_hash_map<FourTuple, ConnectionId> tuples;
  absl::flat_hash_map<QpKey, ConnectorId> qps;
  Deadlines deadlines;
  absl::flat_hash_map<SessionId, absl::flat_hash_set<ObjectId>> owned;
  // Objects whose close has not begun. A session without any has no entry.
  absl::flat_hash_map<SessionId, absl::btree_set<ObjectId>> open;
  // Sessions with leftovers.
  absl::btree_set<SessionId> undropped;
  absl::flat_hash_map<uint32_t, ObjectsOfUser> objects_of_uid;
  absl::flat_hash_map<std::string, DeviceId> device_names;
  // The adapters that a session has on a device; no entry for none.
  absl::flat_hash_map<std::pair<DeviceId, SessionId>, std::set<AdapterId>> adapters_on;
  // Listeners with any_adapter.
  std::set<std::pair<SessionId, ListenerId>> roaming;
  Lists lists;
  Ledger ledger;
  StateCounts states;

  bool operator==(const Index&) const = default;

  static Index Of(const Records& records);
};

// The devices that are there. Of two with one name, as while one takes another's place, the later one has it.
absl::flat_hash_map<std::string, DeviceId> DeviceNames(const Records& records);
FourTuple TupleOf(const Records& records, const ConnectionRecord& connection);
AddressKey AddressOf(const EndpointRecord& endpoint, const IpAddress& ip);
PortKey PortOf(const EndpointRecord& endpoint);

}  // namespace rdmabroker

#endif  // BROKER_CORE_INDEX_H_
