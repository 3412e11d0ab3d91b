// SPDX-License-Identifier: Apache-2.0

#include "broker/control/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "broker/control/uses.h"
#include "broker/control/view.h"

namespace rdmabroker {
namespace {

using testing::HasSubstr;

constexpr uint32_t kUid = 1000;
constexpr SocketAddress kOwn = {{.bytes = {192, 0, 2, 1}}, 4420};
constexpr SocketAddress kPeer = {{.bytes = {10, 0, 0, 9}}, 5000};

Rule AllowAll(Quotas quotas = {}) { return {.name = "all", .quotas = quotas}; }

Prefix PrefixOf(const char* text) {
  Prefix prefix;
  EXPECT_EQ(Prefix::Parse(text, &prefix), "");
  return prefix;
}

// A core with two devices, one session of kUid, an adapter, a listener and a connector that a peer has asked for.
class GateTest : public testing::Test {
 protected:
  GateTest() {
    for (const uint64_t id : {1, 2}) {
      DeviceChanged device{{.id = DeviceId(id), .name = id == 1 ? "nic0" : "nic1"}};
      device.device.addresses = {kOwn.ip};
      device.device.network_namespace = id;
      Handle(FabricReport(device));
    }
    Handle(OpenSession{StreamId(1), {kUid, 20, 1}, {}});
    Do(OpenAdapter{"nic0", kNdkVersion});
    Do(CreateListener{AdapterId(1)});
    Do(Listen{ListenerId(1), kOwn, {}});
    Handle(FabricReport(FabricBound{EndpointId(1)}));
    FabricConnectRequested peer;
    peer.connection = IncomingConnection(DeviceId(1), 1);
    peer.endpoint = EndpointId(1);
    peer.local = kOwn;
    peer.peer = kPeer;
    Handle(FabricReport(peer));
  }

  void Handle(const Event& event) { (void)core_.Handle(now_, event); }

  ClientRequest RequestOf(Request request) {
    return {SessionId(1), RequestId(++last_request_), EventNumber(), std::move(request)};
  }
  // Past the gate, which is not asked.
  void Do(Request request) { Handle(RequestOf(std::move(request))); }
  // What the gate says.
  std::optional<Outcome> Ask(Request request) { return gate_.Ask(caller_, RequestOf(std::move(request)), core_, now_); }
  NdkStatus StatusOf(Request request) {
    const auto refusal = Ask(std::move(request));
    return refusal ? refusal->status : NdkStatus::kSuccess;
  }
  void SetPolicy(Policy policy) { gate_.Replace(std::move(policy), AuditLevel::kNone); }

