// SPDX-License-Identifier: Apache-2.0

// Clients that die, stop, freeze or do not read, and what their peers see of it.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "proto/rdmabroker/v1/inspection.grpc.pb.h"
#include "tests/control/child_process.h"
#include "tests/control/disconnect_delays.h"
#include "tests/control/network_thread.h"
#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

using Stub = v1::Broker::Stub;

constexpr char kClientProcess[] = "tests/control/client_process";
constexpr char kDaemonProcess[] = "tests/control/daemon_process";

// Connects to the client process that listens on the port, and waits until the connection is there.
uint64_t ConnectTo(TestClient& client, uint64_t adapter, uint16_t port, uint32_t qp) {
  const uint64_t connector = client.CreateConnector(adapter);
  const uint64_t request = client.StartConnect(connector, qp, TestAddress(1), TestAddress(1, port));
  const v1::Outcome connected = client.WaitForOutcome(request);
  EXPECT_EQ(NdkStatusOf(connected), NdkStatus::kSuccess) << connected.hint();
  EXPECT_EQ(NdkStatusOf(client.CompleteConnect(connector)), NdkStatus::kSuccess);
  return connector;
}

class ClientDeathTest : public testing::Test {
 protected:
  void Start(const Configuration& configuration = TestConfiguration()) {
    daemon_ = std::make_unique<TestDaemon>(network_, std::vector<FakeDevice>{TestDevice(1)}, configuration);
    client_ = std::make_unique<TestClient>(NewChannel(daemon_->target()));
    ASSERT_EQ(client_->Open(), NdkStatus::kSuccess);
    adapter_ = client_->OpenAdapter("fake1");
  }
  std::unique_ptr<ChildProcess> NewProcess(uint16_t port) {
    auto process = std::make_unique<ChildProcess>(
        std::vector<std::string>{kClientProcess, daemon_->control_path(), std::to_string(port)});
    EXPECT_EQ(process->ReadLine(), "ready");
    return process;
  }
  bool HasStream(uint64_t session) {
    bool has = false;
    daemon_->OnLoop([&](const Broker& broker) {
      const auto& sessions = broker.core().records().sessions;
      const auto found = sessions.find(SessionId(session));
      has = found != sessions.end() && found->second.stream;
    });
    return has;
  }

  NetworkThread network_;
  std::unique_ptr<TestDaemon> daemon_;
  std::unique_ptr<TestClient> client_;
  uint64_t adapter_ = 0;
};

TEST_F(ClientDeathTest, ThePeerOfAKilledClientSeesTheDisconnectWithinATenthOfASecond) {
  Start();
  DisconnectDelays delays;
  while (delays.GoOn()) {
    const auto round = static_cast<uint16_t>(delays.trials());
    const auto port = static_cast<uint16_t>(4000 + round);
    const auto process = NewProcess(port);
    const uint64_t connector = ConnectTo(*client_, adapter_, port, 2u + round);
    const absl::Time killed = absl::Now();
    process->StartKill();
    EXPECT_EQ(client_->WaitForDisconnect(connector).connector_id(), connector);
    delays.Add(absl::Now() - killed);
    EXPECT_EQ(NdkStatusOf(client_->CloseConnector(connector)), NdkStatus::kSuccess);
  }
  delays.ExpectInTime();
  EXPECT_TRUE(daemon_->Eventually([](const Records& records) {
    return records.sessions.size() == 1 && records.listeners.empty() && records.connections.empty();
  }));
}

TEST_F(ClientDeathTest, TheSessionOfAKilledClientEndsThoughAChildHasItsConnection) {
  Start();
  ChildProcess process({kClientProcess, daemon_->control_path(), "4050", "fork"});
  ASSERT_EQ(process.ReadLine(), "ready");
  const uint64_t connector = ConnectTo(*client_, adapter_, 4050, 2);
  process.StartKill();
  EXPECT_EQ(client_->WaitForDisconnect(connector).connector_id(), connector);
  EXPECT_TRUE(daemon_->Eventually([](const Records& records) { return records.sessions.size() == 1; }));
}

TEST_F(ClientDeathTest, AStoppedClientKeepsItsSessionAndServesOnLater) {
  Configuration configuration = TestConfiguration();
  // Enough for a process to begin, on a busy machine too.
  configuration.patience = absl::Seconds(2);
  Start(configuration);
  const auto process = NewProcess(4100);
  process->Signal(SIGSTOP);
  const uint64_t connector = client_->CreateConnector(adapter_);
  const uint64_t request = client_->StartConnect(connector, 2, TestAddress(1), TestAddress(1, 4100));
  // An event waits for the client, unread, for longer than the patience.
  const absl::Time end = absl::Now() + configuration.patience * 1.5;
  EXPECT_TRUE(Becomes([&] { return absl::Now() > end; }));
  EXPECT_TRUE(daemon_->Eventually([](const Records& records) {
    return records.sessions.size() == 2 &&
           std::all_of(records.sessions.begin(), records.sessions.end(),
                       [](const auto& session) { return static_cast<bool>(session.second.stream); });
  }));
  process->Signal(SIGCONT);
  EXPECT_EQ(NdkStatusOf(client_->WaitForOutcome(request)), NdkStatus::kSuccess);
}

