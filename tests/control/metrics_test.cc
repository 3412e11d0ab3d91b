// SPDX-License-Identifier: Apache-2.0

// What clients do, as a scrape of the daemon shows it.

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "broker/control/metrics_port.h"
#include "broker/fabric/fake/fake_fabric.h"
#include "broker/fabric/fake/fake_network.h"
#include "broker/policy/matching.h"
#include "broker/runtime/tcp_listener.h"
#include "dataplane/unique_fd.h"
#include "tests/captured_log.h"
#include "tests/control/connections.h"
#include "tests/control/network_thread.h"
#include "tests/control/scrape.h"
#include "tests/control/temporary_folder.h"
#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

using Stub = v1::Broker::Stub;

class MetricsTest : public testing::Test {
 protected:
  using Values = std::map<std::string, double>;

  void Start(const std::function<void(Configuration&)>& change = [](Configuration&) {}) {
    Configuration configuration = TestConfiguration();
    configuration.metrics_address = "127.0.0.1:0";
    change(configuration);
    daemon_ = std::make_unique<TestDaemon>(network_, std::vector<FakeDevice>{TestDevice(1)}, configuration);
    server_ = std::make_unique<TestClient>(NewChannel(daemon_->target()));
    client_ = std::make_unique<TestClient>(NewChannel(daemon_->target()));
    ASSERT_EQ(server_->Open(), NdkStatus::kSuccess);
    ASSERT_EQ(client_->Open(), NdkStatus::kSuccess);
    server_adapter_ = server_->OpenAdapter("fake1");
    client_adapter_ = client_->OpenAdapter("fake1");
    std::tie(listener_, address_) = server_->Listen(server_adapter_, TestAddress(1));
  }

  std::string Port() {
    const std::vector<std::string> lines = log_.LinesWith("metrics served");
    EXPECT_EQ(lines.size(), 1u);
    return lines.empty() ? "" : lines[0].substr(lines[0].find('=') + 1);
  }
  // Scrapes until the series are so, and compares them then.
  void Expect(const Values& expected) {
    Values seen;
    (void)Becomes([&] {
      const Values all = Scrape(Port());
      seen.clear();
      for (const auto& [series, value] : expected) {
        const auto found = all.find(series);
        if (found != all.end()) seen[series] = found->second;
      }
      return seen == expected;
    });
    EXPECT_EQ(seen, expected);
  }

  // The request's id.
  uint64_t Connect(uint64_t connector) {
    return client_->StartConnect(connector, ++last_qp_, TestAddress(1), address_);
  }
  void ExpectRefused() {
    const uint64_t connect = Connect(client_->CreateConnector(client_adapter_));
    EXPECT_EQ(NdkStatusOf(client_->WaitForOutcome(connect)), NdkStatus::kConnectionRefused);
  }
  static void Reject(TestClient& client, uint64_t connector) {
    v1::RejectRequest request;
    request.set_connector_id(connector);
    EXPECT_EQ(NdkStatusOf(client.Ask(&Stub::Reject, request)), NdkStatus::kSuccess);
  }

  CapturedLog log_;
  NetworkThread network_;
  std::unique_ptr<TestDaemon> daemon_;
  std::unique_ptr<TestClient> server_;
  std::unique_ptr<TestClient> client_;
  uint64_t server_adapter_ = 0;
  uint64_t client_adapter_ = 0;
  uint64_t listener_ = 0;
  SocketAddress address_;
  uint32_t last_qp_ = 1'000'000;
};

std::string Rejects(const std::string& side, const std::string& reason) {
  return absl::StrCat("rdma_broker_rejects_total{side=\"", side, "\",reason=\"", reason, "\"}");
}
std::string Requests(const std::string& request, const std::string& status) {
  return absl::StrCat("rdma_broker_requests_total{request=\"", request, "\",status=\"STATUS_", status, "\"}");
}
std::string Steps(const std::string& side, const std::string& step) {
  return absl::StrCat("rdma_broker_handshake_step_seconds_count{side=\"", side, "\",step=\"", step, "\"}");
}