  BrokerCore core_{Limits{}};
  Instant now_ = absl::UnixEpoch();
  uint64_t last_request_ = 0;
  Gate gate_{{}, AuditLevel::kNone};
  Caller caller_{.connection = 1, .identity = {kUid, 20, 1}, .groups = {30}};
};

// The rules allow every port on nic0 and nic1, and on nic3 none above 100.
TEST_F(GateTest, AListenerThatMayBeAtAnyAdapterIsAllowedOnEachThatItsSessionHas) {
  DeviceChanged alike{{.id = DeviceId(3), .name = "nic3", .network_namespace = 1}};
  Handle(FabricReport(alike));
  Do(CreateListener{AdapterId(1)});
  const Listen anywhere{ListenerId(2), {kOwn.ip, 4421}, {}, true, true};
  const Listen here{ListenerId(2), {kOwn.ip, 4421}, {}, true};
  Rule listens = AllowAll();
  listens.adapters = {"nic0", "nic1"};
  Rule connects = {.name = "connects", .adapters = {"nic3"}, .local_ports = PortSet({{1, 100}})};
  SetPolicy({.allow_by_default = false, .rules = {listens, connects}});
  EXPECT_EQ(StatusOf(anywhere), NdkStatus::kSuccess) << "it has an adapter on nic0 alone";
  Do(OpenAdapter{"nic1", kNdkVersion});
  EXPECT_EQ(StatusOf(anywhere), NdkStatus::kSuccess) << "nic1 is in another network namespace";
  Do(OpenAdapter{"nic3", kNdkVersion});
  EXPECT_EQ(StatusOf(anywhere), NdkStatus::kAccessDenied);
  EXPECT_EQ(StatusOf(here), NdkStatus::kSuccess);
  Do(CloseAdapter{AdapterId(3)});
  Do(anywhere);
  const auto refused = Ask(OpenAdapter{"nic3", kNdkVersion});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, NdkStatus::kAccessDenied) << "it would go along";
  EXPECT_THAT(refused->hint, HasSubstr("4421"));
  Do(CloseListener{ListenerId(2)});
  Handle(FabricReport(FabricBound{EndpointId(2)}));
  Handle(FabricReport(FabricUnbound{EndpointId(2)}));
  EXPECT_EQ(StatusOf(OpenAdapter{"nic3", kNdkVersion}), NdkStatus::kSuccess);
}

Connect ConnectTo(const SocketAddress& peer, uint16_t from = 0) {
  return {.connector = ConnectorId(1), .qp = {}, .source = {kOwn.ip, from}, .destination = peer};
}

// What each request would use, of everything that there is.
TEST_F(GateTest, RequestsUseWhatTheyNameAndWhatTheirObjectsHave) {
  const PortRange listener = {4420, 4420};
  const struct {
    const char* what;
    Request request;
    std::optional<Use> use;
  } rows[] = {
      {"OpenAdapter", OpenAdapter{"nic7", kNdkVersion}, Use{.adapter = "nic7"}},
      {"CreateListener", CreateListener{AdapterId(1)}, Use{.adapter = "nic0"}},
      {"CreateConnector", CreateConnector{AdapterId(1)}, Use{.adapter = "nic0"}},
      {"Listen", Listen{ListenerId(1), kOwn, {}}, Use{.adapter = "nic0", .local_ports = listener}},
      {"Listen on a free port", Listen{ListenerId(1), {kOwn.ip, 0}, {}},
       Use{.adapter = "nic0", .local_ports = PortRange{49152, 65535}}},
      {"Listen on a wildcard", Listen{ListenerId(1), {IpAddress::Any(IpFamily::kIpv4), 4420}, {}},
       Use{.adapter = "nic0", .local_ports = listener}},
      {"ReservePort", ReservePort{AdapterId(1), kOwn}, Use{.adapter = "nic0", .local_ports = listener}},
      {"CreateSharedEndpoint", CreateSharedEndpoint{AdapterId(1), kOwn, {}},
       Use{.adapter = "nic0", .local_ports = listener}},
      {"Connect", ConnectTo(kPeer), Use{.adapter = "nic0", .destination = kPeer.ip, .destination_port = 5000}},
      {"Connect from a port", ConnectTo(kPeer, 7),
       Use{.adapter = "nic0", .local_ports = PortRange{7, 7}, .destination = kPeer.ip, .destination_port = 5000}},
      {"Accept", Accept{ConnectorId(1), {}, {}, {}},
       Use{.adapter = "nic0", .local_ports = listener, .destination = kPeer.ip}},
      {"Connect to a wildcard", ConnectTo({IpAddress::Any(IpFamily::kIpv4), 80}), std::nullopt},
      {"Connect to no port", ConnectTo({kPeer.ip, 0}), std::nullopt},
      {"another's listener", Listen{ListenerId(9), kOwn, {}}, std::nullopt},
      {"another's adapter", CreateListener{AdapterId(9)}, std::nullopt},
      {"another's reservation", Listen{ListenerId(1), {}, ReservationId(9)}, std::nullopt},
      {"another's shared endpoint",
       ConnectWithSharedEndpoint{.connector = ConnectorId(1), .shared_endpoint = SharedEndpointId(9)}, std::nullopt},
      {"Reject", Reject{ConnectorId(1), {}}, std::nullopt},
      {"Disconnect", Disconnect{ConnectorId(1)}, std::nullopt},
      {"CompleteConnect", CompleteConnect{ConnectorId(1)}, std::nullopt},
      {"GetConnectionData", GetConnectionData{ConnectorId(1)}, std::nullopt},
      {"ControlConnectEvents", ControlConnectEvents{ListenerId(1), true}, std::nullopt},
      {"CloseListener", CloseListener{ListenerId(1)}, std::nullopt},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(UseOf(RequestOf(row.request), core_.records(), core_.limits()), row.use) << row.what;
  }
}

TEST_F(GateTest, ReservationsAndSharedEndpointsHaveThePortThatTheyHold) {
  Do(ReservePort{AdapterId(1), {kOwn.ip, 5001}});
  Handle(FabricReport(FabricBound{EndpointId(2)}));
  Do(CreateSharedEndpoint{AdapterId(1), {kOwn.ip, 5002}, {}});
  Handle(FabricReport(FabricBound{EndpointId(3)}));
  Do(CreateConnector{AdapterId(1)});
  const auto ports = [&](Request request) {
    const auto use = UseOf(RequestOf(std::move(request)), core_.records(), core_.limits());
    return use ? use->local_ports : std::nullopt;
  };
  EXPECT_EQ(ports(Listen{ListenerId(1), {}, ReservationId(1)}), (PortRange{5001, 5001}));
  EXPECT_EQ(ports(CreateSharedEndpoint{AdapterId(1), {}, ReservationId(1)}), (PortRange{5001, 5001}));
  const ConnectWithSharedEndpoint connect{
      .connector = ConnectorId(2), .shared_endpoint = SharedEndpointId(1), .destination = kPeer};
  EXPECT_EQ(ports(connect), (PortRange{5002, 5002}));
}

TEST_F(GateTest, ARefusalNamesItsRuleAndWhatWasAskedFor) {
  SetPolicy({.rules = {{.name = "not there", .allow = false, .destinations = {PrefixOf("10.0.0.9/32")}}}});
  auto refusal = Ask(ConnectTo(kPeer));
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->status, NdkStatus::kAccessDenied);
  EXPECT_FALSE(refusal->retryable);
  EXPECT_EQ(refusal->hint,
            "policy rule \"not there\": destination 10.0.0.9:5000, adapter \"nic0\" is not allowed; ask the "
            "administrator");
  SetPolicy({.allow_by_default = false});
  refusal = Ask(CreateListener{AdapterId(1)});
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->hint, "policy.default: adapter \"nic0\" is allowed by no rule; ask the administrator");
  refusal = gate_.Open(caller_, core_, now_);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->status, NdkStatus::kAccessDenied);
  EXPECT_EQ(refusal->hint, "policy.default: a session is allowed by no rule; ask the administrator");
}

