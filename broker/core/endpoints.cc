// SPDX-License-Identifier: Apache-2.0

#include "broker/core/endpoints.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "broker/core/nouns.h"
#include "broker/core/objects.h"
#include "broker/core/sessions.h"

namespace rdmabroker {
namespace {

std::vector<IpAddress> OfFamily(const std::vector<IpAddress>& ips, IpFamily family) {
  std::vector<IpAddress> some;
  std::copy_if(ips.begin(), ips.end(), std::back_inserter(some),
               [&](const IpAddress& ip) { return ip.family == family; });
  return some;
}

// Whether another endpoint has `ip` with the endpoint's port.
bool IsAnothers(const Turn& turn, const EndpointRecord& endpoint, const IpAddress& ip) {
  const auto holder = turn.index.addresses.find(AddressOf(endpoint, ip));
  return holder != turn.index.addresses.end() && holder->second != endpoint.id;
}

// The endpoint that keeps others from the wanted addresses and port; null where they are free.
const EndpointRecord* InTheWayOf(const Turn& turn, const EndpointRecord& wanted) {
  const auto& endpoints = std::as_const(turn.records.endpoints);
  for (const IpAddress& ip : TakenBy(wanted)) {
    if (IsAnothers(turn, wanted, ip)) return &endpoints.at(turn.index.addresses.at(AddressOf(wanted, ip)));
  }
  const auto wildcards = turn.index.wildcards.find(PortOf(wanted));
  if (wildcards == turn.index.wildcards.end()) return nullptr;
  // Two wildcards of one device and family are in each other's way even while the device has no address.
  for (const EndpointId id : wildcards->second) {
    const EndpointRecord& other = endpoints.at(id);
    if (other.device == wanted.device && other.address == wanted.address) return &other;
  }
  return nullptr;
}

// Puts the next free port of the ephemeral range into `endpoint`. False when all have been tried or are taken; so it
// ends after one walk round the range.
bool ChoosePort(Turn& turn, EndpointRecord& endpoint) {
  const uint32_t first = turn.limits.first_ephemeral_port;
  const uint32_t count = turn.limits.last_ephemeral_port - first + 1;
  uint16_t& last = turn.records.counters.ephemeral_port;
  while (endpoint.tries < count) {
    ++endpoint.tries;
    last = static_cast<uint16_t>(last < first || last >= turn.limits.last_ephemeral_port ? first : last + 1);
    endpoint.address.port = last;
    if (InTheWayOf(turn, endpoint) == nullptr) return true;
  }
  return false;
}

Outcome NoPortLeft(const Turn& turn, const EndpointRecord& endpoint) {
  return Refuse(NdkStatus::kTooManyAddresses, "address ", endpoint.address.ip.ToString(), ": every port from ",
                turn.limits.first_ephemeral_port, " to ", turn.limits.last_ephemeral_port,
                " is in use; close connections or name a port");
}

Outcome InUse(const EndpointRecord& endpoint, const char* by) {
  return Refuse(NdkStatus::kSharingViolation, "address ", endpoint.address.ToString(), ": in use by ", by,
                "; close that, or name another port");
}

void TakeAddresses(Turn& turn, const EndpointRecord& endpoint) {
  for (const IpAddress& ip : TakenBy(endpoint)) turn.index.addresses[AddressOf(endpoint, ip)] = endpoint.id;
}

void LeaveAddresses(Turn& turn, const EndpointRecord& endpoint) {
  for (const IpAddress& ip : TakenBy(endpoint)) turn.index.addresses.erase(AddressOf(endpoint, ip));
}

void TakePort(Turn& turn, const EndpointRecord& endpoint) {
  TakeAddresses(turn, endpoint);
  if (endpoint.address.ip.IsAny()) turn.index.wildcards[PortOf(endpoint)].insert(endpoint.id);
}

void LeavePort(Turn& turn, const EndpointRecord& endpoint) {
  LeaveAddresses(turn, endpoint);
  if (!endpoint.address.ip.IsAny()) return;
  const auto wildcards = turn.index.wildcards.find(PortOf(endpoint));
  wildcards->second.erase(endpoint.id);
  if (wildcards->second.empty()) turn.index.wildcards.erase(wildcards);
}

void EmitBind(Turn& turn, const EndpointRecord& endpoint) {
  TakePort(turn, endpoint);
  turn.Emit(FabricBind{endpoint.device, endpoint.id, endpoint.use, endpoint.ips, endpoint.address.port});
}

void SetState(Turn& turn, EndpointRecord& endpoint, EndpointState state) {
  turn.index.states.Count(endpoint, -1);
  endpoint.state = state;
  turn.index.states.Count(endpoint, 1);
}

void UnbindIfUnused(Turn& turn, EndpointRecord& endpoint) {
  if (endpoint.references != 0 || endpoint.connections != 0 || endpoint.state != EndpointState::kBound) return;
  SetState(turn, endpoint, EndpointState::kUnbinding);
  turn.Emit(FabricUnbind{endpoint.device, endpoint.id});
}

// Those of the device's addresses at which the endpoint is to be.
std::vector<IpAddress> PlacesOf(const EndpointRecord& endpoint, const Device& device) {
  if (endpoint.address.ip.IsAny()) return OfFamily(device.addresses, endpoint.address.ip.family);
  if (!HasAddress(device, endpoint.address.ip)) return {};
  return {endpoint.address.ip};
}

void TellOfAddress(Turn& turn, const EndpointRecord& endpoint) {
  if (endpoint.address.ip.IsAny()) return;
  const auto tell = [&](auto id) {
    if constexpr (std::is_constructible_v<AddressHolder, decltype(id)>) {
      auto& holders = TableOf(turn.records, id);
      const auto found = std::as_const(holders).find(id);
      if (found == std::as_const(holders).end()) return;
      const ObjectRecord& holder = found->second;
      const SessionRecord& session = std::as_const(turn.records.sessions).at(holder.session);
      const bool listens = std::is_same_v<decltype(id), ListenerId>;
      const AddressNews needed = listens ? AddressNews::kOfListeners : AddressNews::kOfAll;
      // A client that reads nothing gets no event. A listener's row shows its address all the same.
      if (holder.closing || session.address_news < needed || IsOverwhelmed(turn, session)) return;
      Notify(turn, holders.at(id), AddressEvent{id, !endpoint.ips.empty()});
    }
  };
  std::visit(tell, endpoint.owner);
}

// Whether the listener can be reached at `ip` on the device.
bool IsReachedOn(const Turn& turn, const ListenerRecord& listener, const IpAddress& ip, DeviceId id) {
  const DeviceRecord& device = std::as_const(turn.records.devices).at(id);
  return !device.removed && HasAddress(device.device, ip) && AdapterAt(turn, listener, id);
}

void MoveTo(Turn& turn, EndpointRecord& endpoint, DeviceId device) {
  const DeviceId before = std::exchange(endpoint.device, device);
  if (before == device) return;
  --turn.records.devices.at(before).endpoints;
  ++turn.records.devices.at(device).endpoints;
  ForgetDeviceIfUnused(turn, before);
}

// Null: it has another owner. Hostile records may have an endpoint without its owner.
const ListenerRecord* ListenerOf(const Records& records, const EndpointRecord& endpoint) {
  const ListenerId* owner = std::get_if<ListenerId>(&endpoint.owner);
  if (owner == nullptr) return nullptr;
  const auto found = records.listeners.find(*owner);
  return found == records.listeners.end() ? nullptr : &found->second;
}

// Gives the endpoint what the addresses of its device are now, but those that another endpoint has on that port. What
// one connection stands on ends with that.
void Follow(Turn& turn, EndpointId id) {
  const EndpointRecord& endpoint = std::as_const(turn.records.endpoints).at(id);
  if (endpoint.use == EndpointUse::kDedicated || endpoint.state != EndpointState::kBound) return;
  const ListenerRecord* listener = ListenerOf(turn.records, endpoint);
  const bool moves = listener != nullptr && listener->any_adapter && !listener->closing;
  const DeviceId place = moves ? DeviceFor(turn, *listener, endpoint.address.ip, endpoint.device) : endpoint.device;
  const DeviceRecord& device = std::as_const(turn.records.devices).at(place);
  if (device.removed) return;
  std::vector<IpAddress> ips;
  for (const IpAddress& ip : PlacesOf(endpoint, device.device)) {
    if (!IsAnothers(turn, endpoint, ip)) ips.push_back(ip);
  }
  // Only what changes is to be stored.
  if (ips == endpoint.ips && place == endpoint.device) return;
  EndpointRecord& changed = turn.records.endpoints.at(id);
  LeaveAddresses(turn, changed);
  MoveTo(turn, changed, place);
  changed.ips = std::move(ips);
  TakeAddresses(turn, changed);
  turn.Emit(FabricRebind{changed.device, id, changed.ips});
  TellOfAddress(turn, changed);
}

// Wildcards on that port may have what the endpoint had now.
void FollowOnPort(Turn& turn, const PortKey& port) {
  const auto wildcards = turn.index.wildcards.find(port);
  if (wildcards == turn.index.wildcards.end()) return;
  for (const EndpointId id : wildcards->second) Follow(turn, id);
}

// The owner's close may have waited for it.
void Erase(Turn& turn, EndpointId id) {
  EndpointRecord& endpoint = turn.records.endpoints.at(id);
  const ObjectId owner = endpoint.owner;
  const DeviceId device = endpoint.device;
  const PortKey port = PortOf(endpoint);
  LeavePort(turn, endpoint);
  turn.index.states.Count(endpoint, -1);
  turn.index.lists.endpoints.Remove(endpoint.uid, id);
  turn.records.endpoints.erase(id);
  --turn.records.devices.at(device).endpoints;
  FollowOnPort(turn, port);
  TryFinishClose(turn, owner);
  ForgetDeviceIfUnused(turn, device);
}

// Finds the endpoint of a report in the state that the report answers; a fabric that reports anything else is wrong.
EndpointRecord* FindIn(Turn& turn, EndpointId id, std::initializer_list<EndpointState> states) {
  const auto it = turn.records.endpoints.find(id);
  if (it == turn.records.endpoints.end()) return nullptr;
  return std::find(states.begin(), states.end(), it->second.state) == states.end() ? nullptr : &it->second;
}

// A link-local address without its interface is nobody's, even where one interface alone has it: another may get it.
Outcome RefuseScope(const Device& device, const SocketAddress& address) {
  const auto& own = device.addresses;
  const auto there = std::find_if(own.begin(), own.end(), [&](const IpAddress& ip) {
    return ip.bytes == address.ip.bytes && ip.family == address.ip.family;
  });
  if (there != own.end()) {
    return Refuse(NdkStatus::kInvalidAddress, "address ", address.ToString(), ": names no interface on which ",
                  device.name, " has it; write it as ", SocketAddress{*there, address.port}.ToString());
  }
  if (address.ip.scope_id != 0) return Done();
  return Refuse(NdkStatus::kInvalidAddress, "address ", address.ToString(),
                ": a link-local address; name its interface, as in ", address.ip.ToString(), "%eth0");
}

Outcome RefuseUser(const Turn& turn, uint32_t uid, const SocketAddress& address) {
  const Limits& limits = turn.limits;
  if (uid != 0 && address.port != 0 && address.port < limits.first_unprivileged_port) {
    return Refuse(NdkStatus::kAccessDenied, "address ", address.ToString(), ": ports below ",
                  limits.first_unprivileged_port, " are root's; name another");
  }
  const uint32_t held = turn.index.lists.endpoints.CountOf(uid);
  if (held < limits.endpoints_per_uid) return Done();
  return Refuse(NdkStatus::kInsufficientResources, "address ", address.ToString(), ": uid ", uid, " holds ", held,
                " addresses already; close some, or raise endpoints_per_uid");
}

// Whether an endpoint of the device may be at the address, or wait for it.
Outcome RefuseAddress(const Turn& turn, const Device& device, EndpointUse use, const SocketAddress& address,
                      Presence presence) {
  const IpAddress& ip = address.ip;
  if (ip.IsAny()) {
    if (use == EndpointUse::kListener || use == EndpointUse::kReserved) return Done();
    return Refuse(NdkStatus::kInvalidAddress, "address ", address.ToString(), ": a wildcard; name one address of ",
                  device.name);
  }
  if (ip.IsMulticast()) {
    return Refuse(NdkStatus::kInvalidAddress, "address ", address.ToString(), ": a multicast address; name one of ",
                  device.name);
  }
  if (HasAddress(device, ip)) return Done();
  if (ip.IsLinkLocal() && (ip.scope_id == 0 || presence == Presence::kNow)) {
    Outcome refusal = RefuseScope(device, address);
    if (refusal.status != NdkStatus::kSuccess) return refusal;
  }
  for (const auto& [name, id] : turn.index.device_names) {
    const Device& other = std::as_const(turn.records.devices).at(id).device;
    // User-space iWARP has all addresses, those of hardware included.
    if (!AreOfOneKind(other, device) || !HasAddress(other, ip)) continue;
    // Which one not every user may know.
    return Refuse(NdkStatus::kInvalidAddress, "address ", address.ToString(),
                  ": an address of another adapter, not of ", device.name, "; open that");
  }
  if (presence == Presence::kAwaited) return Done();
  Outcome refusal = Refuse(NdkStatus::kInvalidAddress, "address ", address.ToString(), ": not an address of ",
                           device.name, "; give it to its network interface",
                           use == EndpointUse::kListener ? ", or listen with await_address" : "");
  refusal.retryable = true;
  return refusal;
}

}  // namespace

bool HasAddress(const Device& device, const IpAddress& ip) {
  return std::binary_search(device.addresses.begin(), device.addresses.end(), ip);
}

Outcome AcquireEndpoint(Turn& turn, SessionId session, const Device& device, EndpointUse use,
                        const SocketAddress& address, Presence presence, ObjectId owner, EndpointId& id) {
  const uint32_t uid = turn.records.sessions.at(session).identity.uid;
  if (Outcome refused = RefuseUser(turn, uid, address); refused.status != NdkStatus::kSuccess) return refused;
  Outcome refusal = RefuseAddress(turn, device, use, address, presence);
  if (refusal.status != NdkStatus::kSuccess) return refusal;
  EndpointRecord endpoint;
  endpoint.device = device.id;
  endpoint.network_namespace = device.network_namespace;
  endpoint.port_space = device.port_space;
  endpoint.use = use;
  endpoint.address = address;
  endpoint.ips = PlacesOf(endpoint, device);
  endpoint.ephemeral = address.port == 0;
  endpoint.uid = uid;
  endpoint.references = 1;
  endpoint.owner = owner;
  if (endpoint.ephemeral && !ChoosePort(turn, endpoint)) return NoPortLeft(turn, endpoint);
  if (const EndpointRecord* other = InTheWayOf(turn, endpoint)) {
    const bool here = other->device == endpoint.device;
    return InUse(endpoint, here ? "a client of this broker" : "a client of this broker on another adapter");
  }
  ++turn.records.devices.at(device.id).endpoints;
  NewIds<EndpointKind> ids(turn.records.counters.id_key, turn.records.counters.endpoint);
  id = endpoint.id = ids.Next(turn.records.endpoints);
  ids.Take();
  turn.index.states.Count(endpoint, 1);
  turn.index.lists.endpoints.Add(uid, id);
  EmitBind(turn, turn.records.endpoints[id] = std::move(endpoint));
  return Pending();
}

void RepurposeEndpoint(Turn& turn, EndpointId id, EndpointUse use, ObjectId owner) {
  EndpointRecord& endpoint = turn.records.endpoints.at(id);
  SetState(turn, endpoint, EndpointState::kRepurposing);
  endpoint.use = use;
  endpoint.owner = owner;
  turn.Emit(FabricRepurpose{endpoint.device, id, use});
}

void GiveBackEndpoint(Turn& turn, EndpointId id, ReservationId owner) {
  EndpointRecord& endpoint = turn.records.endpoints.at(id);
  endpoint.use = EndpointUse::kReserved;
  endpoint.owner = owner;
  endpoint.references = 1;
}

bool LeaveEndpoint(Turn& turn, ObjectRecord& object, const ObjectId& id) {
  if (!object.endpoint) return true;
  if (!object.left_endpoint) {
    object.left_endpoint = true;
    DropReference(turn, object.endpoint);
  }
  const auto& endpoints = std::as_const(turn.records.endpoints);
  const auto endpoint = endpoints.find(object.endpoint);
  return endpoint == endpoints.end() || endpoint->second.owner != id;
}

void AddReference(Turn& turn, EndpointId id) { ++turn.records.endpoints.at(id).references; }

void DropReference(Turn& turn, EndpointId id) {
  EndpointRecord& endpoint = turn.records.endpoints.at(id);
  --endpoint.references;
  UnbindIfUnused(turn, endpoint);
}

void StandOn(Turn& turn, ConnectionRecord& connection, EndpointId id) {
  connection.endpoint = id;
  ++turn.records.endpoints.at(id).connections;
}

void StepOff(Turn& turn, const ConnectionRecord& connection) {
  if (!connection.endpoint) return;
  EndpointRecord& endpoint = turn.records.endpoints.at(connection.endpoint);
  --endpoint.connections;
  UnbindIfUnused(turn, endpoint);
}

AdapterId AdapterAt(const Turn& turn, const ListenerRecord& listener, DeviceId device) {
  const auto& adapters = std::as_const(turn.records.adapters);
  if (adapters.at(listener.adapter).device == device) return listener.adapter;
  const auto on_device = turn.index.adapters_on.find({device, listener.session});
  if (!listener.any_adapter || on_device == turn.index.adapters_on.end()) return AdapterId();
  const auto open = [&](AdapterId id) { return !adapters.at(id).closing; };
  const auto first = std::find_if(on_device->second.begin(), on_device->second.end(), open);
  return first == on_device->second.end() ? AdapterId() : *first;
}

DeviceId DeviceFor(const Turn& turn, const ListenerRecord& listener, const IpAddress& ip, DeviceId now) {
  const Device& own = DeviceOf(turn, listener.adapter);
  if (IsRemoved(turn, listener.adapter)) return now;
  for (const DeviceId id : {now, own.id}) {
    if (IsReachedOn(turn, listener, ip, id)) return id;
  }
  // Two have it only while it moves; the order is not the hash table's.
  DeviceId found = own.id;
  AdapterId first;
  for (const auto& [name, id] : turn.index.device_names) {
    if (!AreOfOneKind(std::as_const(turn.records.devices).at(id).device, own) || !IsReachedOn(turn, listener, ip, id))
      continue;
    const AdapterId adapter = AdapterAt(turn, listener, id);
    if (first && first < adapter) continue;
    first = adapter;
    found = id;
  }
  return found;
}

void FollowAddresses(Turn& turn, DeviceId device) {
  std::set<EndpointId> affected;
  for (const auto& [id, endpoint] : turn.records.endpoints) {
    if (endpoint.device == device) affected.insert(id);
  }
  for (const auto& [session, listener] : turn.index.roaming) {
    const EndpointId endpoint = std::as_const(turn.records.listeners).at(listener).endpoint;
    if (endpoint) affected.insert(endpoint);
  }
  for (const EndpointId id : affected) Follow(turn, id);
}

void FollowToAdapters(Turn& turn, SessionId session) {
  const auto& listeners = std::as_const(turn.records.listeners);
  for (auto next = turn.index.roaming.lower_bound({session, ListenerId()});
       next != turn.index.roaming.end() && next->first == session; ++next) {
    const EndpointId endpoint = listeners.at(next->second).endpoint;
    if (endpoint) Follow(turn, endpoint);
  }
}

void Handle(Turn& turn, const FabricBound& report) {
  EndpointRecord* endpoint = FindIn(turn, report.endpoint, {EndpointState::kBinding, EndpointState::kRepurposing});
  if (endpoint == nullptr) return;
  const bool taken = endpoint->state == EndpointState::kRepurposing;
  SetState(turn, *endpoint, EndpointState::kBound);
  const ObjectId owner = endpoint->owner;
  OnBound(turn, owner, report.endpoint);
  UnbindIfUnused(turn, *endpoint);
  // The reservation may have lost its address before it was taken over: the new owner learns it here.
  if (taken && endpoint->ips.empty()) TellOfAddress(turn, *endpoint);
  Follow(turn, report.endpoint);
}

void Handle(Turn& turn, const FabricBindFailed& report) {
  EndpointRecord* endpoint = FindIn(turn, report.endpoint, {EndpointState::kBinding, EndpointState::kRepurposing});
  if (endpoint == nullptr) return;
  Outcome outcome = report.status == NdkStatus::kSharingViolation
                        ? InUse(*endpoint, "a process outside the broker")
                        : Refuse(report.status, "address ", endpoint->address.ToString(), ": cannot be bound");
  outcome.provider_error = report.provider_error;
  if (endpoint->state == EndpointState::kRepurposing) {
    SetState(turn, *endpoint, EndpointState::kBound);
    const ObjectId taker = endpoint->owner;
    OnBindFailed(turn, taker, report.endpoint, outcome);
    Follow(turn, report.endpoint);
    return TryFinishClose(turn, taker);
  }
  // Somebody outside the broker has the port that the core chose: the next one, unless nobody wants it any more.
  const bool device_is_there = !turn.records.devices.at(endpoint->device).removed;
  if (endpoint->ephemeral && report.status == NdkStatus::kSharingViolation && endpoint->references != 0 &&
      device_is_there) {
    const PortKey refused = PortOf(*endpoint);
    LeavePort(turn, *endpoint);
    if (ChoosePort(turn, *endpoint)) {
      EmitBind(turn, *endpoint);
      return FollowOnPort(turn, refused);
    }
    endpoint->address.port = refused.port;
    TakePort(turn, *endpoint);
    outcome = NoPortLeft(turn, *endpoint);
  }
  OnBindFailed(turn, endpoint->owner, report.endpoint, outcome);
  Erase(turn, report.endpoint);
}

void Handle(Turn& turn, const FabricUnbound& report) {
  if (FindIn(turn, report.endpoint, {EndpointState::kUnbinding}) != nullptr) Erase(turn, report.endpoint);
}

}  // namespace rdmabroker