TEST_F(MetricsTest, AnEventIsCountedEachTimeItIsSent) {
  Start();
  // Listen's outcome.
  Expect({{"rdma_broker_events_sent_total", 1}});
  TestClient returned(NewChannel(daemon_->target()));
  ASSERT_EQ(returned.Resume(*server_, 0), NdkStatus::kSuccess);
  Expect({{"rdma_broker_events_sent_total", 2}});
}

TEST_F(MetricsTest, WhatIsKeptForSessionsIsShownInBytes) {
  Start();
  // Two sessions, an adapter of each, and a listener.
  EXPECT_GT(Scrape(Port()).at("rdma_broker_kept_bytes"), 5 * 1024);
  EXPECT_EQ(server_->Close(), NdkStatus::kSuccess);
  EXPECT_EQ(client_->Close(), NdkStatus::kSuccess);
  Expect({{"rdma_broker_kept_bytes", 0}});
}

TEST_F(MetricsTest, ConnectionsAreCountedExactly) {
  Start();
  constexpr double kTimes = 5;
  std::vector<TestConnection> connections;
  for (int i = 0; i < kTimes; ++i) {
    connections.push_back(ConnectClients(*server_, address_, *client_, client_adapter_, TestAddress(1)));
  }
  Expect({{"rdma_broker_handshakes_total{side=\"active\"}", kTimes},
          {"rdma_broker_handshakes_total{side=\"passive\"}", kTimes},
          {"rdma_broker_adapter_connects_total{adapter=\"fake1\"}", kTimes},
          {"rdma_broker_adapter_accepts_total{adapter=\"fake1\"}", kTimes},
          {"rdma_broker_adapter_connect_failures_total{adapter=\"fake1\"}", 0},
          {"rdma_broker_adapter_active_connections{adapter=\"fake1\"}", 2 * kTimes},
          {"rdma_broker_adapter_open{adapter=\"fake1\"}", 2},
          {"rdma_broker_connectors{state=\"established\"}", 2 * kTimes},
          {"rdma_broker_listeners", 1},
          {"rdma_broker_sessions{state=\"open\"}", 2},
          {absl::StrCat("rdma_broker_session_connectors{session=\"", client_->session_id(), "\"}"), kTimes},
          {absl::StrCat("rdma_broker_session_listeners{session=\"", server_->session_id(), "\"}"), 1},
          {Requests("CreateConnector", "SUCCESS"), kTimes},
          {Requests("Connect", "PENDING"), kTimes},
          {Requests("CompleteConnect", "PENDING"), kTimes},
          {Requests("Accept", "PENDING"), kTimes},
          {Steps("active", "bind"), kTimes},
          {Steps("active", "connect"), kTimes},
          {Steps("active", "complete"), kTimes},
          {Steps("passive", "bind"), 1},
          {Steps("passive", "decide"), kTimes},
          {Steps("passive", "accept"), kTimes}});
  v1::DisconnectRequest disconnect;
  disconnect.set_connector_id(connections[0].active);
  const uint64_t id = client_->next_request_id();
  client_->Ask(&Stub::Disconnect, disconnect);
  server_->WaitForDisconnect(connections[0].passive);
  server_->CloseConnector(connections[0].passive);
  EXPECT_EQ(NdkStatusOf(client_->WaitForOutcome(id)), NdkStatus::kSuccess);
  Expect({{Steps("active", "disconnect"), 1}, {"rdma_broker_adapter_active_connections{adapter=\"fake1\"}", 8}});
  EXPECT_EQ(client_->Close(), NdkStatus::kSuccess);
  server_->Vanish();
  Expect({{"rdma_broker_sessions_ended_total{reason=\"goodbye\"}", 1},
          {"rdma_broker_sessions_ended_total{reason=\"client_gone\"}", 1},
          {"rdma_broker_connectors{state=\"established\"}", 0},
          {"rdma_broker_endpoints{state=\"bound\"}", 0},
          {"rdma_broker_adapter_connects_total{adapter=\"fake1\"}", kTimes}});
}

TEST_F(MetricsTest, EachRequestThatALimitMayRefuseIsShownBeforeAnyHasBeenMade) {
  Start();
  const auto* const service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
      std::string(v1::Broker::service_full_name()));
  ASSERT_NE(service, nullptr);
  Values expected;
  for (int i = 0; i < service->method_count(); ++i) {
    const auto* const method = service->method(i);
    if (!method->client_streaming()) expected[Requests(std::string(method->name()), "INSUFFICIENT_RESOURCES")] = 0;
  }
  EXPECT_GT(expected.size(), 10u);
  Expect(expected);
}

