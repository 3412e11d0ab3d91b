// SPDX-License-Identifier: Apache-2.0

// Why the core refuses peers, and how handshakes fail, which its effects do not tell.

#include "broker/core/tally.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <utility>

#include "broker/core/broker_core.h"

namespace rdmabroker {
namespace {

constexpr DeviceId kDevice(1);
constexpr EndpointId kEndpoint(1);
constexpr ListenerId kListener(1);
constexpr SocketAddress kLocal = {{.bytes = {192, 0, 2, 1}}, 7000};
constexpr SocketAddress kPeer = {{.bytes = {192, 0, 2, 9}}, 80};

// A core with one listener that listens.
class Refusing {
 public:
  explicit Refusing(const Limits& limits) : core_(limits) {
    Device device;
    device.id = kDevice;
    device.name = "nic0";
    device.addresses = {kLocal.ip};
    Handle(FabricReport(DeviceChanged{device}));
    Handle(OpenSession{StreamId(1), {}, {}});
    Ask(OpenAdapter{"nic0", kNdkVersion});
    Ask(CreateListener{AdapterId(1)});
    Ask(Listen{kListener, kLocal, ReservationId()});
    Handle(FabricReport(FabricBound{kEndpoint}));
  }

  void Handle(const Event& event) {
    (void)core_.Handle(absl::UnixEpoch(), event);
    const absl::Status invariants = core_.CheckInvariants();
    EXPECT_TRUE(invariants.ok()) << invariants;
  }
  void Ask(const Request& request) {
    Handle(ClientRequest{SessionId(1), RequestId(++last_request_), EventNumber(), request});
  }
  void Arrive(EndpointId endpoint = kEndpoint) {
    FabricConnectRequested requested{.endpoint = endpoint, .connection = IncomingConnection(kDevice, ++last_peer_)};
    requested.local = kLocal;
    requested.peer = kPeer;
    Handle(FabricReport(requested));
  }
  void Remove() { Handle(FabricReport(DeviceRemoved{kDevice})); }

  // How often, by reason, of those that are not 0.
  std::map<Refusal, uint64_t> Refusals(Side side) const {
    std::map<Refusal, uint64_t> refusals;
    for (size_t i = 0; i < kRefusals; ++i) {
      const uint64_t count = core_.tally().refusals[static_cast<size_t>(side)][i];
      if (count != 0) refusals[static_cast<Refusal>(i)] = count;
    }
    return refusals;
  }
  const BrokerCore& core() const { return core_; }

