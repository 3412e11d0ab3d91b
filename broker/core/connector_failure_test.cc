// SPDX-License-Identifier: Apache-2.0

// What the core keeps of a connector for people who ask why it is as it is.

#include <gtest/gtest.h>

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
  void StartConnect(int second) {
    Ask(second, Connect{kConnector, {17}, {kHere, 0}, {kThere, 7471}, {}, {}});
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

TEST_F(ConnectorFailureTest, IsATimeout) {
  StartConnect(2);
  Handle(62, DeadlineReached{});
  ASSERT_TRUE(Connector().failure.has_value());
  EXPECT_EQ(Connector().failure->status, NdkStatus::kIoTimeout);
  EXPECT_EQ(Connector().state, ConnectorState::kIdle);
}

TEST_F(ConnectorFailureTest, IsABrokenConnectionsButNotAnOrderlyOnes) {
  for (const NdkStatus status : {NdkStatus::kSuccess, NdkStatus::kConnectionAborted}) {
    Begin();
    StartConnect(2);
    const ConnectionId connection = Connector().connection;
    Handle(3, FabricReport(FabricReplied{.connection = connection}));
    Ask(3, CompleteConnect{kConnector});
    Handle(3, FabricReport(FabricEstablished{connection, {}}));
    Handle(4, FabricReport(FabricDisconnected{connection, status, 104}));
    EXPECT_EQ(Connector().failure.has_value(), status != NdkStatus::kSuccess);
    EXPECT_EQ(Connector().since, At(4));
  }
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
