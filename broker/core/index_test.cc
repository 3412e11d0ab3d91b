// SPDX-License-Identifier: Apache-2.0

#include "broker/core/index.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace rdmabroker {
namespace {

constexpr SocketAddress kLocal = {{.bytes = {192, 0, 2, 1}}, 7000};
constexpr SocketAddress kPeer = {{.bytes = {192, 0, 2, 9}}, 80};

// Two devices of one namespace and port space, and a connection from the first.
Records TwoDevices() {
  Records records;
  for (const uint64_t id : {1, 2}) {
    DeviceRecord& device = records.devices[DeviceId(id)];
    device.device.id = DeviceId(id);
    device.device.name = id == 1 ? "first" : "second";
  }
  ConnectionRecord& connection = records.connections[ConnectionId(1)];
  connection = {.id = ConnectionId(1), .device = DeviceId(1), .holds_addresses = true};
  connection.local = kLocal;
  connection.peer = kPeer;
  return records;
}

void AddAdapter(Records& records) {
  AdapterRecord& adapter = records.adapters[AdapterId(1)];
  adapter.id = AdapterId(1);
  adapter.session = SessionId(1);
  adapter.device = DeviceId(1);
}

TEST(AConnectionsAddresses, AreAnotherDevicesWhereTheTwoShareNamespaceAndPortSpace) {
  const struct {
    const char* what;
    std::function<void(Records&, ConnectionRecord&)> change;
    bool same;
  } cases[] = {
      {"nothing", [](Records&, ConnectionRecord&) {}, true},
      {"the network namespace",
       [](Records& records, ConnectionRecord&) { records.devices.at(DeviceId(2)).device.network_namespace = 7; },
       false},
      {"the port space",
       [](Records& records, ConnectionRecord&) { records.devices.at(DeviceId(2)).device.port_space = PortSpace::kTcp; },
       false},
      {"the local port", [](Records&, ConnectionRecord& other) { ++other.local.port; }, false},
      {"the peer's port", [](Records&, ConnectionRecord& other) { ++other.peer.port; }, false},
      {"the direction", [](Records&, ConnectionRecord& other) { std::swap(other.local, other.peer); }, false},
  };
  for (const auto& [what, change, same] : cases) {
    Records records = TwoDevices();
    ConnectionRecord other = records.connections.at(ConnectionId(1));
    other.device = DeviceId(2);
    change(records, other);
    EXPECT_EQ(Index::Of(records).tuples.contains(TupleOf(records, other)), same) << what;
  }
}

TEST(TheIndex, HasNoAddressesOfAConnectionThatOthersMade) {
  Records records = TwoDevices();
  records.connections.at(ConnectionId(1)).holds_addresses = false;
  EXPECT_TRUE(Index::Of(records).tuples.empty());
}

TEST(TheIndex, HasWhatAnEndpointHoldsAndWhichEndpointsFollowTheirDevices) {
  Records records = TwoDevices();
  EndpointRecord& one = records.endpoints[EndpointId(1)];
  one = {.id = EndpointId(1), .device = DeviceId(1), .address = kLocal, .ips = {kLocal.ip}};
  EndpointRecord& all = records.endpoints[EndpointId(2)];
  all = {.id = EndpointId(2), .device = DeviceId(1), .address = {IpAddress::Any(IpFamily::kIpv4), 80}};
  all.ips = {kLocal.ip, kPeer.ip};
  const Index index = Index::Of(records);
  const absl::flat_hash_map<AddressKey, EndpointId> expected = {
      {AddressOf(one, kLocal.ip), one.id}, {AddressOf(all, kLocal.ip), all.id}, {AddressOf(all, kPeer.ip), all.id}};
  EXPECT_EQ(index.addresses, expected);
  const absl::flat_hash_map<PortKey, std::set<EndpointId>> wildcards = {{PortOf(all), {all.id}}};
  EXPECT_EQ(index.wildcards, wildcards);
}

TEST(TheIndex, FindsADeviceByNameWhileItIsThere) {
  Records records = TwoDevices();
  EXPECT_EQ(Index::Of(records).device_names.at("second"), DeviceId(2));
  records.devices.at(DeviceId(2)).removed = true;
  // One that is gone does not hide another of its name.
  records.devices.at(DeviceId(1)).device.name = "second";
  EXPECT_EQ(Index::Of(records).device_names.at("second"), DeviceId(1));
}

TEST(TheIndex, PutsDeadlinesInTheOrderInWhichTheyComeDue) {
  Records records = TwoDevices();
  SessionRecord& session = records.sessions[SessionId(1)];
  session.id = SessionId(1);
  session.deadline = absl::FromUnixSeconds(3);
  AddAdapter(records);
  for (const uint64_t id : {1, 2, 3}) {
    ConnectorRecord& connector = records.connectors[ConnectorId(id)];
    connector.id = ConnectorId(id);
    connector.session = SessionId(1);
    connector.adapter = AdapterId(1);
    if (id != 3) connector.deadline = absl::FromUnixSeconds(5 - static_cast<int64_t>(id));
  }
  const Deadlines deadlines = Index::Of(records).deadlines;
  EXPECT_EQ(deadlines.sessions, (std::set{std::pair{absl::FromUnixSeconds(3), SessionId(1)}}));
  EXPECT_EQ(deadlines.Due(absl::FromUnixSeconds(4), 2), (std::vector{ConnectorId(2), ConnectorId(1)}));
  EXPECT_EQ(deadlines.First(), absl::FromUnixSeconds(3));
}

TEST(TheIndex, CountsTheObjectsOfAUsersSessions) {
  Records records = TwoDevices();
  for (const uint64_t id : {1, 2, 3}) {
    records.sessions[SessionId(id)].id = SessionId(id);
    records.sessions[SessionId(id)].identity.uid = id == 3 ? 1001 : 1000;
    records.listeners[ListenerId(id)].session = SessionId(id);
  }
  AddAdapter(records);
  records.connectors[ConnectorId(1)].session = SessionId(3);
  records.connectors[ConnectorId(1)].state = ConnectorState::kRequested;
  const absl::flat_hash_map<uint32_t, ObjectsOfUser> expected = {{1000, ObjectsOfUser{.all = 3}},
                                                                 {1001, ObjectsOfUser{.all = 2, .undecided = 1}}};
  const Index index = Index::Of(records);
  EXPECT_EQ(index.objects_of_uid, expected);
  EXPECT_EQ(index.lists.listeners.CountOf(1000), 2u);
  EXPECT_EQ(index.lists.connectors.CountOf(1000), 0u);
  EXPECT_EQ(index.lists.listeners.CountOf(1001), 1u);
  EXPECT_EQ(index.lists.connectors.CountOf(1001), 1u);
  EXPECT_EQ(index.lists.sessions.CountOf(1000), 2u);
}

TEST(TheIndex, CountsConnectorsAndEndpointsByTheirState) {
  Records records = TwoDevices();
  AddAdapter(records);
  records.sessions[SessionId(1)].id = SessionId(1);
  uint64_t id = 0;
  for (const ConnectorState state : {ConnectorState::kIdle, ConnectorState::kDead, ConnectorState::kDead}) {
    ConnectorRecord& connector = records.connectors[ConnectorId(++id)];
    connector.session = SessionId(1);
    connector.adapter = AdapterId(1);
    connector.state = state;
  }
  for (const EndpointState state : {EndpointState::kBound, EndpointState::kBound, EndpointState::kUnbinding}) {
    records.endpoints[EndpointId(++id)].state = state;
  }
  StateCounts expected;
  expected.connectors[static_cast<size_t>(ConnectorState::kIdle)] = 1;
  expected.connectors[static_cast<size_t>(ConnectorState::kDead)] = 2;
  expected.endpoints[static_cast<size_t>(EndpointState::kBound)] = 2;
  expected.endpoints[static_cast<size_t>(EndpointState::kUnbinding)] = 1;
  EXPECT_EQ(Index::Of(records).states, expected);
}

TEST(AConnector, IsActiveFromItsEstablishmentToItsOwnDisconnect) {
  const std::set<ConnectorState> active = {ConnectorState::kEstablished, ConnectorState::kPeerDisconnected,
                                           ConnectorState::kDisconnecting};
  Records records = TwoDevices();
  AddAdapter(records);
  ConnectorRecord connector;
  connector.adapter = AdapterId(1);
  for (size_t i = 0; i < kConnectorStates; ++i) {
    connector.state = static_cast<ConnectorState>(i);
    StateCounts counts;
    counts.Count(records, connector, 1);
    counts.Count(records, connector, 1);
    const absl::flat_hash_map<DeviceId, uint32_t> two = {{DeviceId(1), 2}};
    EXPECT_EQ(counts.active == two, active.contains(connector.state)) << i;
    counts.Count(records, connector, -1);
    EXPECT_EQ(counts.active.contains(DeviceId(1)), active.contains(connector.state)) << i;
    counts.Count(records, connector, -1);
    EXPECT_EQ(counts, StateCounts()) << i;
  }
}

TEST(AQueuePair, IsItsSessionsOwnClaimOnItsDevice) {
  Records records = TwoDevices();
  records.sessions[SessionId(1)].id = SessionId(1);
  AddAdapter(records);
  ConnectorRecord& connector = records.connectors[ConnectorId(1)];
  connector.id = ConnectorId(1);
  connector.session = SessionId(1);
  connector.adapter = AdapterId(1);
  connector.qp = {17};
  const Index index = Index::Of(records);
  EXPECT_TRUE(index.qps.contains({SessionId(1), DeviceId(1), {17}}));
  EXPECT_FALSE(index.qps.contains({SessionId(2), DeviceId(1), {17}}));
  EXPECT_FALSE(index.qps.contains({SessionId(1), DeviceId(2), {17}}));
}

}  // namespace
}  // namespace rdmabroker
