// SPDX-License-Identifier: Apache-2.0

#include "broker/core/testing/alphabet.h"

#include <algorithm>

#include "broker/core/testing/words.h"

namespace rdmabroker {
namespace {

constexpr uint64_t kUnknown = 999;
constexpr char kDeviceName[] = "nic0";
constexpr uint8_t kSecret = 7;

IpAddress Ip(uint8_t last) { return {.bytes = {10, 0, 0, last}}; }

SocketAddress At(const IpAddress& ip, uint16_t port) { return {ip, port}; }

// Two ports: one for those who name it, and the ephemeral ones.
constexpr uint16_t kPort = 7000;
constexpr uint16_t kEphemeral = 0;

class Alphabet {
 public:
  Alphabet(const BrokerCore& core, uint64_t serial) : records_(core.records()), serial_(serial), now_(records_.now) {}

  std::vector<Move> Write(Instant deadline) {
    Add(OpenSession{AlphabetSession(StreamId(serial_))});
    bool any = false;
    for (const SessionId id : Sorted(records_.sessions)) {
      const SessionRecord& session = records_.sessions.at(id);
      if (session.ended) continue;
      any = true;
      AddSession(session);
      AddRequests(session);
    }
    if (!any) AddUnknownSession();
    AddDeviceReports();
    AddEndpointReports();
    AddConnectionReports();
    Add(DeadlineReached{});
    if (deadline != absl::InfiniteFuture()) moves_.push_back({deadline, DeadlineReached{}});
    return std::move(moves_);
  }

 private:
  template <typename Key, typename Record>
  static std::vector<Key> Sorted(const Table<Key, Record>& table) {
    std::vector<Key> keys;
    for (const auto& [key, record] : table) keys.push_back(key);
    std::sort(keys.begin(), keys.end());
    return keys;
  }

  // The session's own, or an unknown one where it has none.
  template <typename Key, typename Record>
  std::vector<Key> Own(const Table<Key, Record>& table, const SessionRecord& session) const {
    std::vector<Key> keys;
    for (const Key key : Sorted(table)) {
      if (table.at(key).session == session.id) keys.push_back(key);
    }
    if (keys.empty()) keys.push_back(Key(kUnknown));
    return keys;
  }

  void Add(Event event) { moves_.push_back({now_, std::move(event)}); }
  void Report(FabricReport report) { Add(std::move(report)); }

  void Ask(const SessionRecord& session, Request request) {
    const RequestId id(session.newest_request.value() + 1);
    Add(ClientRequest{session.id, id, session.acknowledged, std::move(request)});
  }

  void AddSession(const SessionRecord& session) {
    const StreamId other(kUnknown);
    if (session.stream) {
      Add(StreamLost{session.id, session.stream, StreamEnd::kClient});
      Add(StreamLost{session.id, session.stream, StreamEnd::kBroker});
    }
    Add(StreamLost{session.id, other, StreamEnd::kClient});
    Add(EndSession{session.id});
    const EventNumber next(session.acknowledged.value() + 1);
    const ResumeSession resume{StreamId(serial_), session.id,           session.identity,
                               session.secret,    session.acknowledged, session.address_news};
    Add(resume);
    for (const EventNumber seen : {next, EventNumber(session.last_event.value() + 1)}) {
      ResumeSession other_seen = resume;
      other_seen.acknowledged = seen;
      Add(other_seen);
    }
    ResumeSession impostor = resume;
    impostor.secret = SecretOf<SessionSecret>(kSecret + 1);
    Add(impostor);
    Add(AcknowledgeEvents{session.id, next});
    if (session.last_event > next) Add(AcknowledgeEvents{session.id, session.last_event});
  }

  void AddUnknownSession() {
    const SessionId unknown(kUnknown);
    Add(StreamLost{unknown, StreamId(kUnknown), StreamEnd::kClient});
    Add(EndSession{unknown});
    Add(ResumeSession{StreamId(serial_), unknown, {}, {}, EventNumber()});
    Add(AcknowledgeEvents{unknown, EventNumber(1)});
    Add(ClientRequest{unknown, RequestId(1), EventNumber(), OpenAdapter{kDeviceName, kNdkVersion}});
  }

