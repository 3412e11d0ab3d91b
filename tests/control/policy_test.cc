// SPDX-License-Identifier: Apache-2.0

// The policy as several users of one daemon meet it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "broker/control/audit.h"
#include "broker/policy/policy.h"
#include "proto/rdmabroker/v1/administration.grpc.pb.h"
#include "proto/rdmabroker/v1/inspection.grpc.pb.h"
#include "tests/captured_log.h"
#include "tests/control/network_thread.h"
#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

using Stub = v1::Broker::Stub;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Anybody but root and this process's user.
constexpr uid_t kTenant = 54321;
constexpr uid_t kOther = 54322;

Prefix PrefixOf(const std::string& text) {
  Prefix prefix;
  EXPECT_EQ(Prefix::Parse(text, &prefix), "");
  return prefix;
}

Configuration ConfigurationWith(Policy policy, AuditLevel audit = AuditLevel::kRefused) {
  Configuration configuration = TestConfiguration();
  configuration.policy = std::move(policy);
  configuration.audit = audit;
  return configuration;
}

v1::OpenAdapterRequest Opening(const std::string& device) {
  v1::OpenAdapterRequest request;
  request.set_device(device);
  request.mutable_version()->set_major(2);
  return request;
}

// Devices are fake1 and fake2, with 192.0.2.1 and 192.0.2.2.
class PolicyTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs a root that may become other users";
  }

  void Start(Configuration configuration) {
    daemon_ = std::make_unique<TestDaemon>(network_, std::vector<FakeDevice>{TestDevice(1), TestDevice(2)},
                                           std::move(configuration));
  }
  void Start(Policy policy, AuditLevel audit = AuditLevel::kRefused) {
    Start(ConfigurationWith(std::move(policy), audit));
  }

  std::shared_ptr<grpc::Channel> As(uid_t uid) { return ChannelAs(uid, daemon_->control_path()); }

  std::vector<std::string> AdaptersOf(uid_t uid) {
    v1::ListAdaptersReply reply;
    grpc::ClientContext context;
    Limit(context);
    EXPECT_TRUE(v1::Inspection::NewStub(As(uid))->ListAdapters(&context, v1::ListAdaptersRequest(), &reply).ok());
    EXPECT_EQ(reply.devices_size(), reply.activities_size());
    std::vector<std::string> names;
    for (const v1::Device& device : reply.devices()) names.push_back(device.name());
    return names;
  }

  // The tenant may open fake1, the other one fake2, and somebody else none.
  void ExpectHiddenAsAbsent() {
    EXPECT_THAT(AdaptersOf(kTenant), ElementsAre("fake1"));
    EXPECT_THAT(AdaptersOf(kOther), ElementsAre("fake2"));
    EXPECT_THAT(AdaptersOf(kOther + 1), IsEmpty());
    EXPECT_THAT(AdaptersOf(0), ElementsAre("fake1", "fake2")) << "an administrator sees all";
    TestClient tenant(As(kTenant));
    ASSERT_EQ(tenant.Open(), NdkStatus::kSuccess);
    EXPECT_NE(tenant.OpenAdapter("fake1"), 0u);
    // A version that no adapter has changes nothing about it.
    for (const uint32_t version : {2, 1}) {
      v1::OpenAdapterRequest request = Opening("fake2");
      request.mutable_version()->set_major(version);
      v1::Outcome hidden = tenant.Ask(&Stub::OpenAdapter, request);
      request.set_device("fake9");
      const v1::Outcome absent = tenant.Ask(&Stub::OpenAdapter, request);
      EXPECT_EQ(hidden.status(), v1::STATUS_OBJECT_NAME_NOT_FOUND);
      ASSERT_THAT(hidden.hint(), HasSubstr("fake2"));
      hidden.mutable_hint()->replace(hidden.hint().find("fake2"), 5, "fake9");
      EXPECT_EQ(hidden.SerializeAsString(), absent.SerializeAsString());
    }
  }

  grpc::Status EndSession(uid_t uid, uint64_t session) {
    v1::EndSessionRequest request;
    request.set_session_id(session);
    v1::EndSessionReply reply;
    grpc::ClientContext context;
    Limit(context);
    return v1::Administration::NewStub(As(uid))->EndSession(&context, request, &reply);
  }

  CapturedLog log_;
  NetworkThread network_;
  std::unique_ptr<TestDaemon> daemon_;
};