TEST_F(GateTest, AnAdapterThatIsHiddenAnswersAsOneThatIsNotThere) {
  SetPolicy({.allow_by_default = false, .rules = {{.name = "nic1 only", .adapters = {"nic1"}}}});
  const auto refusal = Ask(OpenAdapter{"nic0", kNdkVersion});
  const Effects effects = core_.Handle(now_, RequestOf(OpenAdapter{"nic9", kNdkVersion}));
  Outcome unknown = std::get<Answer>(effects.back()).outcome;
  unknown.hint.replace(unknown.hint.find("nic9"), 4, "nic0");
  ASSERT_TRUE(refusal);
  EXPECT_EQ(*refusal, unknown);
  EXPECT_EQ(StatusOf(OpenAdapter{"nic1", kNdkVersion}), NdkStatus::kSuccess);
  EXPECT_FALSE(gate_.Shows(caller_, "nic0"));
  EXPECT_TRUE(gate_.Shows(caller_, "nic1"));
  // One that the caller may know of is refused by name.
  caller_.administrator = true;
  EXPECT_TRUE(gate_.Shows(caller_, "nic0"));
  EXPECT_EQ(StatusOf(OpenAdapter{"nic0", kNdkVersion}), NdkStatus::kAccessDenied);
}

TEST_F(GateTest, SupplementaryGroupsCount) {
  SetPolicy({.allow_by_default = false, .rules = {{.name = "group", .gids = {30}}}});
  EXPECT_EQ(gate_.Open(caller_, core_, now_), std::nullopt);
  caller_.groups = {31};
  EXPECT_NE(gate_.Open(caller_, core_, now_), std::nullopt);
  caller_.identity.gid = 30;
  EXPECT_EQ(gate_.Open(caller_, core_, now_), std::nullopt);
}

