// SPDX-License-Identifier: Apache-2.0

// What neither a scenario nor the search over small worlds can say: extremes.

#include "broker/core/broker_core.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <utility>
#include <variant>
#include <vector>

namespace rdmabroker {
namespace {

constexpr uint64_t kGreatest = std::numeric_limits<uint64_t>::max();

Outcome AnswerOf(const Effects& effects) {
  const auto* answer = effects.size() == 1 ? std::get_if<Answer>(&effects.front()) : nullptr;
  EXPECT_NE(answer, nullptr);
  return answer == nullptr ? Outcome{} : answer->outcome;
}

class HostileNumbers : public testing::Test {
 protected:
  HostileNumbers() { (void)Handle(OpenSession{StreamId(1), {1000, 1000, 1}, {}}); }

  Effects Handle(const Event& event) {
    Effects effects = core_.Handle(absl::UnixEpoch(), event);
    const absl::Status invariants = core_.CheckInvariants();
    EXPECT_TRUE(invariants.ok()) << invariants;
    return effects;
  }
  NdkStatus Ask(uint64_t id, uint64_t acknowledged, const Request& request) {
    return AnswerOf(Handle(ClientRequest{SessionId(1), RequestId(id), EventNumber(acknowledged), request})).status;
  }

  BrokerCore core_{Limits{}};
};

TEST_F(HostileNumbers, RequestIdsAtTheEndOfTheirRangeAreAnsweredAndRepeated) {
  const Request request = OpenAdapter{"none", kNdkVersion};
  for (const uint64_t id : {uint64_t{1}, kGreatest - 10, kGreatest - 1, kGreatest}) {
    EXPECT_EQ(Ask(id, 0, request), NdkStatus::kObjectNameNotFound) << id;
    EXPECT_EQ(Ask(id, 0, request), NdkStatus::kObjectNameNotFound) << id;
    EXPECT_EQ(Ask(id, 0, CloseConnector{ConnectorId(1)}), NdkStatus::kInvalidParameter) << id;
  }
  EXPECT_EQ(Ask(1, 0, request), NdkStatus::kInvalidParameter) << "its answer is forgotten";
}

TEST_F(HostileNumbers, ObjectsThatNoNumberNamesAreUnknown) {
  const std::vector<Request> requests = {
      CloseAdapter{AdapterId(kGreatest)},
      CreateListener{AdapterId()},
      Listen{ListenerId(kGreatest), {}, ReservationId(kGreatest)},
      CloseSharedEndpoint{SharedEndpointId()},
      ReleasePort{ReservationId(kGreatest)},
      ConnectWithSharedEndpoint{ConnectorId(kGreatest), {}, SharedEndpointId(kGreatest), {}, {}, {}},
      Accept{ConnectorId(), {kGreatest & 0xFFFFFFFF}, {}, {}},
  };
  uint64_t id = 0;
  for (const Request& request : requests) EXPECT_EQ(Ask(++id, 0, request), NdkStatus::kObjectNameNotFound) << id;
}

TEST_F(HostileNumbers, AnAcknowledgementOfWhatWasNeverSentIsRefused) {
  EXPECT_EQ(Ask(1, kGreatest, OpenAdapter{}), NdkStatus::kInvalidParameter);
  EXPECT_TRUE(Handle(AcknowledgeEvents{SessionId(1), EventNumber(kGreatest)}).empty());
}

TEST(ARestoredCore, LetsSessionsKeepWhatItsOwnLimitsWouldNotGive) {
  BrokerCore core{Limits{}};
  (void)core.Handle(absl::UnixEpoch(), FabricReport(DeviceChanged{{.id = DeviceId(1), .name = "nic0"}}));
  (void)core.Handle(absl::UnixEpoch(), OpenSession{StreamId(1), {}, {}});
  const auto open = [](BrokerCore& in, uint64_t id) {
    const OpenAdapter request{"nic0", kNdkVersion};
    return AnswerOf(in.Handle(absl::UnixEpoch(), ClientRequest{SessionId(1), RequestId(id), EventNumber(), request}));
  };
  for (const uint64_t id : {1, 2, 3}) ASSERT_EQ(open(core, id).status, NdkStatus::kSuccess);
  Limits lower;
  lower.adapters_per_session = 2;
  lower.answers_kept = 1;
  absl::StatusOr<BrokerCore> restored = BrokerCore::Restore(lower, core.records());
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->records(), core.records());
  EXPECT_EQ(open(*restored, 4).status, NdkStatus::kInsufficientResources);
  const SessionRecord& session = restored->records().sessions.at(SessionId(1));
  EXPECT_EQ(session.adapters, 3u);
  EXPECT_EQ(session.answers.size(), 1u);
}

// The whole range, to its last port, which is also the last that 16 bits hold.
TEST(TheEphemeralRange, GivesEachPortOnceAndThenNone) {
  Limits limits;
  limits.endpoints_per_uid = 1 << 16;
  limits.reservations_per_session = 1 << 16;
  limits.events_kept = 1 << 16;
  BrokerCore core(limits);
  Device device;
  device.id = DeviceId(1);
  device.name = "nic0";
  device.addresses = {{.bytes = {192, 0, 2, 1}}};
  (void)core.Handle(absl::UnixEpoch(), FabricReport(DeviceChanged{device}));
  (void)core.Handle(absl::UnixEpoch(), OpenSession{StreamId(1), {}, {}});
  uint64_t id = 0;
  const auto ask = [&](Request request) {
    const ClientRequest event{SessionId(1), RequestId(++id), EventNumber(), std::move(request)};
    return core.Handle(absl::UnixEpoch(), event);
  };
  (void)ask(OpenAdapter{"nic0", kNdkVersion});
  const ReservePort any{AdapterId(1), {device.addresses[0], 0}};
  std::set<uint16_t> ports;
  for (uint32_t i = 0; i <= uint32_t{limits.last_ephemeral_port} - limits.first_ephemeral_port; ++i) {
    for (const Effect& effect : ask(any)) {
      const auto* request = std::get_if<FabricRequest>(&effect);
      if (request != nullptr) ports.insert(std::get<FabricBind>(*request).port);
    }
  }
  EXPECT_EQ(ports.size(), 16384u);
  EXPECT_EQ(*ports.begin(), 49152);
  EXPECT_EQ(*ports.rbegin(), 65535);
  EXPECT_EQ(AnswerOf(ask(any)).status, NdkStatus::kTooManyAddresses);
  // One comes back, wherever in the range the search stands.
  (void)core.Handle(absl::UnixEpoch(), FabricReport(FabricBindFailed{EndpointId(5), NdkStatus::kInvalidAddress, 99}));
  EXPECT_EQ(std::get<FabricBind>(std::get<FabricRequest>(ask(any).front())).port, 49156);
}

}  // namespace
}  // namespace rdmabroker