TEST_F(PolicyTest, WithoutRulesEverybodyMayDoEverything) {
  Start(Policy{});
  TestClient client(As(kTenant));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  client.Listen(client.OpenAdapter("fake1"), TestAddress(1));
  EXPECT_THAT(AdaptersOf(kTenant), ElementsAre("fake1", "fake2"));
  EXPECT_THAT(log_.LinesWith("policy decision"), IsEmpty());
}

TEST_F(PolicyTest, ADefaultThatDeniesLetsNobodyElseIn) {
  Start({.allow_by_default = false, .rules = {{.name = "tenant", .uids = {kTenant}}}});
  TestClient tenant(As(kTenant));
  TestClient other(As(kOther));
  EXPECT_EQ(tenant.Open(), NdkStatus::kSuccess);
  EXPECT_EQ(other.Open(), NdkStatus::kAccessDenied);
  EXPECT_NE(tenant.OpenAdapter("fake2"), 0u);
}

TEST_F(PolicyTest, AnAdapterThatNoRuleAllowsIsForItsCallerAsOneThatIsNotThere) {
  Start({.allow_by_default = false,
         .rules = {{.name = "tenant", .uids = {kTenant}, .adapters = {"fake1"}},
                   {.name = "other", .uids = {kOther}, .adapters = {"*2"}}}});
  ExpectHiddenAsAbsent();
}

// The one is refused at the gate, the other by the core.
TEST_F(PolicyTest, AnAdapterThatARuleRefusesIsForItsCallerAsOneThatIsNotThere) {
  Start({.rules = {{.name = "tenant", .allow = false, .uids = {kTenant}, .adapters = {"fake2"}},
                   {.name = "other", .allow = false, .uids = {kOther}, .adapters = {"*1"}},
                   {.name = "another", .allow = false, .uids = {kOther + 1}, .adapters = {"*"}}}});
  ExpectHiddenAsAbsent();
}

TEST_F(PolicyTest, OthersSessionsAndObjectsAreAsThoseThatAreNotThere) {
  Start(Policy{});
  TestClient one(As(kTenant));
  TestClient other(As(kOther));
  ASSERT_EQ(one.Open(), NdkStatus::kSuccess);
  ASSERT_EQ(other.Open(), NdkStatus::kSuccess);
  const uint64_t connector = one.CreateConnector(one.OpenAdapter("fake1"));
  const auto close = [&](uint64_t session, uint64_t id) {
    v1::CloseConnectorRequest request;
    if (session != 0) request.mutable_header()->set_session_id(session);
    request.set_connector_id(id);
    return other.Ask(&Stub::CloseConnector, request);
  };
  const auto expect_same = [](v1::Outcome there, const v1::Outcome& absent, uint64_t id, uint64_t no_id) {
    const std::string own = " " + std::to_string(id) + ":";
    ASSERT_THAT(there.hint(), HasSubstr(own));
    there.mutable_hint()->replace(there.hint().find(own), own.size(), " " + std::to_string(no_id) + ":");
    EXPECT_EQ(there.SerializeAsString(), absent.SerializeAsString());
  };
  expect_same(close(0, connector), close(0, 4711), connector, 4711);
  expect_same(close(one.session_id(), 1), close(4711, 1), one.session_id(), 4711);
  EXPECT_EQ(EndSession(kOther, one.session_id()).error_message(), EndSession(kOther, 4711).error_message());
}

