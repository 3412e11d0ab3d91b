// SPDX-License-Identifier: Apache-2.0

#include "broker/monitoring/handshake_steps.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

namespace rdmabroker {
namespace {

constexpr DeviceId kDevice(1);
constexpr EndpointId kEndpoint(7);
constexpr ConnectionId kActive(3);
const ConnectionId kPassive = IncomingConnection(kDevice, 3);

class HandshakeStepsTest : public testing::Test {
 protected:
  using Timed = std::tuple<Side, HandshakeStep, absl::Duration>;

  // A second after the last time.
  void Report(const FabricReport& report, const std::vector<FabricRequest>& requests = {}) { See(report, requests); }
  void Ask(const std::vector<FabricRequest>& requests) { See(DeadlineReached{}, requests); }
  void See(const Event& event, const std::vector<FabricRequest>& requests) {
    now_ += absl::Seconds(1);
    Effects effects;
    for (const FabricRequest& request : requests) effects.emplace_back(request);
    steps_.Observe(now_, event, effects);
  }
  // For what takes longer.
  void Wait() { now_ += absl::Seconds(9); }

  Instant now_ = absl::UnixEpoch();
  std::vector<Timed> timed_;
  HandshakeSteps steps_{
      [this](Side side, HandshakeStep step, absl::Duration took) { timed_.emplace_back(side, step, took); }};
};

TEST_F(HandshakeStepsTest, TheActiveSidesAreFromEachRequestToItsReport) {
  Ask({FabricBind{kDevice, kEndpoint, EndpointUse::kDedicated, {}, 0}});
  Report(FabricBound{kEndpoint}, {FabricConnect{.device = kDevice, .connection = kActive}});
  Wait();
  Report(FabricReplied{.connection = kActive});
  Wait();  // The client's time is none of the handshake's.
  Ask({FabricComplete{kDevice, kActive, {}}});
  Report(FabricEstablished{kActive, HandoffSecret{}});
  Report(FabricHandedOff{kActive});
  Ask({FabricDisconnect{kDevice, kActive}});
  Wait();
  Report(FabricDisconnected{.connection = kActive}, {FabricRelease{kDevice, kActive}});
  EXPECT_EQ(timed_, (std::vector<Timed>{{Side::kActive, HandshakeStep::kBind, absl::Seconds(1)},
                                        {Side::kActive, HandshakeStep::kConnect, absl::Seconds(10)},
                                        {Side::kActive, HandshakeStep::kComplete, absl::Seconds(1)},
                                        {Side::kActive, HandshakeStep::kHandOff, absl::Seconds(1)},
                                        {Side::kActive, HandshakeStep::kDisconnect, absl::Seconds(10)}}));
  EXPECT_EQ(steps_.under_way(), 0u);
}

TEST_F(HandshakeStepsTest, ThePassiveSidesBeginWithThePeersRequest) {
  Ask({FabricBind{kDevice, kEndpoint, EndpointUse::kListener, {}, 0}});
  Report(FabricBound{kEndpoint});
  Report(FabricConnectRequested{.endpoint = kEndpoint, .connection = kPassive});
  Wait();
  Ask({FabricAccept{.device = kDevice, .connection = kPassive}});
  Report(FabricEstablished{kPassive, std::nullopt});
  EXPECT_EQ(timed_, (std::vector<Timed>{{Side::kPassive, HandshakeStep::kBind, absl::Seconds(1)},
                                        {Side::kPassive, HandshakeStep::kDecide, absl::Seconds(10)},
                                        {Side::kPassive, HandshakeStep::kAccept, absl::Seconds(1)}}));
  EXPECT_EQ(steps_.under_way(), 0u);
}

TEST_F(HandshakeStepsTest, ARejectIsADecisionAndARefusalIsNone) {
  const FabricConnectRequested requested{.endpoint = kEndpoint, .connection = kPassive};
  Report(requested, {FabricRefuse{kDevice, kPassive}});
  EXPECT_EQ(steps_.under_way(), 0u);
  Report(requested);
  Ask({FabricReject{kDevice, kPassive, {}}});
  EXPECT_EQ(timed_, (std::vector<Timed>{{Side::kPassive, HandshakeStep::kDecide, absl::Seconds(1)}}));
  EXPECT_EQ(steps_.under_way(), 0u);
}

TEST_F(HandshakeStepsTest, APeerThatDisconnectsAtOnceHasEndedTheAcceptanceBefore) {
  Report(FabricConnectRequested{.endpoint = kEndpoint, .connection = kPassive});
  Ask({FabricAccept{.device = kDevice, .connection = kPassive}});
  Report(FabricDisconnected{.connection = kPassive});
  EXPECT_EQ(timed_.size(), 2u);
  EXPECT_EQ(std::get<1>(timed_.back()), HandshakeStep::kAccept);
}

TEST_F(HandshakeStepsTest, WhatDoesNotSucceedIsNotTimedAndNotKept) {
  const FabricConnect connect{.device = kDevice, .connection = kActive};
  const FabricRelease release{kDevice, kActive};
  const std::function<void()> failures[] = {
      [&] { Report(FabricConnectFailed{.connection = kActive}, {release}); },
      [&] { Report(FabricFailed{.connection = kActive}); },
      [&] { Report(FabricReleased{kActive}); },
      [&] { Ask({release}); },
      [&] { Report(FabricDisconnected{.connection = kActive, .status = NdkStatus::kConnectionAborted}); },
  };
  for (const auto& fail : failures) {
    Ask({connect});
    EXPECT_EQ(steps_.under_way(), 1u);
    fail();
    EXPECT_EQ(steps_.under_way(), 0u);
  }
  Ask({FabricDisconnect{kDevice, kActive}});
  Report(FabricDisconnected{.connection = kActive, .status = NdkStatus::kIoTimeout});
  Ask({FabricBind{kDevice, kEndpoint, EndpointUse::kDedicated, {}, 0}});
  Report(FabricBindFailed{.endpoint = kEndpoint});
  EXPECT_EQ(timed_, std::vector<Timed>());
  EXPECT_EQ(steps_.under_way(), 0u);
}

TEST_F(HandshakeStepsTest, WhatAFormerProcessBeganIsNotTimed) {
  See(Recover{}, {FabricAccept{.device = kDevice, .connection = kPassive}});
  Report(FabricEstablished{kPassive, std::nullopt});
  EXPECT_EQ(timed_, std::vector<Timed>());
}

}  // namespace
}  // namespace rdmabroker
