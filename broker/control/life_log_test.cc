// SPDX-License-Identifier: Apache-2.0

#include "broker/control/life_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "broker/core/broker_core.h"
#include "broker/core/messages.h"
#include "dataplane/ndk/adapter_info.h"
#include "dataplane/ndk/status.h"
#include "dataplane/provider_error.h"
#include "tests/captured_log.h"

namespace rdmabroker {
namespace {

using testing::HasSubstr;

constexpr SessionId kSession(1);
constexpr ConnectorId kConnector(1);

class LifeLogTest : public testing::Test {
 protected:
  void Handle(const Event& event) { (void)core_.Handle(absl::UnixEpoch(), event); }

  // A session with a connector, which connects from an address that is not bound yet.
  void StartConnect() {
    Handle(FabricReport(DeviceChanged{{.id = DeviceId(1), .name = "nic1", .addresses = {{.bytes = {192, 0, 2, 1}}}}}));
    Handle(OpenSession{StreamId(1), {}, {}});
    log_.Opened(kSession);
    Ask(OpenAdapter{"nic1", kNdkVersion});
    Ask(CreateConnector{AdapterId(1)});
    asked_ = Ask(Connect{.connector = kConnector,
                         .qp = {7},
                         .source = {{.bytes = {192, 0, 2, 1}}, 1234},
                         .destination = {{.bytes = {192, 0, 2, 2}}, 4420},
                         .limits = {},
                         .private_data = {}});
    ASSERT_EQ(core_.records().connectors.at(kConnector).pending, asked_.id);
  }
  ClientRequest Ask(Request request) {
    ClientRequest asked{kSession, RequestId(++requests_), EventNumber(0), std::move(request)};
    Handle(asked);
    return asked;
  }
  NumberedEvent Refused(uint64_t number) const {
    return {
        kSession, StreamId(1), EventNumber(number),
        OutcomeEvent{asked_.id, {.status = NdkStatus::kConnectionRefused, .payload = {}, .hint = "nobody listens"}}};
  }
  size_t Failures() { return lines_.LinesWith("connector failed session=1 connector=1 device=nic1").size(); }

  BrokerCore core_{Limits{}};
  LifeLog log_{core_};
  ClientRequest asked_;
  CapturedLog lines_;