TEST_F(PolicyTest, PortsAndDestinationsAreHeldAgainstRules) {
  Start({.rules = {
             {.name = "own port", .uids = {kTenant}, .local_ports = PortSet({{4420, 4420}})},
             {.name = "no other port", .allow = false, .uids = {kTenant}, .local_ports = PortSet({{1, 65535}})},
             {.name = "not to one", .allow = false, .uids = {kOther}, .destinations = {PrefixOf("192.0.2.1/32")}},
             {.name = "not from two", .allow = false, .uids = {kTenant}, .destinations = {PrefixOf("192.0.2.2/32")}}}});
  TestClient tenant(As(kTenant));
  TestClient other(As(kOther));
  ASSERT_EQ(tenant.Open(), NdkStatus::kSuccess);
  ASSERT_EQ(other.Open(), NdkStatus::kSuccess);
  const uint64_t adapter = tenant.OpenAdapter("fake1");
  v1::CreateListenerRequest create;
  create.set_adapter_id(adapter);
  v1::ListenRequest listen;
  listen.set_listener_id(tenant.Ask(&Stub::CreateListener, create).listener_created().listener_id());
  for (const uint16_t port : {0, 4421}) {
    *listen.mutable_address() = ToMessage(TestAddress(1, port));
    const v1::Outcome refused = tenant.Ask(&Stub::Listen, listen);
    EXPECT_EQ(refused.status(), v1::STATUS_ACCESS_DENIED) << refused.DebugString();
    EXPECT_THAT(refused.hint(), HasSubstr("policy rule \"no other port\": "));
  }
  *listen.mutable_address() = ToMessage({IpAddress::Any(IpFamily::kIpv4), 4420});
  EXPECT_EQ(NdkStatusOf(tenant.Finish(&Stub::Listen, listen)), NdkStatus::kSuccess) << "a wildcard, on the right port";

  v1::ConnectRequest connect;
  connect.set_connector_id(other.CreateConnector(other.OpenAdapter("fake2")));
  connect.set_qp_number(2);
  *connect.mutable_source() = ToMessage(TestAddress(2));
  *connect.mutable_destination() = ToMessage(TestAddress(1, 4420));
  const v1::Outcome refused = other.Ask(&Stub::Connect, connect);
  EXPECT_EQ(refused.status(), v1::STATUS_ACCESS_DENIED);
  EXPECT_EQ(refused.hint(),
            "policy rule \"not to one\": destination 192.0.2.1:4420, adapter \"fake2\" is not allowed; ask the "
            "administrator");
  daemon_->ReplacePolicy(
      {.rules = {
           {.name = "not from two", .allow = false, .uids = {kTenant}, .destinations = {PrefixOf("192.0.2.2/32")}}}});
  const uint64_t id = other.next_request_id();
  EXPECT_EQ(NdkStatusOf(other.Ask(&Stub::Connect, connect)), NdkStatus::kPending) << "the same connector goes on";
  // The passive side has a say, too.
  const uint64_t delivered = tenant.WaitForConnect().connector_id();
  const v1::Outcome not_accepted = tenant.Accept(delivered, 1);
  EXPECT_EQ(not_accepted.status(), v1::STATUS_ACCESS_DENIED);
  EXPECT_THAT(not_accepted.hint(), HasSubstr("policy rule \"not from two\": peer 192.0.2.2, local port 4420"));
  EXPECT_EQ(NdkStatusOf(tenant.CloseConnector(delivered)), NdkStatus::kSuccess) << "closes are never refused";
  EXPECT_EQ(NdkStatusOf(other.WaitForOutcome(id)), NdkStatus::kConnectionRefused);
}