TEST_F(MetricsTest, ARejectIsCountedOnBothSidesByWhoseItIs) {
  Start();
  const uint64_t connect = Connect(client_->CreateConnector(client_adapter_));
  Reject(*server_, server_->WaitForConnect().connector_id());
  EXPECT_EQ(NdkStatusOf(client_->WaitForOutcome(connect)), NdkStatus::kConnectionRefused);
  Expect({{Rejects("active", "peer"), 1},
          {Rejects("passive", "client"), 1},
          {Rejects("active", "client"), 0},
          {"rdma_broker_handshake_failures_total{side=\"active\",status=\"STATUS_CONNECTION_REFUSED\"}", 1},
          {Steps("passive", "decide"), 1},
          {Steps("active", "connect"), 0}});
  // The active side's turn: it does not like the reply.
  const uint64_t connector = client_->CreateConnector(client_adapter_);
  const uint64_t again = Connect(connector);
  server_->Accept(server_->WaitForConnect().connector_id(), ++last_qp_);
  EXPECT_EQ(NdkStatusOf(client_->WaitForOutcome(again)), NdkStatus::kSuccess);
  Reject(*client_, connector);
  Expect({{Rejects("active", "client"), 1},
          {Rejects("active", "peer"), 1},
          {Rejects("passive", "client"), 1},
          {Steps("active", "connect"), 1},
          {Steps("active", "complete"), 0},
          {Steps("passive", "decide"), 2},
          {Steps("passive", "accept"), 0},
          {"rdma_broker_handshakes_total{side=\"active\"}", 0}});
}

TEST_F(MetricsTest, ARefusalByThePausedListenerIsCountedAsThat) {
  Start();
  v1::ControlConnectEventsRequest pause;
  pause.set_listener_id(listener_);
  pause.set_pause(true);
  EXPECT_EQ(NdkStatusOf(server_->Ask(&Stub::ControlConnectEvents, pause)), NdkStatus::kSuccess);
  ExpectRefused();
  Expect({{Rejects("passive", "paused"), 1}, {Rejects("passive", "backlog"), 0}, {Rejects("active", "peer"), 1}});
}

TEST_F(MetricsTest, ARefusalByTheFullBacklogIsCountedAsThat) {
  Start([](Configuration& configuration) { configuration.limits.backlog = 1; });
  Connect(client_->CreateConnector(client_adapter_));
  server_->WaitForConnect();
  ExpectRefused();
  Expect({{Rejects("passive", "backlog"), 1}, {Rejects("passive", "paused"), 0}});
}

TEST_F(MetricsTest, ARefusalByTheClosingListenerIsCountedAsThat) {
  Start();
  Connect(client_->CreateConnector(client_adapter_));
  server_->WaitForConnect();
  v1::CloseListenerRequest close;
  close.set_listener_id(listener_);
  EXPECT_EQ(NdkStatusOf(server_->Ask(&Stub::CloseListener, close)), NdkStatus::kPending);
  ExpectRefused();
  Expect({{Rejects("passive", "closing"), 1}, {Rejects("passive", "no_listener"), 0}});
}

TEST_F(MetricsTest, ARefusalForWantOfConnectorsIsCountedAsThat) {
  Start([](Configuration& configuration) { configuration.limits.connectors_per_session = 1; });
  v1::CreateConnectorRequest create;
  create.set_adapter_id(server_adapter_);
  EXPECT_EQ(NdkStatusOf(server_->Ask(&Stub::CreateConnector, create)), NdkStatus::kSuccess);
  EXPECT_EQ(NdkStatusOf(server_->Ask(&Stub::CreateConnector, create)), NdkStatus::kInsufficientResources);
  ExpectRefused();
  Expect({{Rejects("passive", "quota"), 1}, {Requests("CreateConnector", "INSUFFICIENT_RESOURCES"), 1}});
}