 private:
  BrokerCore core_;
  uint64_t last_request_ = 0;
  uint64_t last_peer_ = 0;
};

struct Row {
  const char* what;
  std::function<void(Limits&)> limit;
  std::function<void(Refusing&)> before;
  std::map<Refusal, uint64_t> refusals;
};

void Nothing(Limits&) {}

TEST(ThePassiveSidesRefusals, AreCountedByTheirReason) {
  const Row rows[] = {
      {"a listener that listens", Nothing, [](Refusing&) {}, {}},
      {"a paused one",
       Nothing,
       [](Refusing& core) {
         core.Ask(ControlConnectEvents{kListener, true});
       },
       {{Refusal::kPaused, 1}}},
      {"one that is closed",
       Nothing,
       [](Refusing& core) { core.Ask(CloseListener{kListener}); },
       {{Refusal::kClosing, 1}}},
      {"a full one",
       [](Limits& limits) { limits.backlog = 1; },
       [](Refusing& core) { core.Arrive(); },
       {{Refusal::kBacklog, 1}}},
      {"one of a device that has gone", Nothing, [](Refusing& core) { core.Remove(); }, {{Refusal::kRemoved, 1}}},
      {"one whose client acknowledges nothing",
       [](Limits& limits) { limits.events_kept = 2; },
       [](Refusing& core) { core.Arrive(); },
       {{Refusal::kEvents, 1}}},
      {"one whose session is full",
       [](Limits& limits) { limits.connectors_per_session = 1; },
       [](Refusing& core) { core.Ask(CreateConnector{AdapterId(1)}); },
       {{Refusal::kQuota, 1}}},
      {"one whose user is full",
       [](Limits& limits) { limits.objects_per_uid = 2; },
       [](Refusing&) {},
       {{Refusal::kQuota, 1}}},
      {"one that rejects",
       Nothing,
       [](Refusing& core) {
         core.Arrive();
         core.Ask(Reject{ConnectorId(1), {}});
       },
       {{Refusal::kClient, 1}}},
      {"one whose client closes what it should decide upon",
       Nothing,
       [](Refusing& core) {
         core.Arrive();
         core.Ask(CloseConnector{ConnectorId(1)});
       },
       {{Refusal::kClient, 1}}},
      {"one that accepts while it is closed, where that is forbidden",
       [](Limits& limits) { limits.accept_on_closing_listener = false; },
       [](Refusing& core) {
         core.Arrive();
         core.Ask(CloseListener{kListener});
         core.Ask(Accept{ConnectorId(1), QpNumber{2}, {}, {}});
       },
       {{Refusal::kClosing, 2}}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    Limits limits;
    row.limit(limits);
    Refusing core(limits);
    row.before(core);
    core.Arrive();
    EXPECT_EQ(core.Refusals(Side::kPassive), row.refusals);
    EXPECT_TRUE(core.Refusals(Side::kActive).empty());
  }
}

TEST(ThePassiveSidesRefusals, AreOfNoListenerBeforeThereIsOne) {
  Refusing core{Limits{}};
  core.Ask(CreateListener{AdapterId(1)});
  core.Ask(Listen{ListenerId(2), {kLocal.ip, 7001}, ReservationId()});
  core.Arrive(EndpointId(2));
  EXPECT_EQ(core.Refusals(Side::kPassive), (std::map<Refusal, uint64_t>{{Refusal::kNoListener, 1}}));
}

TEST(ThePassiveSidesRefusals, AreOfNoListenerWhereTheAddressIsNoListeners) {
  Refusing core{Limits{}};
  core.Ask(CreateSharedEndpoint{AdapterId(1), {kLocal.ip, 7001}, ReservationId()});
  core.Handle(FabricReport(FabricBound{EndpointId(2)}));
  core.Arrive(EndpointId(2));
  EXPECT_EQ(core.Refusals(Side::kPassive), (std::map<Refusal, uint64_t>{{Refusal::kNoListener, 1}}));
}

TEST(FailedHandshakes, AreCountedByTheirSideAndStatus) {
  Refusing core{Limits{}};
  for (const uint64_t peer : {1, 2}) {
    core.Arrive();
    const ConnectionId connection = IncomingConnection(kDevice, peer);
    core.Handle(FabricReport(FabricFailed{.connection = connection, .status = NdkStatus::kConnectionAborted}));
  }
  core.Ask(CreateConnector{AdapterId(1)});
  core.Ask(Connect{ConnectorId(3), {2}, {kLocal.ip, 7001}, kPeer, {}, {}});
  core.Handle(FabricReport(FabricBound{EndpointId(2)}));
  core.Handle(
      FabricReport(FabricConnectFailed{.connection = ConnectionId(1), .status = NdkStatus::kNetworkUnreachable}));
  const std::map<std::pair<Side, NdkStatus>, uint64_t> expected = {
      {{Side::kPassive, NdkStatus::kConnectionAborted}, 2}, {{Side::kActive, NdkStatus::kNetworkUnreachable}, 1}};
  EXPECT_EQ(core.core().tally().failures, expected);
}

TEST(TheTally, IsOfOneProcess) {
  Refusing core{Limits{}};
  core.Ask(ControlConnectEvents{kListener, true});
  core.Arrive();
  const auto next = BrokerCore::Restore(Limits{}, core.core().records());
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->tally().refusals, Tally().refusals);
  EXPECT_EQ(next->states(), core.core().states());
}

}  // namespace
}  // namespace rdmabroker
