// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/model_client.h"

#include "absl/strings/str_cat.h"

namespace rdmabroker {
namespace {

constexpr size_t kTokenSize = 8;
// Beyond these a client that asks for more is only kept from getting anywhere.
constexpr size_t kEnoughConnectors = 7;
constexpr size_t kEnough = 3;
// Requests without an answer.
constexpr size_t kAtATime = 3;
// Events that no broker has numbered yet. To acknowledge some that it has numbered, and not seen, is to lose them.
constexpr uint64_t kFarBeyond = 100000;

Bytes WithToken(uint64_t token) {
  Bytes data(kTokenSize);
  for (size_t i = 0; i < kTokenSize; ++i) data[i] = static_cast<uint8_t>(token >> (8 * i));
  return data;
}

// Whether an object with this id may be named although the client does not know it.
template <typename Kind>
Id<Kind> Guess(Dice& dice) {
  return Id<Kind>(dice.Below(24));
}

}  // namespace

uint64_t TokenIn(const Bytes& data) {
  uint64_t token = 0;
  for (size_t i = 0; data.size() >= kTokenSize && i < kTokenSize; ++i) token |= uint64_t{data[i]} << (8 * i);
  return token;
}

void ModelClient::Forget() {
  EndTransports();
  session = {};
  stream = {};
  seen_ = {};
  last_request_ = {};
  unanswered_.clear();
  pending_.clear();
  guesses_.clear();
  adapters_.clear();
  listeners_.clear();
  shared_endpoints_.clear();
  reservations_.clear();
  connectors_.clear();
}

bool ModelClient::HasNothing() const {
  return adapters_.empty() && listeners_.empty() && shared_endpoints_.empty() && reservations_.empty() &&
         connectors_.empty();
}

std::string ModelClient::Describe() const {
  std::string waiting;
  for (const auto& [id, request] : pending_) absl::StrAppend(&waiting, "request ", id.value(), " is pending, ");
  return absl::StrCat(waiting, "session ", session.value(), ": ", unanswered_.size(), " unanswered, ", pending_.size(),
                      " pending, ", adapters_.size(), " adapters, ", listeners_.size(), " listeners, ",
                      shared_endpoints_.size(), " shared endpoints, ", reservations_.size(), " reservations, ",
                      connectors_.size(), " connectors");
}

// --- Asking ---

std::optional<ClientRequest> ModelClient::Ask() {
  if (!session) return std::nullopt;
  // A client that went on without answers would lose those that the broker keeps for it.
  const bool behind = !unanswered_.empty() &&
                      last_request_.value() - unanswered_.begin()->first.value() + 2 >= world_.limits.answers_kept;
  if (behind || unanswered_.size() >= kAtATime) return world_.dice.Percent(10) ? Repeat() : std::nullopt;
  return Send(Choose());
}

std::optional<ClientRequest> ModelClient::Repeat() {
  if (!session || unanswered_.empty()) return std::nullopt;
  auto which = unanswered_.begin();
  std::advance(which, world_.dice.Below(unanswered_.size()));
  return ClientRequest{session, which->first, Seen(), which->second};
}

ClientRequest ModelClient::Send(Request request) {
  last_request_ = RequestId(last_request_.value() + 1);
  const RequestId id = last_request_;
  unanswered_[id] = request;
  if (!Knows(request)) guesses_.insert(id);
  std::visit(
      [&](const auto& typed) {
        if constexpr (requires { typed.connector; }) {
          const auto own = connectors_.find(typed.connector);
          if (own != connectors_.end() && !own->second.busy) own->second.busy = id;
        }
      },
      request);
  return {session, id, Seen(), std::move(request)};
}

bool ModelClient::Knows(const Request& closes) const {
  if (const auto* connector = std::get_if<CloseConnector>(&closes)) return connectors_.contains(connector->connector);
  if (const auto* listener = std::get_if<CloseListener>(&closes)) return listeners_.contains(listener->listener);
  if (const auto* shared = std::get_if<CloseSharedEndpoint>(&closes)) {
    return shared_endpoints_.contains(shared->shared_endpoint);
  }
  if (const auto* reservation = std::get_if<ReleasePort>(&closes))
    return reservations_.contains(reservation->reservation);
  if (const auto* adapter = std::get_if<CloseAdapter>(&closes)) return adapters_.contains(adapter->adapter);
  return true;
}

EventNumber ModelClient::Seen() {
  if (world_.calm) return seen_;
  if (world_.dice.Permille(3)) return EventNumber(seen_.value() + kFarBeyond);
  if (world_.dice.Percent(10)) return EventNumber(world_.dice.Below(seen_.value() + 1));
  return seen_;
}

const Device& ModelClient::DeviceOf(AdapterId adapter) const {
  const auto own = adapters_.find(adapter);
  const auto device = own == adapters_.end() ? devices_.end() : devices_.find(own->second.device);
  return device == devices_.end() ? devices_.begin()->second : device->second;
}

bool ModelClient::IsRemoved(AdapterId adapter) const {
  const auto own = adapters_.find(adapter);
  return own != adapters_.end() && own->second.removed;
}

template <typename Kind, typename Object>
Id<Kind> ModelClient::Any(const std::map<Id<Kind>, Object>& objects) {
  if (objects.empty() || world_.dice.Percent(3)) return Guess<Kind>(world_.dice);
  auto which = objects.begin();
  std::advance(which, world_.dice.Below(objects.size()));
  return which->first;
}

SocketAddress ModelClient::AnyLocal(AdapterId adapter, bool wildcard) {
  Dice& dice = world_.dice;
  SocketAddress address;
  const auto& own = DeviceOf(adapter).addresses;
  if (wildcard && dice.Percent(20)) {
    address.ip = IpAddress::Any(dice.Percent(70) ? IpFamily::kIpv4 : IpFamily::kIpv6);
  } else if (own.empty() || dice.Percent(3)) {
    address.ip = *IpAddress::Parse("203.0.113.9");
  } else {
    address.ip = dice.Of(own);
  }
  if (dice.Percent(55)) address.port = static_cast<uint16_t>(4420 + dice.Below(4));
  return address;
}

SocketAddress ModelClient::AnyTarget(AdapterId adapter) {
  Dice& dice = world_.dice;
  const PortSpace port_space = DeviceOf(adapter).port_space;
  for (int tries = 0; tries < 8 && !world_.targets.empty() && dice.Percent(97); ++tries) {
    // The newest ones listen most probably.
    const size_t recent = std::min<size_t>(world_.targets.size(), 12);
    const Target& target = world_.targets[world_.targets.size() - 1 - dice.Below(recent)];
    if (target.port_space == port_space) return target.address;
  }
  SocketAddress address = AnyLocal(adapter, false);
  if (dice.Percent(5)) address.ip = *IpAddress::Parse(dice.Percent(50) ? "224.0.0.1" : "203.0.113.9");
  return address;
}

QpNumber ModelClient::AnyQp() {
  return {static_cast<uint32_t>(world_.dice.Percent(2) ? 0 : 2 + world_.dice.Below(40))};
}

ReadLimits ModelClient::AnyLimits() {
  return {static_cast<uint32_t>(world_.dice.Below(24)), static_cast<uint32_t>(world_.dice.Below(24))};
}

Bytes ModelClient::AnyData() {
  if (world_.dice.Percent(5)) return {};
  Bytes data = WithToken(++world_.last_token);
  if (world_.dice.Percent(3)) data.resize(200);
  return data;
}

Request ModelClient::Choose() { return world_.dice.Percent(6) ? ChooseSenseless() : ChooseSensible(); }

Request ModelClient::ChooseSensible() {
  Dice& dice = world_.dice;
  if (adapters_.empty() || (adapters_.size() < kEnough && dice.Percent(3))) {
    auto device = devices_.begin();
    std::advance(device, dice.Below(devices_.size()));
    const NdkVersion version{2, static_cast<uint16_t>(dice.Percent(4) ? 9 : dice.Below(2))};
    return OpenAdapter{dice.Percent(2) ? "nothing" : device->first, version};
  }
  for (auto& [id, own] : adapters_) {
    if (own.removed && dice.Percent(20)) return CloseAdapter{id};
  }
  // Peers wait for these.
  for (auto& [id, own] : connectors_) {
    const bool waited_for = own.phase == Phase::kRequested || own.phase == Phase::kReplied;
    if (waited_for && !own.busy && dice.Percent(70)) return ForConnector(id, own);
  }
  const AdapterId adapter = Any(adapters_);
  const uint64_t choice = dice.Below(100);
  if (choice < 50 && !connectors_.empty()) {
    const auto own = connectors_.find(Any(connectors_));
    if (own != connectors_.end()) return ForConnector(own->first, own->second);
  }
  if (choice < 60 && connectors_.size() < kEnoughConnectors) return CreateConnector{adapter};
  if (choice < 68 && !listeners_.empty()) {
    const auto own = listeners_.find(Any(listeners_));
    if (own != listeners_.end()) return ForListener(own->first, own->second);
  }
  if (choice < 78 && listeners_.size() < kEnough) return CreateListener{adapter};
  if (choice < 86 && shared_endpoints_.size() < 2) {
    const auto reserved = reservations_.find(Any(reservations_));
    if (reserved != reservations_.end() && dice.Percent(50)) {
      return CreateSharedEndpoint{reserved->second.adapter, {}, reserved->first};
    }
    return CreateSharedEndpoint{adapter, AnyLocal(adapter, false), {}};
  }
  if (choice < 92 && reservations_.size() < 2) return ReservePort{adapter, AnyLocal(adapter, true)};
  if (choice < 98 || connectors_.empty()) return ToClose();
  return GetConnectionData{Any(connectors_)};
}

Request ModelClient::ForListener(ListenerId id, const OwnListener& listener) {
  Dice& dice = world_.dice;
  if (IsRemoved(listener.adapter)) return CloseListener{id};
  if (listener.asked && dice.Percent(90)) return ControlConnectEvents{id, dice.Percent(30)};
  const auto reserved = reservations_.find(Any(reservations_));
  if (reserved != reservations_.end() && (reserved->second.adapter == listener.adapter || dice.Percent(10))) {
    return Listen{id, {}, reserved->first};
  }
  return Listen{id, AnyLocal(listener.adapter, true), {}, dice.Percent(30)};
}

Request ModelClient::ForConnector(ConnectorId id, OwnConnector& connector) {
  Dice& dice = world_.dice;
  const uint64_t choice = dice.Below(100);
  if (choice < 4 || connector.phase == Phase::kDead || IsRemoved(connector.adapter)) return CloseConnector{id};
  if (connector.busy && choice < 90) return GetConnectionData{id};
  switch (connector.phase) {
    case Phase::kIdle:
      return ToConnect(id, connector);
    case Phase::kReplied:
      if (choice < 85) return CompleteConnect{id};
      return Reject{id, AnyData()};
    case Phase::kRequested:
      if (choice < 80) return Accept{id, AnyQp(), AnyLimits(), AnyData()};
      return Reject{id, AnyData()};
    case Phase::kEstablished:
    case Phase::kEnding:
      if (connector.phase == Phase::kEstablished && !connector.peer_ended && choice < 50) return GetConnectionData{id};
      return EndOf(id, connector);
    case Phase::kDead:
      break;
  }
  return CloseConnector{id};
}

Request ModelClient::ToConnect(ConnectorId id, const OwnConnector& connector) {
  Dice& dice = world_.dice;
  const SocketAddress target = AnyTarget(connector.adapter);
  const SharedEndpointId shared = Any(shared_endpoints_);
  const auto own = shared_endpoints_.find(shared);
  if (own != shared_endpoints_.end() && dice.Percent(own->second.adapter == connector.adapter ? 60 : 5)) {
    return ConnectWithSharedEndpoint{id, AnyQp(), shared, target, AnyLimits(), AnyData()};
  }
  SocketAddress source = AnyLocal(connector.adapter, dice.Percent(5));
  for (int tries = 0; tries < 4 && source.ip.family != target.ip.family; ++tries) {
    source = AnyLocal(connector.adapter, false);
  }
  return Connect{id, AnyQp(), source, target, AnyLimits(), AnyData()};
}

Request ModelClient::EndOf(ConnectorId id, OwnConnector& connector) {
  Dice& dice = world_.dice;
  const auto adapter = adapters_.find(connector.adapter);
  const bool own = adapter != adapters_.end() && adapter->second.client_ends_connections;
  if (own ? dice.Percent(90) : dice.Percent(4)) {
    const bool graceful = dice.Percent(60);
    EndTransport(connector, graceful);
    return ReportConnectionEnd{id, graceful, graceful ? 0u : 104u};
  }
  return Disconnect{id};
}

Request ModelClient::ToClose() {
  Dice& dice = world_.dice;
  const uint64_t choice = dice.Below(100);
  if (choice < 30 && !listeners_.empty()) return CloseListener{Any(listeners_)};
  if (choice < 55 && !shared_endpoints_.empty()) return CloseSharedEndpoint{Any(shared_endpoints_)};
  if (choice < 75 && !reservations_.empty()) return ReleasePort{Any(reservations_)};
  if (choice < 78 || connectors_.empty()) return CloseAdapter{Any(adapters_)};
  return CloseConnector{Any(connectors_)};
}

Request ModelClient::ChooseSenseless() {
  Dice& dice = world_.dice;
  const AdapterId adapter = Any(adapters_);
  const ConnectorId connector = Any(connectors_);
  const Request some[] = {
      OpenAdapter{"", {1, 0}},
      CloseAdapter{Guess<AdapterKind>(dice)},
      CreateListener{Guess<AdapterKind>(dice)},
      Listen{Any(listeners_), AnyLocal(adapter, true), Guess<ReservationKind>(dice)},
      ControlConnectEvents{Guess<ListenerKind>(dice), dice.Percent(50)},
      CloseListener{Guess<ListenerKind>(dice)},
      CreateSharedEndpoint{adapter, AnyLocal(adapter, true), Guess<ReservationKind>(dice)},
      CloseSharedEndpoint{Guess<SharedEndpointKind>(dice)},
      ReservePort{Guess<AdapterKind>(dice), AnyLocal(adapter, true)},
      ReleasePort{Guess<ReservationKind>(dice)},
      CreateConnector{Guess<AdapterKind>(dice)},
      Connect{connector, AnyQp(), AnyLocal(adapter, true), AnyTarget(adapter), AnyLimits(), AnyData()},
      ConnectWithSharedEndpoint{connector, AnyQp(), Any(shared_endpoints_), AnyTarget(adapter), AnyLimits(), AnyData()},
      CompleteConnect{connector},
      Accept{connector, AnyQp(), AnyLimits(), AnyData()},
      Reject{connector, AnyData()},
      Disconnect{connector},
      GetConnectionData{Guess<ConnectorKind>(dice)},
      ReportConnectionEnd{connector, dice.Percent(50), 5},
      CloseConnector{Guess<ConnectorKind>(dice)},
  };
  return some[dice.Below(std::size(some))];
}

std::optional<ClientRequest> ModelClient::Close() {
  if (!session) return std::nullopt;
  for (auto& [id, own] : connectors_) {
    if (std::exchange(own.closing, true)) continue;
    EndTransport(own, true);
    return Send(CloseConnector{id});
  }
  for (auto& [id, own] : listeners_) {
    if (!std::exchange(own.closing, true)) return Send(CloseListener{id});
  }
  for (auto& [id, own] : shared_endpoints_) {
    if (!std::exchange(own.closing, true)) return Send(CloseSharedEndpoint{id});
  }
  for (auto& [id, own] : reservations_) {
    if (!std::exchange(own.closing, true)) return Send(ReleasePort{id});
  }
  for (auto& [id, own] : adapters_) {
    if (!std::exchange(own.closing, true)) return Send(CloseAdapter{id});
  }
  return std::nullopt;
}

// --- Hearing ---

void ModelClient::On(const Answer& answer) {
  if (answer.session != session) return;
  const auto asked = unanswered_.find(answer.id);
  if (asked == unanswered_.end()) return;  // A second answer, or one after its outcome.
  const Request request = asked->second;
  unanswered_.erase(asked);
  if (answer.outcome.status == NdkStatus::kPending) {
    pending_[answer.id] = request;
  } else {
    Conclude(answer.id, request, answer.outcome);
  }
}

void ModelClient::On(const NumberedEvent& event) {
  if (event.session != session || event.stream != stream || event.number <= seen_) return;
  seen_ = event.number;
  if (const auto* outcome = std::get_if<OutcomeEvent>(&event.event)) {
    // An outcome may overtake the answer that announces it.
    for (auto* waiting : {&pending_, &unanswered_}) {
      const auto found = waiting->find(outcome->request);
      if (found == waiting->end()) continue;
      const Request request = found->second;
      waiting->erase(found);
      return Conclude(outcome->request, request, outcome->outcome);
    }
  } else if (const auto* connect = std::get_if<ConnectEvent>(&event.event)) {
    OwnConnector& own = connectors_[connect->connector];
    own.phase = Phase::kRequested;
    const auto listener = listeners_.find(connect->listener);
    if (listener != listeners_.end()) own.adapter = listener->second.adapter;
  } else if (const auto* ended = std::get_if<DisconnectEvent>(&event.event)) {
    const auto own = connectors_.find(ended->connector);
    if (own != connectors_.end()) own->second.phase = Phase::kEnding;
  } else if (const auto* removed = std::get_if<AdapterRemovedEvent>(&event.event)) {
    const auto own = adapters_.find(removed->adapter);
    if (own != adapters_.end()) own->second.removed = true;
  }
}

void ModelClient::Conclude(RequestId id, const Request& request, const Outcome& outcome) {
  if (IsSuccess(outcome.status)) NoteSuccess(request, outcome);
  NoteConnector(id, request, outcome);
  const bool guessed = guesses_.erase(id) > 0;
  const bool unknown = outcome.status == NdkStatus::kObjectNameNotFound && !guessed;
  if (IsSuccess(outcome.status) || unknown) NoteClosed(request);
}

void ModelClient::NoteSuccess(const Request& request, const Outcome& outcome) {
  if (const auto* opened = std::get_if<AdapterOpened>(&outcome.payload)) {
    adapters_[opened->adapter] = {std::get<OpenAdapter>(request).device, opened->client_ends_connections};
  } else if (const auto* listener = std::get_if<ListenerCreated>(&outcome.payload)) {
    listeners_[listener->listener].adapter = std::get<CreateListener>(request).adapter;
  } else if (const auto* listening = std::get_if<Listening>(&outcome.payload)) {
    const Listen& listen = std::get<Listen>(request);
    reservations_.erase(listen.reservation);
    const auto own = listeners_.find(listen.listener);
    if (own == listeners_.end()) return;
    own->second.asked = true;
    own->second.target = NoteTarget(own->second.adapter, listening->address);
  } else if (const auto* shared = std::get_if<SharedEndpointCreated>(&outcome.payload)) {
    const CreateSharedEndpoint& create = std::get<CreateSharedEndpoint>(request);
    reservations_.erase(create.reservation);
    shared_endpoints_[shared->shared_endpoint].adapter = create.adapter;
  } else if (const auto* reserved = std::get_if<PortReserved>(&outcome.payload)) {
    reservations_[reserved->reservation].adapter = std::get<ReservePort>(request).adapter;
  } else if (const auto* connector = std::get_if<ConnectorCreated>(&outcome.payload)) {
    connectors_[connector->connector].adapter = std::get<CreateConnector>(request).adapter;
  }
}

SocketAddress ModelClient::NoteTarget(AdapterId adapter, SocketAddress address) {
  const Device& device = DeviceOf(adapter);
  if (address.ip.IsAny()) {
    for (const IpAddress& ip : device.addresses) {
      if (ip.family == address.ip.family) address.ip = ip;
    }
  }
  world_.targets.push_back({device.port_space, address});
  return address;
}

void ModelClient::NoteConnector(RequestId id, const Request& request, const Outcome& outcome) {
  const bool success = IsSuccess(outcome.status);
  std::visit(
      [&](const auto& typed) {
        using Typed = std::decay_t<decltype(typed)>;
        if constexpr (requires { typed.connector; }) {
          const auto found = connectors_.find(typed.connector);
          if (found == connectors_.end()) return;
          OwnConnector& own = found->second;
          const bool mine = own.busy == id;
          if (mine) own.busy = {};
          if constexpr (std::is_same_v<Typed, Connect> || std::is_same_v<Typed, ConnectWithSharedEndpoint>) {
            if (success) own.phase = Phase::kReplied;
          } else if constexpr (std::is_same_v<Typed, CompleteConnect> || std::is_same_v<Typed, Accept>) {
            if (!success && mine) own.phase = Phase::kDead;
            if (!success) return;
            // A DisconnectEvent cannot have come before.
            own.phase = Phase::kEstablished;
            const auto& established = std::get<ConnectionEstablished>(outcome.payload);
            // Some clients never fetch what is theirs.
            if (!established.handoff || world_.dice.Percent(10)) return;
            if (const auto transport = fabric_.Fetch(*established.handoff)) own.transport = *transport;
          } else if constexpr (!std::is_same_v<Typed, GetConnectionData>) {
            if (success) own.phase = Phase::kDead;
          }
        }
      },
      request);
}

void ModelClient::NoteClosed(const Request& request) {
  if (const auto* connector = std::get_if<CloseConnector>(&request)) {
    const auto own = connectors_.find(connector->connector);
    if (own == connectors_.end()) return;
    EndTransport(own->second, true);
    connectors_.erase(own);
  } else if (const auto* listener = std::get_if<CloseListener>(&request)) {
    const auto own = listeners_.find(listener->listener);
    if (own == listeners_.end()) return;
    std::erase_if(world_.targets, [&](const Target& target) { return target.address == own->second.target; });
    listeners_.erase(own);
  } else if (const auto* shared = std::get_if<CloseSharedEndpoint>(&request)) {
    shared_endpoints_.erase(shared->shared_endpoint);
  } else if (const auto* reservation = std::get_if<ReleasePort>(&request)) {
    reservations_.erase(reservation->reservation);
  } else if (const auto* adapter = std::get_if<CloseAdapter>(&request)) {
    adapters_.erase(adapter->adapter);
  }
}

// --- Transports ---

bool ModelClient::OnTransportEnd(ConnectionId transport) {
  for (auto& [id, own] : connectors_) {
    if (own.transport != transport) continue;
    own.peer_ended = true;
    own.phase = Phase::kEnding;
    return true;
  }
  return false;
}

void ModelClient::EndTransport(OwnConnector& connector, bool gracefully) {
  if (const ConnectionId transport = std::exchange(connector.transport, {}))
    fabric_.EndTransport(transport, gracefully);
}

void ModelClient::EndTransports() {
  for (auto& [id, own] : connectors_) EndTransport(own, false);
}

}  // namespace rdmabroker