  void AddRequests(const SessionRecord& session) {
    Ask(session, OpenAdapter{kDeviceName, kNdkVersion});
    for (const AdapterId adapter : Own(records_.adapters, session)) {
      Ask(session, CreateListener{adapter});
      Ask(session, CreateConnector{adapter});
      Ask(session, CreateSharedEndpoint{adapter, At(Ip(1), kPort), {}});
      Ask(session, CreateSharedEndpoint{adapter, At(Ip(1), kEphemeral), {}});
      Ask(session, ReservePort{adapter, At(Ip(1), kPort)});
      Ask(session, ReservePort{adapter, At(IpAddress(), kPort)});
      for (const ReservationId reservation : Own(records_.reservations, session)) {
        Ask(session, CreateSharedEndpoint{adapter, {}, reservation});
      }
      Ask(session, CloseAdapter{adapter});
    }
    for (const ListenerId listener : Own(records_.listeners, session)) AddListener(session, listener);
    for (const SharedEndpointId shared : Own(records_.shared_endpoints, session)) {
      Ask(session, CloseSharedEndpoint{shared});
    }
    for (const ReservationId reservation : Own(records_.reservations, session)) Ask(session, ReleasePort{reservation});
    for (const ConnectorId connector : Own(records_.connectors, session)) AddConnector(session, connector);
    AddForeign(session);
  }

  void AddListener(const SessionRecord& session, ListenerId listener) {
    Ask(session, Listen{listener, At(Ip(1), kPort), {}});
    Ask(session, Listen{listener, At(IpAddress(), kPort), {}});
    Ask(session, Listen{listener, At(Ip(1), kEphemeral), {}});
    Ask(session, Listen{listener, At(Ip(2), kPort), {}, true});
    for (const ReservationId reservation : Own(records_.reservations, session)) {
      Ask(session, Listen{listener, {}, reservation});
    }
    const auto record = records_.listeners.find(listener);
    Ask(session, ControlConnectEvents{listener, record == records_.listeners.end() || !record->second.paused});
    Ask(session, CloseListener{listener});
  }

  void AddConnector(const SessionRecord& session, ConnectorId connector) {
    const SocketAddress peer = At(Ip(9), kPort);
    const ReadLimits limits{1, 2};
    // One queue pair of its own, and one that others want too.
    const QpNumber own{static_cast<uint32_t>(100 + connector.value() % 2)};
    const QpNumber wanted{17};
    Ask(session, Connect{connector, own, At(Ip(1), kPort), peer, limits, {1}});
    Ask(session, Connect{connector, wanted, At(Ip(1), kEphemeral), peer, limits, {1}});
    for (const SharedEndpointId shared : Own(records_.shared_endpoints, session)) {
      Ask(session, ConnectWithSharedEndpoint{connector, own, shared, peer, limits, {1}});
    }
    Ask(session, CompleteConnect{connector});
    Ask(session, Accept{connector, wanted, limits, {2}});
    Ask(session, Reject{connector, {3}});
    Ask(session, Disconnect{connector});
    Ask(session, GetConnectionData{connector});
    Ask(session, ReportConnectionEnd{connector, true, 0});
    Ask(session, ReportConnectionEnd{connector, false, 5});
    Ask(session, CloseConnector{connector});
  }

  // Another session's objects, and requests that no state allows.
  void AddForeign(const SessionRecord& session) {
    const auto first = [&](const auto& table, auto ask) {
      for (const auto key : Sorted(table)) {
        if (table.at(key).session != session.id) return ask(key);
      }
    };
    first(records_.adapters, [&](AdapterId id) { Ask(session, CloseAdapter{id}); });
    first(records_.listeners, [&](ListenerId id) { Ask(session, CloseListener{id}); });
    first(records_.shared_endpoints, [&](SharedEndpointId id) { Ask(session, CloseSharedEndpoint{id}); });
    first(records_.reservations, [&](ReservationId id) { Ask(session, ReleasePort{id}); });
    first(records_.connectors, [&](ConnectorId id) { Ask(session, CloseConnector{id}); });
    const RequestId next(session.newest_request.value() + 1);
    const OpenAdapter open{kDeviceName, kNdkVersion};
    Add(ClientRequest{session.id, RequestId(), session.acknowledged, open});
    Add(ClientRequest{session.id, next, EventNumber(session.last_event.value() + 1), open});
    Add(ClientRequest{session.id, next, session.last_event, GetConnectionData{ConnectorId(kUnknown)}});
  }

