// SPDX-License-Identifier: Apache-2.0

// What the core keeps of a connector for people who ask why it is as it is.

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "broker/core/broker_core.h"

namespace rdmabroker {
namespace {

constexpr DeviceId kDevice(1);
constexpr SessionId kSession(1);
constexpr ConnectorId kConnector(1);
const IpAddress kHere = {.bytes = {192, 0, 2, 1}};
const IpAddress kThere = {.bytes = {192, 0, 2, 2}};

Instant At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

// A session with one connector, at second 1.
class ConnectorFailureTest : public testing::Test {
 protected:
  ConnectorFailureTest() { Begin(); }

  void Begin() {
    core_ = BrokerCore{Limits{}};
    requests_ = 0;
    const Device device = {
        .id = kDevice, .name = "nic0", .info = {.max_caller_data = 56, .max_callee_data = 56}, .addresses = {kHere}};
    Handle(1, FabricReport(DeviceChanged{device}));
    Handle(1, OpenSession{StreamId(1), {}, {}});
    Ask(1, OpenAdapter{"nic0", kNdkVersion});
    Ask(1, CreateConnector{AdapterId(1)});
  }

  void Handle(int second, const Event& event) {
    last_ = core_.Handle(At(second), event);
    const absl::Status invariants = core_.CheckInvariants();
    EXPECT_TRUE(invariants.ok()) << invariants;
  }
  void Ask(int second, const Request& request) {
    Handle(second, ClientRequest{kSession, RequestId(++requests_), EventNumber(), request});
  }
  void StartConnect(int second, uint16_t from = 0) {
    Ask(second, Connect{kConnector, {17}, {kHere, from}, {kThere, 7471}, {}, {}});
    for (const Effect& effect : std::exchange(last_, {})) {
      const auto* request = std::get_if<FabricRequest>(&effect);
      const auto* bind = request == nullptr ? nullptr : std::get_if<FabricBind>(request);
      if (bind != nullptr) Handle(second, FabricReport(FabricBound{bind->endpoint}));
    }
    ASSERT_EQ(Connector().state, ConnectorState::kConnecting);
  }
  // As the peer's broker answers where nothing listens.
  void Refuse(int second) {
    const ConnectionId connection = Connector().connection;
    Handle(second, FabricReport(FabricConnectFailed{
                       .connection = connection, .status = NdkStatus::kConnectionRefused, .provider_error = 28}));
    Handle(second, FabricReport(FabricReleased{connection}));
  }
  void Establish(int second, const std::optional<HandoffSecret>& handoff = {}) {
    StartConnect(second);
    Handle(second, FabricReport(FabricReplied{.connection = Connector().connection}));
    Ask(second, CompleteConnect{kConnector});
    Handle(second, FabricReport(FabricEstablished{Connector().connection, handoff}));
    ASSERT_EQ(Connector().state, ConnectorState::kEstablished);
  }
  void Disconnected(int second, NdkStatus status, uint32_t error) {
    Handle(second, FabricReport(FabricDisconnected{Connector().connection, status, error}));
  }
  void Remove(int second) { Handle(second, FabricReport(DeviceRemoved{kDevice})); }
  const ConnectorRecord& Connector() { return core_.records().connectors.at(kConnector); }

