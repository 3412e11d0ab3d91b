// SPDX-License-Identifier: Apache-2.0

#include "broker/policy/policy.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace rdmabroker {
namespace {

Subject User(uint32_t uid, std::vector<uint32_t> gids = {}) { return {.uid = uid, .gids = std::move(gids)}; }
Subject Remote(const std::string& spiffe_id) { return {.spiffe_id = spiffe_id}; }

Prefix PrefixOf(const char* text) {
  Prefix prefix;
  EXPECT_EQ(Prefix::Parse(text, &prefix), "");
  return prefix;
}

Use Opening(const char* adapter) { return {.adapter = adapter}; }
Use Listening(uint16_t first, uint16_t last) { return {.adapter = "nic0", .local_ports = PortRange{first, last}}; }
Use Connecting(const char* ip, uint16_t port) {
  return {.adapter = "nic0", .destination = IpAddress::Parse(ip), .destination_port = port};
}
Use Accepting(const char* ip) {
  return {.adapter = "nic0", .local_ports = PortRange{4420, 4420}, .destination = IpAddress::Parse(ip)};
}

TEST(APolicy, ThatSaysNothingAllowsEverything) {
  EXPECT_EQ(Decide({}, User(1000), Connecting("10.0.0.9", 80)), (Decision{true, ""}));
  EXPECT_EQ(Decide({.allow_by_default = false}, User(0), {}), (Decision{false, ""}));
}

TEST(ARule, IsAboutWhoIsInOneOfItsLists) {
  const Rule named{.uids = {1000, 1001}, .gids = {20}, .spiffe_ids = {"spiffe://a/b"}};
  EXPECT_TRUE(named.IsAbout(User(1000)));
  EXPECT_TRUE(named.IsAbout(User(5, {6, 20})));
  EXPECT_TRUE(named.IsAbout(Remote("spiffe://a/b")));
  EXPECT_FALSE(named.IsAbout(User(1002, {21})));
  EXPECT_FALSE(named.IsAbout(User(20, {1000})));
  EXPECT_FALSE(named.IsAbout(Remote("spiffe://a/c")));
  EXPECT_TRUE(Rule().IsAbout(User(1)));
  EXPECT_TRUE(Rule().IsAbout(Remote("spiffe://a/c")));
}

TEST(ARule, AboutRootIsNotAboutACallerOfTheTcpPort) {
  EXPECT_FALSE(Rule{.uids = {0}}.IsAbout(Remote("spiffe://a/b")));
  EXPECT_FALSE(Rule{.gids = {0}}.IsAbout(Remote("spiffe://a/b")));
  EXPECT_FALSE(Rule{.spiffe_ids = {"spiffe://a/b"}}.IsAbout(User(0)));
}

struct Row {
  const char* what;
  Rule rule;
  Use use;
  bool if_allowing;  // Whether the rule decides where it allows...
  bool if_refusing;  // ... and where it refuses.
};

TEST(ARule, DecidesOnWhatItsConditionsAreAbout) {
  const Rule adapters{.adapters = {"nic*", "gpu0"}};
  const Rule ports{.local_ports = PortSet({{4420, 4429}})};
  const Rule destinations{.destinations = {PrefixOf("10.0.0.0/24"), PrefixOf("2001:db8::/32")}};
  const Rule services{.destination_ports = PortSet({{4420, 4420}})};
  const Rule service{.destination_ports = PortSet({{4420, 4420}}), .destinations = {PrefixOf("10.0.0.9/32")}};
  const Row rows[] = {
      {"no conditions", {}, {}, true, true},
      {"an adapter of the list", adapters, Opening("gpu0"), true, true},
      {"an adapter that fits a pattern", adapters, Opening("nic7"), true, true},
      {"another adapter", adapters, Opening("gpu1"), false, false},
      {"a request without an adapter", adapters, {}, true, false},
      {"a port of the range", ports, Listening(4425, 4425), true, true},
      {"a port outside", ports, Listening(4430, 4430), false, false},
      {"any of ports that are partly in the range", ports, Listening(4429, 4440), false, true},
      {"any of ports that are all in the range", ports, Listening(4420, 4429), true, true},
      {"a request without a local port", ports, Connecting("10.0.0.9", 80), true, false},
      {"a destination in a prefix", destinations, Connecting("10.0.0.9", 80), true, true},
      {"an IPv6 destination in a prefix", destinations, Connecting("2001:db8::9", 80), true, true},
      {"a destination in none", destinations, Connecting("10.0.1.9", 80), false, false},
      {"a peer in a prefix", destinations, Accepting("10.0.0.9"), true, true},
      {"a peer in none", destinations, Accepting("10.0.1.9"), false, false},
      {"a request without a destination", destinations, Listening(1, 1), true, false},
      {"a destination's port", services, Connecting("10.0.0.9", 4420), true, true},
      {"a destination's other port", services, Connecting("10.0.0.9", 4421), false, false},
      {"a peer, whose port is its own affair", services, Accepting("10.0.0.9"), true, false},
      {"both of two conditions", service, Connecting("10.0.0.9", 4420), true, true},
      {"one of two conditions", service, Connecting("10.0.0.9", 4421), false, false},
      {"the other of two conditions", service, Connecting("10.0.0.8", 4420), false, false},
  };
  for (const Row& row : rows) {
    Rule rule = row.rule;
    EXPECT_EQ(rule.Decides(row.use), row.if_allowing) << row.what;
    rule.allow = false;
    EXPECT_EQ(rule.Decides(row.use), row.if_refusing) << row.what;
  }
}

TEST(APolicy, IsDecidedByTheFirstRuleThatFits) {
  const Policy policy{.allow_by_default = false,
                      .rules = {{.name = "not there", .allow = false, .destinations = {PrefixOf("10.0.0.9/32")}},
                                {.name = "tenant", .uids = {1000}, .destinations = {PrefixOf("10.0.0.0/24")}},
                                {.name = "inspector", .spiffe_ids = {"spiffe://a/b"}, .adapters = {"nic0"}}}};
  EXPECT_EQ(Decide(policy, User(1000), Connecting("10.0.0.9", 80)), (Decision{false, "not there"}));
  EXPECT_EQ(Decide(policy, User(1000), Connecting("10.0.0.8", 80)), (Decision{true, "tenant"}));
  EXPECT_EQ(Decide(policy, User(1000), Connecting("10.0.1.8", 80)), (Decision{false, ""}));
  EXPECT_EQ(Decide(policy, User(1000), Opening("nic0")), (Decision{true, "tenant"}));
  EXPECT_EQ(Decide(policy, User(1000), {}), (Decision{true, "tenant"}));
  EXPECT_EQ(Decide(policy, User(1001), {}), (Decision{false, ""}));
  EXPECT_EQ(Decide(policy, Remote("spiffe://a/b"), Opening("nic0")), (Decision{true, "inspector"}));
  EXPECT_EQ(Decide(policy, Remote("spiffe://a/b"), Opening("nic1")), (Decision{false, ""}));
}

TEST(AQuota, IsTheFirstRulesThatIsAboutTheSubjectAndHasIt) {
  const Policy policy{.rules = {{.name = "a", .uids = {1000}, .adapters = {"nic0"}, .quotas = {.sessions = 1}},
                                {.name = "b", .gids = {20}, .quotas = {.sessions = 2, .listeners = 0}},
                                {.name = "c", .quotas = {.connectors = 3}}}};
  const auto named = [&](const Subject& subject, std::optional<uint32_t> Quotas::*quota) {
    const Rule* rule = FindQuota(policy, subject, quota);
    return rule == nullptr ? "" : rule->name;
  };
  EXPECT_EQ(named(User(1000, {20}), &Quotas::sessions), "a");
  EXPECT_EQ(named(User(1001, {20}), &Quotas::sessions), "b");
  EXPECT_EQ(named(User(1000, {20}), &Quotas::listeners), "b");
  EXPECT_EQ(named(User(1000), &Quotas::listeners), "");
  EXPECT_EQ(named(User(1000), &Quotas::connectors), "c");
  EXPECT_EQ(named(User(1000), &Quotas::requests_per_second), "");
}

TEST(AUse, IsToldAsFarAsTheRequestNamesIt) {
  EXPECT_EQ(Connecting("10.0.0.9", 4420).ToString(), "destination 10.0.0.9:4420, adapter \"nic0\"");
  EXPECT_EQ(Connecting("2001:db8::1", 80).ToString(), "destination [2001:db8::1]:80, adapter \"nic0\"");
  EXPECT_EQ(Accepting("10.0.0.9").ToString(), "peer 10.0.0.9, local port 4420, adapter \"nic0\"");
  EXPECT_EQ(Listening(49152, 65535).ToString(), "any local port from 49152 to 65535, adapter \"nic0\"");
  EXPECT_EQ(Use().ToString(), "");
}

}  // namespace
}  // namespace rdmabroker