// The listener's client acknowledges nothing: neither that it listens, nor the first peer.
TEST_F(MetricsTest, ARefusalForWantOfAcknowledgementsIsCountedAsThat) {
  Start([](Configuration& configuration) { configuration.limits.events_kept = 2; });
  Connect(client_->CreateConnector(client_adapter_));
  server_->WaitForConnect();
  ExpectRefused();
  Expect({{Rejects("passive", "unacknowledged_events"), 1},
          {Rejects("passive", "backlog"), 0},
          {Rejects("passive", "device_removed"), 0}});
}

// The device has reported a request, and the broker hears first that the device has gone.
TEST_F(MetricsTest, ARefusalAsTheDeviceHasGoneIsCountedAsThat) {
  Start();
  const auto find = [](const FakeNetwork& fakes, const char* report) {
    size_t index = 0;
    while (index < fakes.deliverable() && !absl::StrContains(fakes.Describe(index), report)) ++index;
    return index;
  };
  network_.Do([&](FakeNetwork&) { network_.Hold(); });
  Connect(client_->CreateConnector(client_adapter_));
  ASSERT_TRUE(Becomes([&] {
    bool reported = false;
    network_.Do([&](FakeNetwork& fakes) {
      reported = find(fakes, "FabricConnectRequested") < fakes.deliverable();
      if (!reported) fakes.DeliverNext();
    });
    return reported;
  }));
  daemon_->OnFabric([](FakeFabric& fabric) { fabric.RemoveDevice(DeviceId(1)); });
  network_.Do([&](FakeNetwork& fakes) {
    fakes.Deliver(find(fakes, "DeviceRemoved"));
    network_.Release();
  });
  Expect({{Rejects("passive", "device_removed"), 1},
          {Rejects("passive", "unacknowledged_events"), 0},
          {Rejects("passive", "no_listener"), 0}});
}

TEST_F(MetricsTest, AHandshakeThatTakesTooLongIsAFailureWithItsStatus) {
  Start([](Configuration& configuration) { configuration.limits.connect_timeout = absl::Milliseconds(20); });
  const uint64_t connect = Connect(client_->CreateConnector(client_adapter_));
  EXPECT_EQ(NdkStatusOf(client_->WaitForOutcome(connect)), NdkStatus::kIoTimeout);
  // The peer, which has not decided yet, learns of it.
  Expect({{"rdma_broker_handshake_failures_total{side=\"active\",status=\"STATUS_IO_TIMEOUT\"}", 1},
          {"rdma_broker_handshake_failures_total{side=\"passive\",status=\"STATUS_CONNECTION_ABORTED\"}", 1},
          {"rdma_broker_adapter_connect_failures_total{adapter=\"fake1\"}", 2}});
}

TEST_F(MetricsTest, CallersWhoAreNotServedAreCounted) {
  Start([](Configuration& configuration) { configuration.connections_per_uid = 3; });
  const UniqueFd third = ConnectAs(::getuid(), ::getgid(), daemon_->control_path(), SOCK_STREAM);
  char greeting = 0;
  ASSERT_EQ(::read(third.get(), &greeting, 1), 1);
  const UniqueFd fourth = ConnectAs(::getuid(), ::getgid(), daemon_->control_path(), SOCK_STREAM);
  EXPECT_EQ(::read(fourth.get(), &greeting, 1), 0);
  const UniqueFd fetcher = ConnectAs(::getuid(), ::getgid(), daemon_->handoff_path(), SOCK_SEQPACKET);
  EXPECT_EQ(::send(fetcher.get(), "nonsense", 8, MSG_NOSIGNAL), 8);
  v1::CloseAdapterRequest unknown;
  unknown.set_adapter_id(4711);
  client_->Ask(&Stub::CloseAdapter, unknown);
  Expect({{"rdma_broker_callers_refused_total{reason=\"too_many_connections\"}", 1},
          {"rdma_broker_callers_refused_total{reason=\"hand_off\"}", 1},
          {"rdma_broker_callers_refused_total{reason=\"silent\"}", 0},
          {Requests("CloseAdapter", "OBJECT_NAME_NOT_FOUND"), 1}});
}