  void AddDeviceReports() {
    const std::vector<DeviceId> devices = Sorted(records_.devices);
    const DeviceId newest = devices.empty() ? DeviceId() : devices.back();
    const bool there = newest && !records_.devices.at(newest).removed;
    if (there) {
      Device device = records_.devices.at(newest).device;
      device.addresses = AlphabetDevice(newest, device.addresses.size() == 1).addresses;
      Report(DeviceChanged{device});
    } else {
      // It comes back under a new id.
      Report(DeviceChanged{AlphabetDevice(DeviceId(newest.value() + 1), false)});
    }
    const DeviceId known = newest ? newest : DeviceId(kUnknown);
    Report(DeviceRemoved{known});
    if (there && !records_.devices.at(newest).disabled) {
      Add(DisableDevice{known});
    } else {
      Add(EnableDevice{known});
    }
  }

  void AddEndpointReports() {
    std::vector<EndpointId> endpoints = Sorted(records_.endpoints);
    if (std::none_of(endpoints.begin(), endpoints.end(), [&](EndpointId id) { return CanBeReached(id); })) {
      AddConnectRequest(EndpointId(kUnknown));
    }
    if (endpoints.empty()) endpoints.push_back(EndpointId(kUnknown));
    for (const EndpointId id : endpoints) {
      Report(FabricBound{id});
      Report(FabricBindFailed{id, NdkStatus::kSharingViolation, 98});
      Report(FabricBindFailed{id, NdkStatus::kInsufficientResources, 12});
      Report(FabricUnbound{id});
      if (CanBeReached(id)) AddConnectRequest(id);
    }
  }

  // Only listeners are, once they are bound and until they are unbound.
  bool CanBeReached(EndpointId id) const {
    const auto endpoint = records_.endpoints.find(id);
    return endpoint != records_.endpoints.end() && endpoint->second.use == EndpointUse::kListener &&
           (endpoint->second.state == EndpointState::kBound || endpoint->second.state == EndpointState::kUnbinding);
  }

  void AddConnectRequest(EndpointId id) {
    const auto endpoint = records_.endpoints.find(id);
    const bool known = endpoint != records_.endpoints.end();
    const DeviceId device = known ? endpoint->second.device : DeviceId(1);
    FabricConnectRequested report;
    report.endpoint = id;
    report.connection = IncomingConnection(device, serial_);
    report.local = At(Ip(1), known ? endpoint->second.address.port : kPort);
    report.peer = At(Ip(9), 5000);
    report.peer_limits = {3, 4};
    report.private_data = {4};
    Report(report);
  }

  void AddConnectionReports() {
    std::vector<ConnectionId> connections = Sorted(records_.connections);
    if (connections.empty()) connections.push_back(ConnectionId(kUnknown));
    for (const ConnectionId id : connections) {
      Report(FabricReplied{id, {5, 6}, {5}, true, {}});
      Report(FabricConnectFailed{id, NdkStatus::kConnectionRefused, 1, {6}, true});
      Report(FabricConnectFailed{id, NdkStatus::kConnectionAborted, 2, {}, false});
      Report(FabricEstablished{id, std::nullopt});
      Report(FabricEstablished{id, SecretOf<HandoffSecret>(9)});
      Report(FabricFailed{id, NdkStatus::kConnectionAborted, 3, {7}});
      Report(FabricDisconnected{id, NdkStatus::kSuccess, 0});
      Report(FabricDisconnected{id, NdkStatus::kConnectionAborted, 4});
      Report(FabricHandedOff{id});
      Report(FabricReleased{id});
    }
  }

  const Records& records_;
  const uint64_t serial_;
  const Instant now_;
  std::vector<Move> moves_;
};

}  // namespace

std::vector<Move> AlphabetOf(const BrokerCore& core, uint64_t serial) {
  return Alphabet(core, serial).Write(core.NextDeadline());
}

Device AlphabetDevice(DeviceId id, bool second_address) {
  Device device;
  device.id = id;
  device.name = kDeviceName;
  device.info.max_inbound_read_limit = 16;
  device.info.max_outbound_read_limit = 16;
  device.info.max_caller_data = 4;
  device.info.max_callee_data = 4;
  device.network_namespace = 1;
  device.addresses = {Ip(1)};
  if (second_address) device.addresses.push_back(Ip(2));
  return device;
}

OpenSession AlphabetSession(StreamId stream) {
  return {stream, {.uid = 1000, .gid = 1000, .pid = 1}, SecretOf<SessionSecret>(kSecret), AddressNews::kOfAll};
}

}  // namespace rdmabroker