TEST_F(PolicyTest, QuotasAreOfOneUserWhateverTheSession) {
  Start({.rules = {{.name = "few", .quotas = {.sessions = 2, .listeners = 1, .connectors = 2}}}});
  TestClient first(As(kTenant));
  TestClient second(As(kTenant));
  TestClient third(As(kTenant));
  TestClient other(As(kOther));
  ASSERT_EQ(first.Open(), NdkStatus::kSuccess);
  ASSERT_EQ(second.Open(), NdkStatus::kSuccess);
  EXPECT_EQ(third.Open(), NdkStatus::kInsufficientResources);
  ASSERT_EQ(other.Open(), NdkStatus::kSuccess);
  const uint64_t adapter = second.OpenAdapter("fake1");
  const uint64_t connector = first.CreateConnector(first.OpenAdapter("fake1"));
  second.CreateConnector(adapter);
  v1::CreateConnectorRequest create;
  create.set_adapter_id(adapter);
  const v1::Outcome refused = second.Ask(&Stub::CreateConnector, create);
  EXPECT_EQ(refused.status(), v1::STATUS_INSUFFICIENT_RESOURCES);
  EXPECT_FALSE(refused.retryable());
  EXPECT_THAT(refused.hint(), HasSubstr("policy rule \"few\": connectors: uid 54321 has 2 of at most 2; close some"));
  EXPECT_NE(other.CreateConnector(other.OpenAdapter("fake1")), 0u);
  first.CloseConnector(connector);
  EXPECT_NE(second.CreateConnector(adapter), 0u);
  EXPECT_EQ(first.Close(), NdkStatus::kSuccess);
  EXPECT_TRUE(daemon_->Eventually([](const Records& records) { return records.sessions.size() == 2; }));
  EXPECT_EQ(third.Open(), NdkStatus::kSuccess);
}

TEST_F(PolicyTest, ARepeatIsNeitherCountedNorDecidedAgain) {
  Start({.rules = {{.name = "slow", .uids = {kTenant}, .quotas = {.requests_per_second = 2}}}}, AuditLevel::kAll);
  TestClient client(As(kTenant));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  v1::OpenAdapterRequest open = Opening("fake1");
  open.mutable_header()->set_request_id(1);
  const v1::Outcome first = client.Ask(&Stub::OpenAdapter, open);
  ASSERT_EQ(NdkStatusOf(first), NdkStatus::kSuccess) << first.hint();
  open.mutable_header()->set_request_id(2);
  v1::Outcome refused = client.Ask(&Stub::OpenAdapter, open);
  // A second is over within no test that runs as fast as this one usually does; else the next one is refused.
  uint64_t id = 2;
  while (NdkStatusOf(refused) == NdkStatus::kSuccess) {
    open.mutable_header()->set_request_id(++id);
    refused = client.Ask(&Stub::OpenAdapter, open);
  }
  EXPECT_EQ(refused.status(), v1::STATUS_INSUFFICIENT_RESOURCES);
  EXPECT_TRUE(refused.retryable());
  EXPECT_THAT(refused.hint(),
              HasSubstr("policy rule \"slow\": requests_per_second: uid 54321 has made its 2; try again"));
  const size_t lines = log_.LinesWith("action=OpenAdapter").size();
  daemon_->ReplacePolicy({.allow_by_default = false});
  for (int i = 0; i < 5; ++i) {
    open.mutable_header()->set_request_id(1);
    EXPECT_EQ(client.Ask(&Stub::OpenAdapter, open).SerializeAsString(), first.SerializeAsString());
    open.mutable_header()->set_request_id(id);
    EXPECT_EQ(client.Ask(&Stub::OpenAdapter, open).SerializeAsString(), refused.SerializeAsString());
  }
  EXPECT_EQ(log_.LinesWith("action=OpenAdapter").size(), lines);
  daemon_->OnLoop([&](const Broker& broker) {
    EXPECT_EQ(broker.core().records().adapters.size(), id - 1) << "what was refused was not carried out";
    EXPECT_TRUE(broker.core().CheckInvariants().ok());
  });
}

TEST_F(PolicyTest, AnotherPolicyEndsNothingAndHoldsForNewRequests) {
  Start(Policy{});
  TestClient server(As(kTenant));
  TestClient client(As(kOther));
  ASSERT_EQ(server.Open(), NdkStatus::kSuccess);
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  const auto [listener, address] = server.Listen(server.OpenAdapter("fake1"), TestAddress(1));
  const uint64_t adapter = client.OpenAdapter("fake2");
  const TestConnection connection = ConnectClients(server, address, client, adapter, TestAddress(2));
  daemon_->ReplacePolicy({.allow_by_default = false});
  v1::CreateConnectorRequest create;
  create.set_adapter_id(adapter);
  EXPECT_EQ(client.Ask(&Stub::CreateConnector, create).status(), v1::STATUS_ACCESS_DENIED);
  v1::GetConnectionDataRequest data;
  data.set_connector_id(connection.active);
  EXPECT_EQ(NdkStatusOf(client.Ask(&Stub::GetConnectionData, data)), NdkStatus::kSuccess);
  v1::DisconnectRequest disconnect;
  disconnect.set_connector_id(connection.active);
  EXPECT_EQ(NdkStatusOf(client.Ask(&Stub::Disconnect, disconnect)), NdkStatus::kPending);
  EXPECT_THAT(AdaptersOf(kOther), IsEmpty());
}