TEST_F(MetricsTest, DecisionsOfThePolicyAreCounted) {
  Start([](Configuration& configuration) {
    configuration.policy.rules = {{.name = "not that port", .allow = false, .local_ports = PortSet({{4421, 4421}})}};
  });
  const std::string allowed = "rdma_broker_policy_decisions_total{decision=\"allowed\"}";
  const std::string refused = "rdma_broker_policy_decisions_total{decision=\"refused\"}";
  const double before = Scrape(Port())[allowed];
  EXPECT_GT(before, 0);
  Expect({{refused, 0}});
  v1::ReservePortRequest reserve;
  reserve.set_adapter_id(client_adapter_);
  *reserve.mutable_address() = ToMessage(TestAddress(1, 4421));
  EXPECT_EQ(NdkStatusOf(client_->Ask(&Stub::ReservePort, reserve)), NdkStatus::kAccessDenied);
  Expect({{refused, 1}, {allowed, before}});
}

// As many of each kind as of no other.
TEST_F(MetricsTest, ASessionsObjectsAreCountedByTheirKind) {
  Start();
  EXPECT_NE(client_->OpenAdapter("fake1"), 0u);
  client_->Listen(client_adapter_, TestAddress(1));
  v1::CreateSharedEndpointRequest share;
  share.set_adapter_id(client_adapter_);
  *share.mutable_address() = ToMessage(TestAddress(1));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(NdkStatusOf(client_->Finish(&Stub::CreateSharedEndpoint, share)), NdkStatus::kSuccess);
  }
  v1::ReservePortRequest reserve;
  reserve.set_adapter_id(client_adapter_);
  *reserve.mutable_address() = ToMessage(TestAddress(1));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(NdkStatusOf(client_->Finish(&Stub::ReservePort, reserve)), NdkStatus::kSuccess);
  }
  for (int i = 0; i < 5; ++i) EXPECT_NE(client_->CreateConnector(client_adapter_), 0u);
  const auto of_client = [this](const char* what) {
    return absl::StrCat("rdma_broker_session_", what, "{session=\"", client_->session_id(), "\"}");
  };
  // What has pended: the listener, the shared endpoints and the reservations.
  Expect({{of_client("adapters"), 2},
          {of_client("listeners"), 1},
          {of_client("shared_endpoints"), 3},
          {of_client("reservations"), 4},
          {of_client("connectors"), 5},
          {of_client("unacknowledged_events"), 8},
          {absl::StrCat("rdma_broker_session_shared_endpoints{session=\"", server_->session_id(), "\"}"), 0},
          {"rdma_broker_listeners", 2},
          {"rdma_broker_shared_endpoints", 3},
          {"rdma_broker_reservations", 4}});
}

TEST_F(MetricsTest, NoLabelHasAnAddressOrASecret) {
  Start();
  ConnectClients(*server_, address_, *client_, client_adapter_, TestAddress(1));
  for (const auto& [series, value] : Scrape(Port())) {
    EXPECT_EQ(series.find(address_.ip.ToString()), std::string::npos) << series;
    EXPECT_EQ(series.find(client_->opened().session_secret()), std::string::npos) << series;
  }
}

// Of each metric the values of its labels that have a few only, which have names.
using LabelValues = std::map<std::string, std::set<std::string>>;

bool IsOfNames(const std::string& label) {
  static const std::set<std::string> kLabels = {"counter", "decision", "level", "reason", "state", "step"};
  return kLabels.contains(label);
}

LabelValues ValuesShown(const std::map<std::string, double>& scrape) {
  LabelValues shown;
  for (const auto& [series, value] : scrape) {
    const std::vector<std::string> parts = absl::StrSplit(series, absl::ByAnyChar("{,}"), absl::SkipEmpty());
    std::string name = parts[0];
    for (const char* suffix : {"_bucket", "_sum", "_count"}) name = std::string(absl::StripSuffix(name, suffix));
    for (size_t i = 1; i < parts.size(); ++i) {
      const std::vector<std::string> label = absl::StrSplit(parts[i], absl::ByAnyChar("=\""), absl::SkipEmpty());
      if (IsOfNames(label[0])) shown[name].insert(label.at(1));
    }
  }
  return shown;
}

// What stands in backticks there.
std::vector<std::string> CodeIn(const std::string& markdown) {
  std::vector<std::string> code;
  bool is_code = false;
  for (const absl::string_view part : absl::StrSplit(markdown, '`')) {
    if (is_code) code.emplace_back(part);
    is_code = !is_code;
  }
  return code;
}

