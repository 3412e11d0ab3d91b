// SPDX-License-Identifier: Apache-2.0

// What neither a scenario nor the search over small worlds can say: extremes.

#include "broker/core/broker_core.h"

#include <gtest/gtest.h>

#include <limits>
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

}  // namespace
}  // namespace rdmabroker