 private:
  uint64_t requests_ = 0;
};

TEST_F(LifeLogTest, AnOutcomeIsItsConnectorsThoughManyRequestsAreBetween) {
  StartConnect();
  log_.Answered(asked_, {.status = NdkStatus::kPending});
  for (int i = 0; i < 100; ++i) log_.Answered(Ask(CreateConnector{AdapterId(1)}), {});
  log_.Happened(Refused(1), nullptr);
  EXPECT_EQ(Failures(), 1u);
}

TEST_F(LifeLogTest, AnOutcomeMayComeBeforeTheAnswer) {
  StartConnect();
  log_.Happened(Refused(1), &asked_);
  EXPECT_EQ(Failures(), 1u);
}

TEST_F(LifeLogTest, ARepeatedRequestWaitsForNothing) {
  StartConnect();
  log_.Answered(asked_, {.status = NdkStatus::kPending});
  Handle(FabricReport(FabricBindFailed{EndpointId(1), NdkStatus::kSharingViolation, 0}));
  log_.Happened(Refused(1), nullptr);
  log_.Answered(asked_, {.status = NdkStatus::kPending});
  log_.Happened(Refused(2), nullptr);
  EXPECT_EQ(Failures(), 1u);
}

TEST_F(LifeLogTest, WhoGoesOnKnowsWhatWaits) {
  StartConnect();
  LifeLog next(core_);
  next.GoOn();
  next.Happened(Refused(1), nullptr);
  EXPECT_EQ(Failures(), 1u);
}

TEST_F(LifeLogTest, AnEndThatTheClientReportsIsLoggedWithWhatItSaysOfTheCause) {
  StartConnect();
  const ConnectionId connection(1);
  Handle(FabricReport(FabricBound{EndpointId(1)}));
  Handle(FabricReport(FabricReplied{.connection = connection}));
  Ask(CompleteConnect{kConnector});
  Handle(FabricReport(FabricEstablished{connection, std::nullopt}));
  log_.GoOn();
  const uint32_t error = TerminateReceived(iwarp::kDdpNoBuffer);
  log_.Answered(Ask(ReportConnectionEnd{kConnector, false, error}), {});
  const auto lines = lines_.LinesWith("connector broken session=1 connector=1 device=nic1");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines.front(), HasSubstr(absl::StrCat("provider_error=", error)));
  EXPECT_THAT(lines.front(), HasSubstr("receive"));
}

TEST_F(LifeLogTest, APeerThatSendsLargerPacketsThanThePortTakesIsWarnedOf) {
  constexpr uint32_t kMtu1024 = 3;  // Of enum ibv_mtu.
  Handle(FabricReport(DeviceChanged{
      {.id = DeviceId(1), .name = "nic1", .addresses = {{.bytes = {192, 0, 2, 1}}}, .mtu = MtuInBytes(kMtu1024)}}));
  Handle(OpenSession{StreamId(1), {}, {}});
  log_.Opened(kSession);
  Ask(OpenAdapter{"nic1", kNdkVersion});
  Ask(CreateListener{AdapterId(1)});
  Ask(Listen{.listener = ListenerId(1), .address = {{.bytes = {192, 0, 2, 1}}, 4420}});
  Handle(FabricReport(FabricBound{EndpointId(1)}));
  for (uint32_t mtu = kMtu1024; mtu <= kMtu1024 + 1; ++mtu) {
    FabricConnectRequested asked = {.endpoint = EndpointId(1), .connection = IncomingConnection(DeviceId(1), mtu)};
    asked.local = {{.bytes = {192, 0, 2, 1}}, 4420};
    asked.peer = {{.bytes = {192, 0, 2, 2}}, static_cast<uint16_t>(1000 + mtu)};
    asked.qp_attributes = {{.path_mtu = mtu}};
    Handle(FabricReport(asked));
    const ConnectorId connector = ConnectorId(mtu - kMtu1024 + 1);
    ASSERT_TRUE(core_.records().connectors.contains(connector));
    log_.Happened({kSession, StreamId(1), EventNumber(mtu), ConnectEvent{ListenerId(1), connector, {}}}, nullptr);
    EXPECT_EQ(lines_.LinesWith(absl::StrCat("path_mtu=", MtuInBytes(mtu), " mtu=1024")).size(), mtu - kMtu1024);
  }
}

TEST_F(LifeLogTest, AnAddressThatGoesAndComesIsToldOf) {
  const Device device = {.id = DeviceId(1), .name = "nic1", .addresses = {{.bytes = {192, 0, 2, 1}}}};
  Device bare = device;
  bare.addresses.clear();
  Handle(FabricReport(DeviceChanged{device}));
  Handle(OpenSession{StreamId(1), {.uid = 1000}, {}});
  Ask(OpenAdapter{"nic1", kNdkVersion});
  for (const SocketAddress& address : {SocketAddress{device.addresses[0], 4420}, {{}, 4421}}) {
    const uint64_t number = address.port - 4419U;
    Ask(CreateListener{AdapterId(1)});
    Ask(Listen{.listener = ListenerId(number), .address = address});
    Handle(FabricReport(FabricBound{EndpointId(number)}));
  }
  for (const Device& next : {bare, device}) {
    for (const Effect& effect : core_.Handle(absl::UnixEpoch(), FabricReport(DeviceChanged{next}))) {
      log_.Saw(effect, nullptr);
    }
  }
  const std::string fields = " endpoint=1 uid=1000 device=nic1 local=192.0.2.1:4420 left_out=0";
  EXPECT_EQ(lines_.LinesWith("address of an endpoint gone" + fields).size(), 1u);
  EXPECT_EQ(lines_.LinesWith("address of an endpoint there" + fields).size(), 1u);
  EXPECT_EQ(lines_.LinesWith("address of an endpoint").size(), 2u) << "a wildcard's";
}

TEST_F(LifeLogTest, FloodsAreBounded) {
  const absl::Time start = absl::Now();
  constexpr uint64_t kSessions = 10 * LifeLog::kAtOnce;
  for (uint64_t i = 1; i <= kSessions; ++i) {
    Handle(OpenSession{StreamId(i), {}, {}});
    log_.Opened(SessionId(i));
    log_.Opened(SessionId(i));
    log_.Away(SessionId(i));
    Handle(EndSession{SessionId(i)});
    log_.Ended(SessionId(i), "it has to");
  }
  const auto most = LifeLog::kAtOnce + static_cast<size_t>(absl::ToInt64Seconds(absl::Now() - start)) + 1;
  for (const char* event : {"session opened", "session resumed", "session away", "session ended"}) {
    EXPECT_GE(lines_.LinesWith(event).size(), LifeLog::kAtOnce) << event;
    EXPECT_LE(lines_.LinesWith(event).size(), most) << event;
  }
}

}  // namespace
}  // namespace rdmabroker