std::set<std::string> NamesIn(const std::string& markdown) {
  std::set<std::string> names;
  for (const std::string& code : CodeIn(markdown)) {
    if (code.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos) names.insert(code);
  }
  return names;
}

// Type and labels are compared by the suite operated.
TEST_F(MetricsTest, EachMetricIsDocumentedAndWhatIsDocumentedIsThere) {
  const TemporaryFolder state;
  Start([&](Configuration& configuration) { configuration.state_directory = state.path() + "/state"; });
  std::set<std::string> shown;
  const std::string page = AskByHttp(Port(), "GET /metrics HTTP/1.1\r\n\r\n");
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() == 4 && words[1] == "TYPE") shown.insert(words[2]);
  }
  std::set<std::string> documented;
  LabelValues values_documented;
  std::ifstream file("docs/operating.md");
  ASSERT_TRUE(file.is_open());
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> cells = absl::StrSplit(line, " | ");
    const bool is_metric =
        cells.size() > 2 && (cells[1] == "counter" || cells[1] == "gauge" || cells[1] == "histogram");
    if (!is_metric) continue;
    const std::string name = cells[0].substr(3, cells[0].size() - 4);
    documented.insert(name);
    const std::vector<std::string> labels = CodeIn(cells[2]);
    if (std::any_of(labels.begin(), labels.end(), IsOfNames)) values_documented[name] = NamesIn(cells.at(3));
  }
  EXPECT_EQ(shown, documented);
  EXPECT_EQ(ValuesShown(Scrape(Port())), values_documented);
}

TEST_F(MetricsTest, OnlyAGetOfMetricsIsAnswered) {
  Start();
  EXPECT_EQ(AskByHttp(Port(), "POST /metrics HTTP/1.1\r\nContent-Length: 1\r\n\r\nx").find("HTTP/1.1 405 "), 0u);
  EXPECT_EQ(AskByHttp(Port(), "GET / HTTP/1.1\r\n\r\n").find("HTTP/1.1 404 "), 0u);
}

TEST_F(MetricsTest, AnAddressThatCannotBeHadIsAnErrorUnlessConnectionsAreAtStake) {
  const auto used = ListenOnTcp("address", "127.0.0.1:0", 1);
  ASSERT_TRUE(used.ok());
  const std::string address = AddressOf(*used).ToString();
  const auto refused = ListenForScrapes(address, false);
  EXPECT_EQ(refused.status().message().find(
                absl::StrCat("metrics.address: ", address, ": cannot be listened on: Address already in use; ")),
            0u);
  EXPECT_TRUE(log_.LinesWith("metrics not served").empty());
  const auto survived = ListenForScrapes(address, true);
  ASSERT_TRUE(survived.ok()) << survived.status();
  EXPECT_FALSE(*survived);
  EXPECT_EQ(log_.LinesWith("metrics not served").size(), 1u);
}

// A bound socket that does not listen: with SO_REUSEADDR, as the server's has, who names its port may listen there, but
// the system gives it to nobody who takes any.
UniqueFd HoldAPort() {
  UniqueFd holder(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  EXPECT_EQ(::setsockopt(holder.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
  sockaddr_in local = {};
  local.sin_family = AF_INET;
  local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(holder.get(), reinterpret_cast<const sockaddr*>(&local), sizeof local), 0);
  return holder;
}

TEST_F(MetricsTest, APortThatComesFreeIsServedThen) {
  Start();
  const UniqueFd holder = HoldAPort();
  const std::string address = AddressOf(holder).ToString();
  auto used = ListenOnTcp("address", address, 1);
  ASSERT_TRUE(used.ok()) << used.status();
  std::unique_ptr<MetricsPort> port;
  std::unique_ptr<Metrics> metrics = std::make_unique<Metrics>();
  daemon_->OnServer([&](ControlServer& server) {
    port = std::make_unique<MetricsPort>(UniqueFd(), MetricsPort::Settings{address, {}, nullptr, absl::Milliseconds(1)},
                                         server.broker(), *metrics, server.loop());
  });
  used->Reset();
  EXPECT_TRUE(Becomes([&] { return AskByHttp(address, "GET /metrics HTTP/1.1\r\n\r\n").find("200 OK") == 9; }));
  daemon_->OnServer([&](ControlServer&) { port.reset(); });
}

}  // namespace
}  // namespace rdmabroker