TEST_F(GateTest, ACallerOfTheTcpPortIsNoUserOfThisMachine) {
  SetPolicy({.allow_by_default = false,
             .rules = {{.name = "root", .uids = {0}, .adapters = {"nic0"}},
                       {.name = "remote", .spiffe_ids = {"spiffe://a/b"}, .adapters = {"nic1"}}}});
  const Caller remote{.connection = 2, .spiffe_id = "spiffe://a/b"};
  EXPECT_FALSE(gate_.Shows(remote, "nic0"));
  EXPECT_TRUE(gate_.Shows(remote, "nic1"));
  Handle(OpenSession{StreamId(2), {0, 0, 0}, {}});
  const Caller root{.connection = 3};
  const SessionRecord& session = core_.records().sessions.at(SessionId(2));
  EXPECT_TRUE(View(root, core_.records(), gate_).Shows(session));
  EXPECT_FALSE(View(remote, core_.records(), gate_).Shows(session));
}

TEST_F(GateTest, QuotasCountWhatTheUserHas) {
  const struct {
    const char* what;
    Quotas quotas;
    Request request;
    bool refused;
  } rows[] = {
      {"one listener of two", {.listeners = 2}, CreateListener{AdapterId(1)}, false},
      {"one listener of one", {.listeners = 1}, CreateListener{AdapterId(1)}, true},
      {"an undecided connector does not count", {.connectors = 1}, CreateConnector{AdapterId(1)}, false},
      {"nor for Accept", {.connectors = 1}, Accept{ConnectorId(1), {}, {}, {}}, false},
      {"no connectors at all", {.connectors = 0}, CreateConnector{AdapterId(1)}, true},
      {"none to accept either", {.connectors = 0}, Accept{ConnectorId(1), {}, {}, {}}, true},
      {"a quota of something else", {.sessions = 1, .listeners = 0}, CreateConnector{AdapterId(1)}, false},
      {"a request that adds nothing", {.listeners = 0, .connectors = 0}, ConnectTo(kPeer), false},
  };
  for (const auto& row : rows) {
    SetPolicy({.rules = {AllowAll(row.quotas)}});
    const auto refusal = Ask(row.request);
    EXPECT_EQ(refusal.has_value(), row.refused) << row.what;
    if (!refusal) continue;
    EXPECT_EQ(refusal->status, NdkStatus::kInsufficientResources) << row.what;
    EXPECT_FALSE(refusal->retryable) << row.what;
  }
  SetPolicy({.rules = {AllowAll({.sessions = 1})}});
  EXPECT_EQ(
      gate_.Open(caller_, core_, now_)->hint,
      "policy rule \"all\": sessions: uid 1000 has 1 of at most 1; close some, or ask the administrator for more");
  caller_.identity.uid = 1001;
  EXPECT_EQ(gate_.Open(caller_, core_, now_), std::nullopt) << "another user";
}

TEST_F(GateTest, ADeliveredConnectorCountsOnceItIsDecided) {
  SetPolicy({.rules = {AllowAll({.connectors = 1})}});
  Do(Accept{ConnectorId(1), {1}, {}, {}});
  EXPECT_EQ(StatusOf(CreateConnector{AdapterId(1)}), NdkStatus::kInsufficientResources);
  Do(CloseConnector{ConnectorId(1)});
  Handle(FabricReport(FabricReleased{IncomingConnection(DeviceId(1), 1)}));
  EXPECT_EQ(StatusOf(CreateConnector{AdapterId(1)}), NdkStatus::kSuccess);
}

TEST_F(GateTest, RequestsBeyondTheRateWaitAsLongAsTheHintSays) {
  SetPolicy({.rules = {AllowAll({.requests_per_second = 4})}});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(StatusOf(CreateConnector{AdapterId(1)}), NdkStatus::kSuccess) << i;
  const auto refusal = Ask(GetConnectionData{ConnectorId(1)});
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->status, NdkStatus::kInsufficientResources);
  EXPECT_TRUE(refusal->retryable);
  EXPECT_EQ(refusal->hint, "policy rule \"all\": requests_per_second: uid 1000 has made its 4; try again in 250 ms");
  EXPECT_EQ(StatusOf(OpenAdapter{"nic0", kNdkVersion}), NdkStatus::kInsufficientResources);
  EXPECT_TRUE(gate_.Open(caller_, core_, now_)) << "a new session counts, too";
  now_ += absl::Milliseconds(250);
  EXPECT_EQ(StatusOf(GetConnectionData{ConnectorId(1)}), NdkStatus::kSuccess);
}

