// SPDX-License-Identifier: Apache-2.0

// Whole connections through the daemon, from Listen to the last close.

#include <gtest/gtest.h>

#include "tests/control/network_thread.h"
#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

v1::Outcome Disconnect(TestClient& client, uint64_t connector) {
  v1::DisconnectRequest request;
  request.set_connector_id(connector);
  return client.Finish(&v1::Broker::Stub::Disconnect, request);
}

void ExpectSuccess(const v1::Outcome& outcome) {
  EXPECT_EQ(NdkStatusOf(outcome), NdkStatus::kSuccess) << outcome.DebugString();
}

void RunCycle(TestDaemon& passive, TestDaemon& active, uint64_t passive_device, uint64_t active_device) {
  TestClient server(NewChannel(passive.target()));
  TestClient client(NewChannel(active.target()));
  ASSERT_EQ(server.Open(), NdkStatus::kSuccess);
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  const uint64_t server_adapter = server.OpenAdapter("fake" + std::to_string(passive_device));
  const uint64_t client_adapter = client.OpenAdapter("fake" + std::to_string(active_device));
  const auto [listener, address] = server.Listen(server_adapter, TestAddress(passive_device));
  EXPECT_GE(address.port, 49152);

  const TestConnection connection = ConnectClients(server, address, client, client_adapter, TestAddress(active_device));
  EXPECT_EQ(connection.accepted.connection_established().limits().inbound(), 2u);
  EXPECT_EQ(connection.accepted.connection_established().limits().outbound(), 4u);
  EXPECT_EQ(connection.completed.connection_established().limits().inbound(), 4u);
  EXPECT_EQ(connection.completed.connection_established().limits().outbound(), 2u);

  const uint64_t disconnect = client.next_request_id();
  v1::DisconnectRequest request;
  request.set_connector_id(connection.active);
  EXPECT_EQ(NdkStatusOf(client.Ask(&v1::Broker::Stub::Disconnect, request)), NdkStatus::kPending);
  EXPECT_EQ(server.WaitForDisconnect(connection.passive).status(), v1::STATUS_SUCCESS);
  ExpectSuccess(Disconnect(server, connection.passive));
  // The peer's disconnect is complete once its connector is given up.
  ExpectSuccess(server.CloseConnector(connection.passive));
  ExpectSuccess(client.WaitForOutcome(disconnect));
  ExpectSuccess(client.CloseConnector(connection.active));
  ExpectSuccess(server.CloseListener(listener));
  ExpectSuccess(server.CloseAdapter(server_adapter));
  ExpectSuccess(client.CloseAdapter(client_adapter));
  EXPECT_EQ(server.Close(), NdkStatus::kSuccess);
  EXPECT_EQ(client.Close(), NdkStatus::kSuccess);
  for (TestDaemon* daemon : {&passive, &active}) {
    EXPECT_TRUE(daemon->Eventually([](const Records& records) {
      return records.sessions.empty() && records.endpoints.empty() && records.connections.empty();
    }));
  }
}

TEST(Cycle, TwoClientsOfOneBrokerConnectAndDisconnect) {
  NetworkThread network;
  TestDaemon daemon(network);
  RunCycle(daemon, daemon, 1, 1);
}

TEST(Cycle, ClientsOfTwoBrokersConnectAndDisconnect) {
  NetworkThread network;
  TestDaemon passive(network, {TestDevice(1)});
  TestDaemon active(network, {TestDevice(2)});
  RunCycle(passive, active, 1, 2);
}

}  // namespace
}  // namespace rdmabroker
