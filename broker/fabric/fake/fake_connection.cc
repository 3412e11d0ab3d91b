// SPDX-License-Identifier: Apache-2.0

// FakeFabric's connections: what the core asks of them and what their peers send.

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "broker/fabric/fake/fake_fabric.h"

namespace rdmabroker {
namespace {

// Wires whose request has come: a doubled request is at most this many connections late. InfiniBand's communication
// manager remembers finished connections for a time, too (its timewait state).
constexpr size_t kSeenWires = 4096;

// enum ibv_qp_state.
constexpr uint32_t kInit = 1;
constexpr uint32_t kReadyToReceive = 2;
constexpr uint32_t kReadyToSend = 3;

}  // namespace

void FakeFabric::Carry(const FabricConnect& request) {
  if (connections_.contains(request.connection) || !endpoints_.contains(request.endpoint)) {
    return network_.Breach(absl::StrCat("FabricConnect: connection ", request.connection.value(),
                                        " is there already, or endpoint ", request.endpoint.value(), " is not"));
  }
  Connection& connection = connections_[request.connection];
  connection.id = request.connection;
  connection.device = request.device;
  connection.endpoint = request.endpoint;
  connection.qp = request.qp;
  connection.end = {network_.NewWire(), true, HostId()};
  const FakeDevice* fake = Find(request.device);
  std::optional<Fault> fault = TakeFault(request.device, Step::kConnect);
  if (fake == nullptr) {
    fault = Fault{NdkStatus::kDeviceRemoved, ENODEV};
  } else if (!fault) {
    const FakeNetwork::Route route = network_.RouteTo(fake->device, request.peer);
    connection.end.peer = route.host;
    if (route.status != NdkStatus::kSuccess) fault = Fault{route.status, EHOSTUNREACH};
  }
  if (fault) {
    connection.state = State::kEnded;
    return network_.Say(
        host_, FabricConnectFailed{request.connection, fault->status, fault->provider_error, {}, fault->qp_reusable});
  }
  connection.three_way = fake->three_way;
  wires_[{connection.end.wire, true}] = request.connection;
  WireMessage message{.kind = WireMessage::Kind::kRequest};
  message.source = request.local;
  message.destination = request.peer;
  message.port_space = fake->device.port_space;
  message.qp = request.qp;
  message.limits = request.limits;
  message.options = request.options;
  message.private_data = request.private_data;
  message.three_way = fake->three_way;
  SendOn(connection.end, std::move(message));
}

void FakeFabric::Carry(const FabricComplete& request) {
  Connection* connection = Expect(request.connection, {State::kReplied}, "FabricComplete");
  if (connection == nullptr || connection->state == State::kEnded) return;
  if (const auto fault = TakeFault(request.device, Step::kComplete)) {
    SendOn(*connection, WireMessage::Kind::kAbort);
    return Fail(*connection, *fault);
  }
  if (connection->three_way) SendOn(*connection, WireMessage::Kind::kReady);
  Establish(*connection);
}

void FakeFabric::Carry(const FabricAccept& request) {
  Connection* connection = Expect(request.connection, {State::kRequested}, "FabricAccept");
  if (connection == nullptr || connection->state == State::kEnded) return;
  const auto fault = TakeFault(request.device, Step::kAccept);
  if (fault) SendOn(*connection, WireMessage::Kind::kAbort);
  if (connection->abandoned || fault) {
    return Fail(*connection, fault.value_or(Fault{NdkStatus::kConnectionAborted, EINVAL}));
  }
  connection->qp = request.qp;
  WireMessage message{.kind = WireMessage::Kind::kReply};
  message.qp = request.qp;
  message.limits = request.limits;
  message.options = request.options;
  message.private_data = request.private_data;
  message.three_way = connection->three_way;
  SendOn(connection->end, std::move(message));
  connection->state = State::kAccepting;
  if (!connection->three_way) Establish(*connection);
}

void FakeFabric::Carry(const FabricReject& request) {
  const Connection* connection = Expect(request.connection, {State::kRequested, State::kReplied}, "FabricReject");
  if (connection == nullptr) return;
  // Where there is no third message, a reply cannot be rejected, only the stream closed.
  const bool can_say = connection->state == State::kRequested || connection->three_way;
  if (connection->state != State::kEnded && !connection->abandoned) {
    WireMessage message{.kind = can_say ? WireMessage::Kind::kReject : WireMessage::Kind::kAbort};
    message.reason = kReasonConsumer;
    message.private_data = request.private_data;
    SendOn(connection->end, std::move(message));
  }
  Drop(request.connection);
}

void FakeFabric::Carry(const FabricRefuse& request) {
  const Connection* connection = Expect(request.connection, {State::kRequested}, "FabricRefuse");
  if (connection == nullptr) return;
  if (connection->state != State::kEnded && !connection->abandoned) {
    SendOn(connection->end, {.kind = WireMessage::Kind::kReject, .reason = kReasonNoListener});
  }
  Drop(request.connection);
}

void FakeFabric::Carry(const FabricDisconnect& request) {
  Connection* connection = Expect(request.connection, {State::kEstablished}, "FabricDisconnect");
  if (connection == nullptr || connection->state == State::kEnded) return;
  if (const FakeDevice* fake = Find(connection->device); fake != nullptr && fake->device.client_ends_connections) {
    return network_.Breach(absl::StrCat("FabricDisconnect: clients end connections of device ", fake->device.name));
  }
  if (const auto fault = TakeFault(request.device, Step::kDisconnect)) {
    SendOn(*connection, WireMessage::Kind::kAbort);
    return Disconnected(*connection, fault->status);
  }
  SendOn(*connection, WireMessage::Kind::kDisconnect);
  connection->state = State::kDisconnecting;
}

void FakeFabric::Carry(const FabricRelease& request) {
  const auto found = connections_.find(request.connection);
  if (found == connections_.end()) {
    return network_.Breach(absl::StrCat("FabricRelease: connection ", request.connection.value(),
                                        " is not there, or was given up before"));
  }
  const Connection& connection = found->second;
  const FakeDevice* fake = Find(connection.device);
  const bool gracefully = fake != nullptr && fake->releases_gracefully;
  if (connection.handed_off) {
    // The client's transport goes on until the client ends it.
  } else if (connection.peer_waits || request.client_ended) {
    SendOn(connection, WireMessage::Kind::kDisconnect);
  } else if (connection.state == State::kEstablished) {
    SendOn(connection, gracefully ? WireMessage::Kind::kDisconnect : WireMessage::Kind::kAbort);
  } else if (connection.state != State::kEnded && !connection.abandoned) {
    SendOn(connection, WireMessage::Kind::kAbort);
  }
  Drop(request.connection);
}

FakeFabric::Connection* FakeFabric::Expect(ConnectionId id, std::initializer_list<State> states, const char* request) {
  const auto found = connections_.find(id);
  const bool fits =
      found != connections_.end() && (found->second.state == State::kEnded ||
                                      std::find(states.begin(), states.end(), found->second.state) != states.end());
  if (fits) return &found->second;
  network_.Breach(
      absl::StrCat(request, ": connection ", id.value(),
                   found == connections_.end() ? " is not there, or was given up" : " is not ready for it"));
  return nullptr;
}

void FakeFabric::SendOn(const Connection& connection, WireMessage::Kind kind) {
  SendOn(connection.end, {.kind = kind});
}

void FakeFabric::SendOn(const End& end, WireMessage message) {
  if (!end.peer) return;
  message.wire = end.wire;
  message.to_initiator = !end.initiator;
  message.from = host_;
  message.to = end.peer;
  network_.Send(std::move(message));
}

void FakeFabric::Establish(Connection& connection) {
  connection.state = State::kEstablished;
  const FakeDevice* fake = Find(connection.device);
  if (fake != nullptr && fake->device.client_ends_connections) {
    // Unlike any other of this network, and the same in every run.
    HandoffSecret secret = {};
    for (size_t byte = 0; byte < 8; ++byte) {
      secret[byte] = static_cast<uint8_t>(host_.value() >> (8 * byte));
      secret[8 + byte] = static_cast<uint8_t>(connection.id.value() >> (8 * byte));
    }
    connection.handoff = secret;
  }
  network_.Say(host_, FabricEstablished{connection.id, connection.handoff});
}

void FakeFabric::Fail(Connection& connection, const Fault& fault) {
  connection.state = State::kEnded;
  network_.Say(host_, FabricFailed{connection.id, fault.status, fault.provider_error});
}

void FakeFabric::Disconnected(Connection& connection, NdkStatus status) {
  connection.state = State::kEnded;
  const uint32_t error = status == NdkStatus::kSuccess ? 0 : ECONNRESET;
  network_.Say(host_, FabricDisconnected{connection.id, status, error});
}

void FakeFabric::Drop(ConnectionId id) {
  const Connection connection = connections_.at(id);
  Forget(connection);
  const FakeDevice* fake = Find(connection.device);
  const bool slow = fake != nullptr && fake->releases_slowly;
  releasing_[id] = {connection.device, slow};
  if (!slow) network_.Say(host_, FabricReleased{id});
}

void FakeFabric::Forget(const Connection& connection) {
  if (!transports_.contains(connection.id)) wires_.erase({connection.end.wire, connection.end.initiator});
  connections_.erase(ConnectionId(connection.id));
}

std::vector<QpAttributes> FakeFabric::AttributesFor(const FakeDevice& fake, bool three_way,
                                                    const WireMessage& peer) const {
  std::vector<QpAttributes> steps;
  // Without a third message the driver moves the queue pair, as on iWARP devices.
  if (fake.device.client_ends_connections || !three_way) return steps;
  for (const uint32_t state : {kInit, kReadyToReceive, kReadyToSend}) {
    QpAttributes step;
    step.qp_state = state;
    step.path_mtu = 5;  // enum ibv_mtu: 4096 bytes.
    step.dest_qp_number = peer.qp.value;
    step.port_number = 1;
    step.retry_count = 7;
    step.rnr_retry = peer.options.rnr_retry_count;
    steps.push_back(step);
  }
  return steps;
}

Bytes FakeFabric::Received(const FakeDevice& fake, const Bytes& data, uint32_t area) const {
  Bytes received = data;
  if (fake.pads_private_data) received.resize(std::max<size_t>(received.size(), area));
  return received;
}

// --- From the network ---

void FakeFabric::OnMessage(const WireMessage& message) {
  if (message.kind == WireMessage::Kind::kRequest) return OnRequest(message);
  const auto wire = wires_.find({message.wire, message.to_initiator});
  if (wire == wires_.end()) return network_.AnswerForNobody(message);
  if (transports_.contains(wire->second)) return OnTransportMessage(wire->second, message);
  Connection& connection = connections_.at(wire->second);
  if (connection.state == State::kEnded) return;
  switch (message.kind) {
    case WireMessage::Kind::kReply:
      return OnReply(connection, message);
    case WireMessage::Kind::kReady:
      return OnReady(connection);
    default:
      return OnPeerGone(connection, message);
  }
}

void FakeFabric::OnRequest(const WireMessage& message) {
  if (!seen_wires_.insert(message.wire).second) return;
  if (seen_wires_.size() > kSeenWires) seen_wires_.erase(seen_wires_.begin());
  const End end{message.wire, false, message.from};
  const EndpointId endpoint = ListenerAt(message);
  if (!endpoint) return SendOn(end, {.kind = WireMessage::Kind::kReject, .reason = kReasonNoListener});
  const DeviceId device = endpoints_.at(endpoint).device;
  const FakeDevice& fake = devices_.at(device);
  const ConnectionId id = IncomingConnection(device, ++last_incoming_);
  Connection& connection = connections_[id];
  connection.id = id;
  connection.device = device;
  connection.endpoint = endpoint;
  connection.state = State::kRequested;
  connection.end = end;
  connection.three_way = fake.three_way && message.three_way;
  connection.reported = false;
  wires_[{message.wire, false}] = id;
  network_.Say(
      host_, FabricConnectRequested{endpoint, id, message.destination, message.source, message.limits,
                                    Received(fake, message.private_data, fake.device.info.max_caller_data),
                                    connection.three_way, AttributesFor(fake, connection.three_way, message), device});
}

void FakeFabric::OnReply(Connection& connection, const WireMessage& message) {
  if (connection.state != State::kConnecting) return;
  const FakeDevice& fake = devices_.at(connection.device);
  connection.state = State::kReplied;
  connection.three_way = message.three_way;
  network_.Say(host_, FabricReplied{connection.id, message.limits,
                                    Received(fake, message.private_data, fake.device.info.max_callee_data),
                                    message.three_way, AttributesFor(fake, message.three_way, message)});
}

void FakeFabric::OnReady(Connection& connection) {
  if (connection.state == State::kAccepting) Establish(connection);
}

// The peer has rejected, disconnected or aborted.
void FakeFabric::OnPeerGone(Connection& connection, const WireMessage& message) {
  const bool rejected = message.kind == WireMessage::Kind::kReject;
  const bool disconnected = message.kind == WireMessage::Kind::kDisconnect;
  const uint32_t reason = rejected ? message.reason : ECONNRESET;
  const FakeDevice& fake = devices_.at(connection.device);
  switch (connection.state) {
    case State::kConnecting: {
      connection.state = State::kEnded;
      Bytes data;
      if (rejected && reason == kReasonConsumer) {
        data = Received(fake, message.private_data, fake.device.info.max_callee_data);
      }
      return network_.Say(
          host_, FabricConnectFailed{connection.id, NdkStatus::kConnectionRefused, reason, std::move(data), true});
    }
    case State::kRequested:
      if (fake.reports_abandonment) return Fail(connection, {NdkStatus::kConnectionAborted, reason});
      connection.abandoned = true;
      return;
    case State::kAccepting:
      // A disconnect instead of the third message: that was lost, and the connection was there.
      if (disconnected) break;
      return Fail(connection, {NdkStatus::kConnectionAborted, reason});
    case State::kReplied:
      return Fail(connection, {NdkStatus::kConnectionAborted, reason});
    case State::kEstablished:
    case State::kDisconnecting:
      break;
    case State::kEnded:
      return;
  }
  connection.peer_waits = disconnected && connection.state != State::kDisconnecting;
  Disconnected(connection, disconnected ? NdkStatus::kSuccess : NdkStatus::kConnectionAborted);
}

// --- Transports ---

std::optional<ConnectionId> FakeFabric::Fetch(const HandoffSecret& secret) {
  for (auto& [id, connection] : connections_) {
    if (connection.state != State::kEstablished || connection.handoff != secret || connection.handed_off) continue;
    connection.handed_off = true;
    transports_[id] = {connection.end};
    network_.Say(host_, FabricHandedOff{id});
    return id;
  }
  return std::nullopt;
}

bool FakeFabric::EndTransport(ConnectionId id, bool graceful) {
  const auto found = transports_.find(id);
  if (found == transports_.end()) return false;
  const End end = found->second.end;
  SendOn(end, {.kind = graceful ? WireMessage::Kind::kDisconnect : WireMessage::Kind::kAbort});
  transports_.erase(found);
  wires_.erase({end.wire, end.initiator});
  return true;
}

void FakeFabric::OnTransportMessage(ConnectionId id, const WireMessage& message) {
  const bool ends = message.kind == WireMessage::Kind::kDisconnect || message.kind == WireMessage::Kind::kAbort;
  Transport& transport = transports_.at(id);
  if (!ends || std::exchange(transport.peer_ended, true)) return;
  if (transport_sink_) transport_sink_(id, message.kind == WireMessage::Kind::kDisconnect);
}

}  // namespace rdmabroker