TEST_F(GateTest, LooksCountAsRequestsDoButForAdministrators) {
  SetPolicy({.rules = {AllowAll({.requests_per_second = 2})}});
  EXPECT_FALSE(gate_.Look(caller_, "ListConnectors", now_));
  EXPECT_EQ(StatusOf(CreateConnector{AdapterId(1)}), NdkStatus::kSuccess);
  const auto refusal = gate_.Look(caller_, "ListConnectors", now_);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->status, NdkStatus::kInsufficientResources);
  EXPECT_TRUE(refusal->retryable);
  caller_.administrator = true;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(gate_.Look(caller_, "ListConnectors", now_)) << i;
}

TEST_F(GateTest, WhatOnlyEndsIsNeitherRefusedNorCounted) {
  SetPolicy({.allow_by_default = false,
             .rules = {{.name = "r", .uids = {kUid}, .adapters = {"x"}, .quotas = {.requests_per_second = 1}}}});
  const std::vector<Request> ends = {
      CloseAdapter{AdapterId(1)},     CloseListener{ListenerId(1)},  CloseSharedEndpoint{SharedEndpointId(1)},
      CloseConnector{ConnectorId(1)}, ReleasePort{ReservationId(1)}, ReportConnectionEnd{ConnectorId(1)}};
  for (int i = 0; i < 3; ++i) {
    for (const Request& request : ends) EXPECT_EQ(Ask(request), std::nullopt) << NameOf(request);
  }
  EXPECT_EQ(StatusOf(GetConnectionData{ConnectorId(1)}), NdkStatus::kSuccess);
  EXPECT_EQ(StatusOf(GetConnectionData{ConnectorId(1)}), NdkStatus::kInsufficientResources);
}

TEST_F(GateTest, AReplacedPolicyHoldsAtOnceAndForgetsNoRequests) {
  const Policy policy{.rules = {AllowAll({.requests_per_second = 2})}};
  SetPolicy(policy);
  Ask(GetConnectionData{ConnectorId(1)});
  Ask(GetConnectionData{ConnectorId(1)});
  SetPolicy(policy);
  EXPECT_EQ(StatusOf(GetConnectionData{ConnectorId(1)}), NdkStatus::kInsufficientResources);
  SetPolicy({.rules = {AllowAll({.requests_per_second = 3})}});
  EXPECT_EQ(StatusOf(GetConnectionData{ConnectorId(1)}), NdkStatus::kSuccess);
  SetPolicy({.allow_by_default = false});
  EXPECT_EQ(StatusOf(CreateConnector{AdapterId(1)}), NdkStatus::kAccessDenied);
  SetPolicy({});
  EXPECT_EQ(StatusOf(CreateConnector{AdapterId(1)}), NdkStatus::kSuccess);
}

TEST_F(GateTest, AfterARestartWhatThereIsCountsAndRepeatsAreNotDecidedAgain) {
  const ClientRequest done = RequestOf(CreateConnector{AdapterId(1)});
  Handle(done);
  ClientRequest refused = RequestOf(CreateConnector{AdapterId(1)});
  refused.refusal = Outcome{.status = NdkStatus::kAccessDenied, .hint = "not then"};
  Handle(refused);
  auto restored = BrokerCore::Restore(core_.limits(), core_.records());
  ASSERT_TRUE(restored.ok()) << restored.status();
  core_ = *std::move(restored);
  Handle(Recover{});
  refused.refusal.reset();
  for (const ClientRequest& repeat : {done, refused}) EXPECT_FALSE(core_.IsNew(repeat));
  EXPECT_EQ(std::get<Answer>(core_.Handle(now_, refused).back()).outcome.hint, "not then");
  Gate gate({.rules = {AllowAll({.sessions = 1, .listeners = 1, .connectors = 1})}}, AuditLevel::kNone);
  EXPECT_TRUE(gate.Open(caller_, core_, now_));
  EXPECT_TRUE(gate.Ask(caller_, RequestOf(CreateListener{AdapterId(1)}), core_, now_));
  EXPECT_TRUE(gate.Ask(caller_, RequestOf(CreateConnector{AdapterId(1)}), core_, now_));
  EXPECT_FALSE(gate.Ask(caller_, RequestOf(Disconnect{ConnectorId(2)}), core_, now_));
}

}  // namespace
}  // namespace rdmabroker