TEST_F(PolicyTest, EachDecisionIsALineWhereAllAreLogged) {
  Start(
      {.rules = {{.name = "not to one", .allow = false, .uids = {kTenant}, .destinations = {PrefixOf("192.0.2.1/32")}},
                 {.name = "tenant", .uids = {kTenant}}}},
      AuditLevel::kAll);
  TestClient tenant(As(kTenant));
  ASSERT_EQ(tenant.Open(), NdkStatus::kSuccess);
  const uint64_t adapter = tenant.OpenAdapter("fake2");
  constexpr uint64_t kConnectors = 8;
  for (uint64_t i = 0; i < kConnectors; ++i) {
    v1::ConnectRequest connect;
    connect.set_connector_id(tenant.CreateConnector(adapter));
    connect.set_qp_number(2);
    *connect.mutable_source() = ToMessage(TestAddress(2));
    *connect.mutable_destination() = ToMessage(TestAddress(1, static_cast<uint16_t>(1024 + i)));
    EXPECT_EQ(tenant.Ask(&Stub::Connect, connect).status(), v1::STATUS_ACCESS_DENIED);
  }
  EXPECT_EQ(log_.LinesWith("decision=allowed action=Session rule=tenant uid=54321").size(), 1u);
  EXPECT_EQ(log_.LinesWith("decision=allowed action=OpenAdapter rule=tenant").size(), 1u);
  EXPECT_EQ(log_.LinesWith("decision=allowed action=CreateConnector rule=tenant").size(), kConnectors);
  for (uint64_t i = 0; i < kConnectors; ++i) {
    EXPECT_EQ(log_.LinesWith("destination=192.0.2.1:" + std::to_string(1024 + i) + " ").size(), 1u) << i;
  }
  const auto lines = log_.LinesWith("policy decision");
  EXPECT_EQ(lines.size(), 2 + 2 * kConnectors);
  EXPECT_THAT(lines, Each(HasSubstr(" left_out=0")));
}

TEST_F(PolicyTest, RefusalsAreLoggedAndBoundedAndAdministrationAlwaysIs) {
  Start({.rules = {{.name = "no sessions", .allow = false, .uids = {kOther}}}});
  constexpr size_t kTries = 4 * Audit::kMostRefused;
  for (size_t i = 0; i < kTries; ++i) {
    TestClient other(As(kOther));
    EXPECT_EQ(other.Open(), NdkStatus::kAccessDenied);
  }
  const auto refused = log_.LinesWith("decision=refused action=Session rule=\"no sessions\" uid=54322 gid=54322");
  EXPECT_FALSE(refused.empty());
  EXPECT_LT(refused.size(), kTries);
  TestClient tenant(As(kTenant));
  ASSERT_EQ(tenant.Open(), NdkStatus::kSuccess);
  EXPECT_THAT(log_.LinesWith("decision=allowed"), IsEmpty());
  EXPECT_EQ(NdkStatusOf(EndSession(kTenant, tenant.session_id())), NdkStatus::kAccessDenied);
  EXPECT_TRUE(EndSession(0, tenant.session_id()).ok());
  EXPECT_EQ(log_.LinesWith("decision=refused action=EndSession rule=administrators").size(), 1u);
  const auto allowed = log_.LinesWith("decision=allowed action=EndSession rule=administrators");
  ASSERT_EQ(allowed.size(), 1u);
  EXPECT_THAT(allowed[0], HasSubstr(" uid=0 "));
}

}  // namespace
}  // namespace rdmabroker
