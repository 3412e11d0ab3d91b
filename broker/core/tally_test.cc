// SPDX-License-Identifier: Apache-2.0

// What the core counts and its effects do not tell: why it refuses peers, how handshakes end.

#include "broker/core/tally.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <utility>

#include "broker/core/broker_core.h"

namespace rdmabroker {
namespace {

constexpr DeviceId kDevice(1);
constexpr EndpointId kEndpoint(1);
constexpr ConnectionId kOutgoing(1);
constexpr ListenerId kListener(1);
constexpr SocketAddress kLocal = {{.bytes = {192, 0, 2, 1}}, 7000};
constexpr SocketAddress kPeer = {{.bytes = {192, 0, 2, 9}}, 80};
constexpr absl::Duration kMinute = absl::Minutes(1);

// A core with one listener that listens.
class Counting {
 public:
  explicit Counting(const Limits& limits) : core_(limits) {
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
    (void)core_.Handle(now_, event);
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
  // Connector 1 connects, by kOutgoing.
  void StartConnect() {
    Ask(CreateConnector{AdapterId(1)});
    Ask(Connect{ConnectorId(1), QpNumber{2}, {kLocal.ip, 0}, kPeer, {}, {}});
    Handle(FabricReport(FabricBound{EndpointId(2)}));
  }
  void FailConnect(NdkStatus status) {
    StartConnect();
    Handle(FabricReport(FabricConnectFailed{.connection = kOutgoing, .status = status}));
  }
  void Reply() {
    StartConnect();
    Handle(FabricReport(FabricReplied{.connection = kOutgoing}));
  }
  void StartAccept() {
    Arrive();
    Ask(Accept{ConnectorId(1), QpNumber{2}, {}, {}});
  }
  void Pass(absl::Duration time) {
    now_ += time;
    Handle(DeadlineReached{});
  }

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
  Instant now_ = absl::UnixEpoch();
  uint64_t last_request_ = 0;
  uint64_t last_peer_ = 0;
};

struct Row {
  const char* what;
  std::function<void(Limits&)> limit;
  std::function<void(Counting&)> before;
  std::map<Refusal, uint64_t> refusals;
};

void Nothing(Limits&) {}

TEST(ThePassiveSidesRefusals, AreCountedByTheirReason) {
  const Row rows[] = {
      {"a listener that listens", Nothing, [](Counting&) {}, {}},
      {"a paused one",
       Nothing,
       [](Counting& core) {
         core.Ask(ControlConnectEvents{kListener, true});
       },
       {{Refusal::kPaused, 1}}},
      {"one that is closed",
       Nothing,
       [](Counting& core) { core.Ask(CloseListener{kListener}); },
       {{Refusal::kClosing, 1}}},
      {"a full one",
       [](Limits& limits) { limits.backlog = 1; },
       [](Counting& core) { core.Arrive(); },
       {{Refusal::kBacklog, 1}}},
      {"one of a device that has gone", Nothing, [](Counting& core) { core.Remove(); }, {{Refusal::kRemoved, 1}}},
      {"one whose client acknowledges nothing",
       [](Limits& limits) { limits.events_kept = 2; },
       [](Counting& core) { core.Arrive(); },
       {{Refusal::kEvents, 1}}},
      {"one whose session is full",
       [](Limits& limits) { limits.connectors_per_session = 1; },
       [](Counting& core) { core.Ask(CreateConnector{AdapterId(1)}); },
       {{Refusal::kQuota, 1}}},
      {"one whose user is full",
       [](Limits& limits) { limits.objects_per_uid = 2; },
       [](Counting&) {},
       {{Refusal::kQuota, 1}}},
      {"one that rejects",
       Nothing,
       [](Counting& core) {
         core.Arrive();
         core.Ask(Reject{ConnectorId(1), {}});
       },
       {{Refusal::kClient, 1}}},
      {"one whose client closes what it should decide upon",
       Nothing,
       [](Counting& core) {
         core.Arrive();
         core.Ask(CloseConnector{ConnectorId(1)});
       },
       {{Refusal::kClient, 1}}},
      {"one that accepts while it is closed, where that is forbidden",
       [](Limits& limits) { limits.accept_on_closing_listener = false; },
       [](Counting& core) {
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
    Counting core(limits);
    row.before(core);
    core.Arrive();
    EXPECT_EQ(core.Refusals(Side::kPassive), row.refusals);
    EXPECT_TRUE(core.Refusals(Side::kActive).empty());
  }
}

TEST(ThePassiveSidesRefusals, AreOfNoListenerBeforeThereIsOne) {
  Counting core{Limits{}};
  core.Ask(CreateListener{AdapterId(1)});
  core.Ask(Listen{ListenerId(2), {kLocal.ip, 7001}, ReservationId()});
  core.Arrive(EndpointId(2));
  EXPECT_EQ(core.Refusals(Side::kPassive), (std::map<Refusal, uint64_t>{{Refusal::kNoListener, 1}}));
}

TEST(ThePassiveSidesRefusals, AreOfNoListenerWhereTheAddressIsNoListeners) {
  Counting core{Limits{}};
  core.Ask(CreateSharedEndpoint{AdapterId(1), {kLocal.ip, 7001}, ReservationId()});
  core.Handle(FabricReport(FabricBound{EndpointId(2)}));
  core.Arrive(EndpointId(2));
  EXPECT_EQ(core.Refusals(Side::kPassive), (std::map<Refusal, uint64_t>{{Refusal::kNoListener, 1}}));
}

TEST(TheActiveSidesRefusals, AreThePeersOrTheClientsOwn) {
  struct {
    const char* what;
    std::function<void(Counting&)> steps;
    std::map<Refusal, uint64_t> refusals;
  } const rows[] = {
      {"a peer that refuses",
       [](Counting& core) { core.FailConnect(NdkStatus::kConnectionRefused); },
       {{Refusal::kPeer, 1}}},
      {"one that is not there", [](Counting& core) { core.FailConnect(NdkStatus::kHostUnreachable); }, {}},
      {"a client that rejects",
       [](Counting& core) {
         core.Reply();
         core.Ask(Reject{ConnectorId(1), {}});
       },
       {{Refusal::kClient, 1}}},
      {"one that closes what it should decide upon",
       [](Counting& core) {
         core.Reply();
         core.Ask(CloseConnector{ConnectorId(1)});
       },
       {{Refusal::kClient, 1}}},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    Counting core{Limits{}};
    row.steps(core);
    EXPECT_EQ(core.Refusals(Side::kActive), row.refusals);
    EXPECT_TRUE(core.Refusals(Side::kPassive).empty());
  }
}

TEST(Handshakes, AreCountedByTheirSideAndEnd) {
  using Failures = std::map<std::pair<Side, NdkStatus>, uint64_t>;
  struct {
    const char* what;
    std::function<void(Counting&)> steps;
    std::array<uint64_t, 2> established;
    Failures failures;
  } const rows[] = {
      {"a refused Connect",
       [](Counting& core) { core.FailConnect(NdkStatus::kConnectionRefused); },
       {0, 0},
       {{{Side::kActive, NdkStatus::kConnectionRefused}, 1}}},
      {"two requests that their peers give up",
       [](Counting& core) {
         for (const uint64_t peer : {1, 2}) {
           core.Arrive();
           core.Handle(FabricReport(FabricFailed{.connection = IncomingConnection(kDevice, peer)}));
         }
       },
       {0, 0},
       {{{Side::kPassive, NdkStatus::kConnectionAborted}, 2}}},
      {"a Connect without an answer",
       [](Counting& core) {
         core.StartConnect();
         core.Pass(kMinute);
       },
       {0, 0},
       {{{Side::kActive, NdkStatus::kIoTimeout}, 1}}},
      {"a CompleteConnect",
       [](Counting& core) {
         core.Reply();
         core.Ask(CompleteConnect{ConnectorId(1)});
         core.Handle(FabricReport(FabricEstablished{kOutgoing, {}}));
       },
       {1, 0},
       {}},
      {"an Accept",
       [](Counting& core) {
         core.StartAccept();
         core.Handle(FabricReport(FabricEstablished{IncomingConnection(kDevice, 1), {}}));
       },
       {0, 1},
       {}},
      {"an Accept that the peer does not complete",
       [](Counting& core) {
         core.StartAccept();
         core.Pass(kMinute);
       },
       {0, 0},
       {{{Side::kPassive, NdkStatus::kIoTimeout}, 1}}},
      {"an Accept that the peer gives up",
       [](Counting& core) {
         core.StartAccept();
         core.Handle(FabricReport(FabricFailed{.connection = IncomingConnection(kDevice, 1)}));
       },
       {0, 0},
       {{{Side::kPassive, NdkStatus::kConnectionAborted}, 1}}},
      {"a Reject",
       [](Counting& core) {
         core.Reply();
         core.Ask(Reject{ConnectorId(1), {}});
       },
       {0, 0},
       {}},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    Counting core{Limits{}};
    row.steps(core);
    EXPECT_EQ(core.core().tally().handshakes, row.established);
    EXPECT_EQ(core.core().tally().failures, row.failures);
  }
}

TEST(TheTally, IsOfOneProcess) {
  Counting core{Limits{}};
  core.Ask(ControlConnectEvents{kListener, true});
  core.Arrive();
  const auto next = BrokerCore::Restore(Limits{}, core.core().records());
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->tally().refusals, Tally().refusals);
  EXPECT_EQ(next->index().states, core.core().index().states);
}

}  // namespace
}  // namespace rdmabroker