TEST_F(ClientDeathTest, AClientThatDoesNotReadLosesItsStreamAndNothingElse) {
  Configuration configuration = TestConfiguration();
  configuration.patience = absl::Seconds(1);
  Start(configuration);
  const auto channel = NarrowChannel(daemon_->target());
  TestClient lazy(channel);
  ASSERT_EQ(lazy.Open(), NdkStatus::kSuccess);
  const uint64_t adapter = lazy.OpenAdapter("fake1");
  const auto [listener, address] = lazy.Listen(adapter, TestAddress(1));
  const TestConnection connection = ConnectClients(lazy, address, *client_, adapter_, TestAddress(1));

  lazy.PauseReading();
  // Each outcome says that somebody outside the broker has the port.
  network_.Do([](FakeNetwork& network) { EXPECT_TRUE(network.Occupy({1, PortSpace::kRdmaCm, TestAddress(1, 4999)})); });
  v1::ReservePortRequest reserve;
  reserve.set_adapter_id(adapter);
  *reserve.mutable_address() = ToMessage(TestAddress(1, 4999));
  for (int i = 0; i < 50000 && HasStream(lazy.session_id()); ++i) lazy.Ask(&Stub::ReservePort, reserve);
  EXPECT_FALSE(HasStream(lazy.session_id()));
  uint64_t last_event = 0;
  daemon_->OnLoop([&](const Broker& broker) {
    const Records& records = broker.core().records();
    last_event = records.sessions.at(SessionId(lazy.session_id())).last_event.value();
    EXPECT_EQ(records.connectors.at(ConnectorId(connection.passive)).state, ConnectorState::kEstablished);
  });
  lazy.GoOnReading();
  // The only end that a stream can have whose client does not read: gRPC sends no detail past what is unread.
  const grpc::Status end = lazy.WaitForEnd();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::CANCELLED) << end.error_message();
  EXPECT_FALSE(DetailOf(end));
  EXPECT_LT(lazy.last_event(), last_event);

  // The numbers are checked by the client: each event once, in order.
  TestClient again(channel);
  ASSERT_EQ(again.Resume(lazy, lazy.last_event()), NdkStatus::kSuccess);
  EXPECT_TRUE(Becomes([&] { return again.last_event() >= last_event; }));
  EXPECT_EQ(again.TakeEvents().size(), again.last_event() - lazy.last_event());
  EXPECT_TRUE(client_->TakeEvents().empty());
  v1::DisconnectRequest disconnect;
  disconnect.set_connector_id(connection.passive);
  EXPECT_EQ(NdkStatusOf(again.Ask(&Stub::Disconnect, disconnect)), NdkStatus::kPending);
  client_->WaitForDisconnect(connection.active);
}

TEST_F(ClientDeathTest, AClientThatDoesNotComeBackInTimeLosesEverything) {
  Configuration configuration = TestConfiguration();
  configuration.limits.session_grace = absl::Milliseconds(50);
  Start(configuration);
  auto other = std::make_unique<TestClient>(NewChannel(daemon_->target()));
  ASSERT_EQ(other->Open(), NdkStatus::kSuccess);
  const auto [listener, address] = other->Listen(other->OpenAdapter("fake1"), TestAddress(1));
  const TestConnection connection = ConnectClients(*other, address, *client_, adapter_, TestAddress(1));
  v1::SessionRequest nonsense;
  other->Send(nonsense);
  other->WaitForEnd();
  EXPECT_EQ(client_->WaitForDisconnect(connection.active).connector_id(), connection.active);
  EXPECT_TRUE(daemon_->Eventually([](const Records& records) { return records.sessions.size() == 1; }));
}

TEST(ClientInAnotherPidNamespace, IsNotSeenAsAProcessButItsDeathIsWithinATenthOfASecond) {
  ChildProcess daemon({"unshare", "--pid", "--fork", "--kill-child", kDaemonProcess});
  const std::string folder = daemon.ReadLine();
  if (folder.empty()) GTEST_SKIP() << "needs a root that may make a pid namespace";
  TestClient client(NewChannel("unix:" + folder + "/control.sock"));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  const uint64_t adapter = client.OpenAdapter("fake1");
  auto inspection = v1::Inspection::NewStub(client.channel());
  DisconnectDelays delays;
  while (delays.GoOn()) {
    const auto round = static_cast<uint16_t>(delays.trials());
    const auto port = static_cast<uint16_t>(4200 + round);
    ChildProcess process({kClientProcess, folder + "/control.sock", std::to_string(port)});
    ASSERT_EQ(process.ReadLine(), "ready");
    grpc::ClientContext context;
    Limit(context);
    v1::ListSessionsReply sessions;
    ASSERT_TRUE(inspection->ListSessions(&context, v1::ListSessionsRequest(), &sessions).ok());
    ASSERT_GE(sessions.sessions_size(), 2);
    for (const v1::SessionInfo& session : sessions.sessions()) EXPECT_EQ(session.pid(), 0);

    const uint64_t connector = ConnectTo(client, adapter, port, 2u + round);
    const absl::Time killed = absl::Now();
    process.StartKill();
    client.WaitForDisconnect(connector);
    delays.Add(absl::Now() - killed);
  }
  delays.ExpectInTime();
  client.Close();
  EXPECT_EQ(daemon.Finish(), 0);
}

}  // namespace
}  // namespace rdmabroker