  BrokerCore core_{Limits{}};
  Effects last_;
  uint64_t requests_ = 0;
};

TEST_F(ConnectorFailureTest, IsNoneBeforeAnythingHasFailed) {
  EXPECT_EQ(Connector().since, At(1));
  StartConnect(2);
  EXPECT_EQ(Connector().since, At(2));
  EXPECT_FALSE(Connector().failure.has_value());
}

TEST_F(ConnectorFailureTest, IsKeptWhileTheConnectorTriesAgain) {
  StartConnect(2);
  Refuse(3);
  ASSERT_TRUE(Connector().failure.has_value());
  EXPECT_EQ(Connector().failure->status, NdkStatus::kConnectionRefused);
  EXPECT_EQ(Connector().failure->provider_error, 28u);
  EXPECT_EQ(Connector().failure->at, At(3));
  EXPECT_EQ(Connector().failure->hint, "destination 192.0.2.2:7471: cannot be connected");
  EXPECT_EQ(Connector().since, At(3));
  StartConnect(5);
  ASSERT_TRUE(Connector().failure.has_value());
  EXPECT_EQ(Connector().failure->at, At(3));
  EXPECT_EQ(Connector().since, At(5));
}

TEST_F(ConnectorFailureTest, NamesThePortThatHasAConnectionToThePeerAlready) {
  StartConnect(2, 5000);
  Handle(3, FabricReport(FabricConnectFailed{.connection = Connector().connection,
                                             .status = NdkStatus::kAddressAlreadyExists,
                                             .provider_error = EADDRNOTAVAIL}));
  ASSERT_TRUE(Connector().failure.has_value());
  EXPECT_NE(Connector().failure->hint.find("192.0.2.1:5000"), std::string::npos) << Connector().failure->hint;
}

TEST_F(ConnectorFailureTest, IsATimeout) {
  StartConnect(2);
  Handle(62, DeadlineReached{});
  ASSERT_TRUE(Connector().failure.has_value());
  EXPECT_EQ(Connector().failure->status, NdkStatus::kIoTimeout);
  EXPECT_EQ(Connector().state, ConnectorState::kIdle);
}

TEST_F(ConnectorFailureTest, IsABrokenConnectionsButNotAnOrderlyOnes) {
  const auto disconnect = [this] { Ask(4, Disconnect{kConnector}); };
  struct Row {
    const char* end;
    std::function<void()> steps;
    NdkStatus status = NdkStatus::kSuccess;  // And the error: the failure's, if there is one.
    uint32_t error = 0;
  };
  const Row rows[] = {
      {"the peer's goodbye", [&] { Disconnected(4, NdkStatus::kSuccess, 0); }},
      {"a break", [&] { Disconnected(4, NdkStatus::kConnectionAborted, 104); }, NdkStatus::kConnectionAborted, 104},
      {"its own goodbye",
       [&] {
         disconnect();
         Disconnected(4, NdkStatus::kSuccess, 0);
       }},
      {"a break of its own goodbye",
       [&] {
         disconnect();
         Disconnected(4, NdkStatus::kIoTimeout, 110);
       },
       NdkStatus::kIoTimeout, 110},
      {"a goodbye that its client tells of",
       [&] { Ask(4, ReportConnectionEnd{.connector = kConnector, .graceful = true}); }},
      {"a break that its client tells of",
       [&] { Ask(4, ReportConnectionEnd{.connector = kConnector, .provider_error = 103}); },
       NdkStatus::kConnectionAborted, 103},
      {"its device's going", [&] { Remove(4); }, NdkStatus::kDeviceRemoved},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.end);
    Begin();
    Establish(2);
    row.steps();
    EXPECT_EQ(Connector().failure.has_value(), row.status != NdkStatus::kSuccess);
    const ConnectorFailure failure = Connector().failure.value_or(ConnectorFailure{.status = NdkStatus::kSuccess});
    EXPECT_EQ(failure.status, row.status);
    EXPECT_EQ(failure.provider_error, row.error);
    EXPECT_EQ(Connector().since, At(4));
  }
}

TEST_F(ConnectorFailureTest, IsATransportThatNobodyFetches) {
  Establish(2, HandoffSecret());
  Handle(42, DeadlineReached{});
  ASSERT_TRUE(Connector().failure.has_value());
  EXPECT_EQ(Connector().failure->status, NdkStatus::kIoTimeout);
  EXPECT_EQ(Connector().failure->at, At(42));
}

TEST_F(ConnectorFailureTest, IsNoneOfADeviceThatGoesBeforeOrAfterTheConnection) {
  Remove(2);
  EXPECT_EQ(Connector().state, ConnectorState::kIdle);
  EXPECT_FALSE(Connector().failure.has_value());
  Begin();
  Establish(2);
  Ask(3, ReportConnectionEnd{.connector = kConnector});
  Remove(4);
  EXPECT_EQ(Connector().dead_status, NdkStatus::kConnectionInvalid);
  ASSERT_TRUE(Connector().failure.has_value());
  EXPECT_EQ(Connector().failure->at, At(3));
}

TEST_F(ConnectorFailureTest, IsWhatAConnectorDiesOfWhoseDeviceGoes) {
  Establish(2);
  Remove(3);
  EXPECT_EQ(Connector().state, ConnectorState::kDead);
  EXPECT_EQ(Connector().dead_status, NdkStatus::kDeviceRemoved);
}

TEST_F(ConnectorFailureTest, IsNoYoungerForAClose) {
  Establish(2);
  Ask(3, ReportConnectionEnd{.connector = kConnector});
  Ask(4, CloseConnector{kConnector});
  EXPECT_TRUE(Connector().closing);
  EXPECT_EQ(Connector().since, At(3));
}

TEST_F(ConnectorFailureTest, IsNoneOfARecoveredConnectionWhichSaysThatItIs) {
  EXPECT_FALSE(Connector().recovered);
  StartConnect(2);
  EXPECT_FALSE(Connector().recovered);
  Handle(3, Recover{});
  EXPECT_TRUE(Connector().recovered);
  EXPECT_EQ(Connector().since, At(2));
  Refuse(4);
  Handle(4, ResumeSession{StreamId(2), kSession, {}, {}, EventNumber()});
  StartConnect(5);
  EXPECT_FALSE(Connector().recovered) << "another connection";
}

}  // namespace
}  // namespace rdmabroker
