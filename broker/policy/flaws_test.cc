// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "broker/policy/policy.h"

namespace rdmabroker {
namespace {

struct Row {
  std::vector<Rule> rules;
  size_t rule;
  const char* key;
  const char* says;
};

// Two rules on the use of two adapters, each with the quotas.
std::vector<Rule> WithQuotas(const Quotas& quotas) {
  return {{.name = "a", .uids = {1, 2}, .adapters = {"x"}, .quotas = quotas},
          {.name = "b", .uids = {2}, .adapters = {"y"}, .quotas = quotas}};
}

TEST(AFlaw, IsFoundWithItsRuleAndKey) {
  const PortSet ports({{1, 2}});
  const std::vector<std::string> remote = {"spiffe://a/b"};
  const Prefix prefix{.length = 8};
  const Row rows[] = {
      {{{.name = ""}}, 0, "name", "must be of 1 to 63"},
      {{{.name = "a\"b"}}, 0, "name", "must be of 1 to 63"},
      {{{.name = "a\nb"}}, 0, "name", "must be of 1 to 63"},
      {{{.name = std::string(64, 'a')}}, 0, "name", "must be of 1 to 63"},
      {{{.name = "a", .uids = {1}}, {.name = "b", .uids = {2}}, {.name = "a"}}, 2, "name", "named \"a\" already"},
      {{{.name = "a", .allow = false, .quotas = {.sessions = 1}}}, 0, "sessions", "nothing to count"},
      {{{.name = "a", .allow = false, .quotas = {.listeners = 1}}}, 0, "listeners", "nothing to count"},
      {{{.name = "a", .allow = false, .quotas = {.connectors = 1}}}, 0, "connectors", "nothing to count"},
      {{{.name = "a", .allow = false, .quotas = {.requests_per_second = 1}}}, 0, "requests_per_second", "nothing"},
      {{{.name = "a", .spiffe_ids = remote, .quotas = {.sessions = 1}}}, 0, "sessions", "have no sessions"},
      {{{.name = "a", .spiffe_ids = remote, .local_ports = ports}}, 0, "local_ports", "have no sessions"},
      {{{.name = "a", .spiffe_ids = remote, .destination_ports = ports}}, 0, "destination_ports", "have no sessions"},
      {{{.name = "a", .spiffe_ids = remote, .destinations = {Prefix{}}}}, 0, "destinations", "have no sessions"},
      {{{.name = "all"}, {.name = "b", .uids = {1}}}, 1, "name", "\"b\" comes too late, as rule \"all\" before it"},
      {{{.name = "a", .uids = {1, 2}}, {.name = "b", .allow = false, .uids = {2}, .adapters = {"x"}}},
       1,
       "name",
       "comes too late"},
      {{{.name = "a", .uids = {1}, .gids = {2}}, {.name = "b", .gids = {2}}}, 1, "name", "comes too late"},
      {{{.name = "a", .uids = {1}, .adapters = {"x"}}, {.name = "b", .allow = false, .uids = {1}, .adapters = {"x"}}},
       1,
       "name",
       "\"b\" comes too late, as rule \"a\" before it decides on everything that it is about; move \"b\", which is no "
       "wider, before \"a\", or take it away"},
      {{{.name = "a", .allow = false, .adapters = {"x", "y"}}, {.name = "b", .uids = {1}, .adapters = {"y"}}},
       1,
       "name",
       "comes too late"},
      {{{.name = "a", .local_ports = ports}, {.name = "b", .adapters = {"x"}, .local_ports = ports}},
       1,
       "name",
       "comes too late"},
      {{{.name = "a", .destination_ports = ports}, {.name = "b", .destination_ports = ports}},
       1,
       "name",
       "comes too late"},
      {{{.name = "a", .destinations = {prefix}}, {.name = "b", .allow = false, .destinations = {prefix}}},
       1,
       "name",
       "comes too late"},
      {WithQuotas({.sessions = 1}), 1, "sessions", "all whom \"b\" is about have that of rule \"a\" before it"},
      {WithQuotas({.listeners = 1}), 1, "listeners", "never counts"},
      {WithQuotas({.connectors = 1}), 1, "connectors", "never counts"},
      {WithQuotas({.requests_per_second = 1}), 1, "requests_per_second", "never counts"},
  };
  for (const Row& row : rows) {
    const auto flaw = FindFlaw({.rules = row.rules});
    ASSERT_TRUE(flaw) << row.says;
    EXPECT_EQ(flaw->rule, row.rule) << row.says;
    EXPECT_EQ(flaw->key, row.key) << row.says;
    EXPECT_NE(flaw->what.find(row.says), std::string::npos) << flaw->what;
  }
}

TEST(AFlaw, IsNotSeenInRulesThatCanDecide) {
  const PortSet ports({{1, 2}});
  const std::vector<std::vector<Rule>> policies = {
      {},
      {{.name = "The last rule-0_1."}},
      {{.name = "a", .uids = {1}}, {.name = "b", .uids = {1, 2}}},
      {{.name = "a", .uids = {1}}, {.name = "b", .gids = {1}}},
      {{.name = "a", .uids = {1}}, {.name = "b"}},
      {{.name = "a", .adapters = {"x"}}, {.name = "b", .adapters = {"x", "y"}}},
      {{.name = "a", .adapters = {"x"}}, {.name = "b", .local_ports = ports}},
      {{.name = "a", .uids = {1}, .adapters = {"x"}}, {.name = "b", .uids = {2}, .adapters = {"x"}}},
      {{.name = "a", .adapters = {"x"}, .quotas = {.sessions = 1}},
       {.name = "b", .adapters = {"y"}, .quotas = {.listeners = 1}}},
      {{.name = "a", .uids = {1}, .adapters = {"x"}, .quotas = {.sessions = 1}},
       {.name = "b", .uids = {1, 2}, .adapters = {"y"}, .quotas = {.sessions = 2}}},
      {{.name = "a", .allow = false, .destinations = {Prefix{}}}, {.name = "b", .uids = {1}}},
      {{.name = "a", .spiffe_ids = {"spiffe://a/b"}, .adapters = {"nic0"}}},
      {{.name = "a", .uids = {1}, .spiffe_ids = {"spiffe://a/b"}, .quotas = {.sessions = 1}}},
  };
  for (const auto& rules : policies) {
    const auto flaw = FindFlaw({.rules = rules});
    EXPECT_FALSE(flaw) << flaw->what;
  }
}

std::vector<Prefix> Prefixes(const std::vector<const char*>& texts) {
  std::vector<Prefix> prefixes(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(Prefix::Parse(texts[i], &prefixes[i]), "");
  return prefixes;
}

Rule Refusing(Rule rule) {
  rule.allow = false;
  return rule;
}

// Whether FindFlaw finds that `later` comes too late behind `earlier`.
bool ComesTooLate(Rule earlier, Rule later) {
  earlier.name = "earlier";
  later.name = "later";
  const auto flaw = FindFlaw({.rules = {earlier, later}});
  if (!flaw) return false;
  EXPECT_EQ(flaw->rule, 1u);
  EXPECT_EQ(flaw->key, "name");
  EXPECT_NE(flaw->what.find("\"later\" comes too late, as rule \"earlier\" before it"), std::string::npos)
      << flaw->what;
  return true;
}

struct Pair {
  const char* what;
  Rule earlier;
  Rule later;
};

TEST(ARule, ComesTooLateBehindOneThatContainsIt) {
  const Rule ten{.destinations = Prefixes({"10.0.0.0/8"})};
  const Rule ten_one{.destinations = Prefixes({"10.1.0.0/16"})};
  const Rule every_port{.local_ports = PortSet({{1, 65535}})};
  const Rule port{.local_ports = PortSet({{4420, 4420}})};
  const Rule ports{.local_ports = PortSet({{4420, 4429}})};
  const Pair rows[] = {
      {"a part of a prefix that is refused", ten, Refusing(ten_one)},
      {"a part of a prefix that is allowed", Refusing(ten), ten_one},
      {"a part of a prefix that is treated alike", ten, ten_one},
      {"a prefix of IPv6",
       {.destinations = Prefixes({"2001:db8::/32"})},
       {.destinations = Prefixes({"2001:db8::1/128"})}},
      {"parts of several prefixes",
       {.destinations = Prefixes({"10.0.0.0/8", "::/0"})},
       {.destinations = Prefixes({"2001:db8::/32", "10.1.0.0/16", "10.0.0.0/8"})}},
      {"anywhere behind all prefixes", {.destinations = Prefixes({"::/0", "0.0.0.0/0"})}, {}},
      {"a pattern within a pattern", {.adapters = {"*"}}, Refusing({.adapters = {"mlx*"}})},
      {"a name within a pattern", {.adapters = {"mlx*"}}, Refusing({.adapters = {"mlx5_0"}})},
      {"a pattern with a star in its midst", {.adapters = {"m*_*"}}, {.adapters = {"mlx*_0"}}},
      {"every adapter behind all adapters", {.adapters = {"*"}}, Refusing({})},
      {"a destination's port within all",
       {.destination_ports = PortSet({{1, 65535}})},
       Refusing({.destination_ports = PortSet({{4420, 4420}})})},
      {"a destination's ports within ranges that touch",
       Refusing({.destination_ports = PortSet({{1, 10}, {11, 20}, {30, 40}})}),
       {.destination_ports = PortSet({{5, 15}, {30, 31}})}},
      {"a local port, both allowing", ports, port},
      {"a local port, both refusing", Refusing(ports), Refusing(port)},
      {"a local port that is allowed behind its refusal", Refusing(ports), port},
      {"a local port that is refused behind all ports", every_port, Refusing(port)},
      {"everything that is refused behind all ports", every_port, Refusing({})},
      {"some of the callers",
       {.uids = {1, 2}, .gids = {3, 4}, .spiffe_ids = {"spiffe://a/b", "spiffe://a/c"}},
       Refusing({.uids = {2}, .spiffe_ids = {"spiffe://a/c"}})},
      {"some of everybody", {}, Refusing({.spiffe_ids = {"spiffe://a/b"}})},
      {"a part of each condition and some of the callers",
       {.gids = {3, 4},
        .adapters = {"mlx*"},
        .destination_ports = PortSet({{1, 100}}),
        .destinations = ten.destinations},
       Refusing({.gids = {4},
                 .adapters = {"mlx5_0"},
                 .local_ports = port.local_ports,
                 .destination_ports = PortSet({{80, 80}}),
                 .destinations = ten_one.destinations})},
  };
  for (const Pair& row : rows) EXPECT_TRUE(ComesTooLate(row.earlier, row.later)) << row.what;
}

TEST(ARule, IsInTimeBehindOneThatDoesNotContainIt) {
  const Rule ten{.destinations = Prefixes({"10.0.0.0/8"})};
  const Rule ten_one{.destinations = Prefixes({"10.1.0.0/16"})};
  const Rule port{.local_ports = PortSet({{4420, 4420}})};
  const Rule ports{.local_ports = PortSet({{4420, 4429}})};
  const Pair rows[] = {
      {"a wider prefix", Refusing(ten_one), ten},
      {"a wider prefix that begins alike", {.destinations = Prefixes({"10.0.0.0/16"})}, Refusing(ten)},
      {"a prefix beside", ten, {.destinations = Prefixes({"11.0.0.0/16"})}},
      {"one prefix of two", ten, {.destinations = Prefixes({"10.1.0.0/16", "11.0.0.0/8"})}},
      {"a prefix of IPv6 behind all of IPv4",
       {.destinations = Prefixes({"0.0.0.0/0"})},
       {.destinations = Prefixes({"::/96"})}},
      {"a prefix of IPv4 behind all of IPv6", {.destinations = Prefixes({"::/0"})}, ten},
      {"anywhere behind all of one family", {.destinations = Prefixes({"0.0.0.0/0"})}, {}},
      {"what has no destination behind all refused", Refusing({.destinations = Prefixes({"::/0", "0.0.0.0/0"})}), {}},
      {"a wider pattern", {.adapters = {"mlx*"}}, {.adapters = {"*"}}},
      {"a pattern that overlaps", {.adapters = {"mlx*"}}, {.adapters = {"*_0"}}},
      {"a pattern that fits without what its star stands for", {.adapters = {"mlx5_"}}, {.adapters = {"mlx5_*"}}},
      {"a pattern whose letters come in another order", {.adapters = {"*a*b*"}}, {.adapters = {"*b*a*"}}},
      {"what has no adapter behind all refused", Refusing({.adapters = {"*"}}), Refusing({})},
      {"a destination's ports that overlap",
       {.destination_ports = PortSet({{1, 10}})},
       {.destination_ports = PortSet({{10, 11}})}},
      {"a destination's ports around a gap",
       {.destination_ports = PortSet({{1, 10}, {12, 20}})},
       {.destination_ports = PortSet({{10, 12}})}},
      {"local ports that are more", port, ports},
      {"a local port that is refused of any that the broker would choose", ports, Refusing(port)},
      {"the same local ports refused", ports, Refusing(ports)},
      {"a local port that is refused behind all but one", {.local_ports = PortSet({{2, 65535}})}, Refusing(port)},
      {"what has no local port behind all refused", Refusing({.local_ports = PortSet({{1, 65535}})}), {}},
      {"callers of another list", {.uids = {1}}, {.gids = {1}}},
      {"callers of one list more", {.uids = {1, 2}}, {.uids = {1}, .gids = {3}}},
      {"everybody behind some", {.spiffe_ids = {"spiffe://a/b"}}, {}},
      {"one condition that is wider",
       {.destination_ports = PortSet({{80, 80}}), .destinations = ten.destinations},
       {.destination_ports = PortSet({{80, 81}}), .destinations = ten_one.destinations}},
      {"one condition less", {.adapters = {"mlx*"}, .destinations = ten.destinations}, ten_one},
  };
  for (const Pair& row : rows) EXPECT_FALSE(ComesTooLate(row.earlier, row.later)) << row.what;
}

// Rules with every kind of condition, which overlap, contain each other and are apart, allowing and refusing.
std::vector<Rule> ManyRules() {
  std::vector<Rule> rules = {{}};
  const std::vector<std::vector<std::string>> adapters = {{"*"}, {"a*"}, {"ab"}, {"*b"}, {"ab", "c*"}};
  const std::vector<PortSet> ports = {PortSet({{1, 65535}}), PortSet({{10, 20}}), PortSet({{10, 12}, {15, 15}}),
                                      PortSet({{12, 12}}), PortSet({{15, 30}})};
  const std::vector<std::vector<Prefix>> destinations = {
      Prefixes({"0.0.0.0/0", "::/0"}), Prefixes({"0.0.0.0/0"}), Prefixes({"10.0.0.0/8"}),
      Prefixes({"10.1.0.0/16", "2001:db8::/32"}), Prefixes({"::/0"})};
  for (size_t i = 0; i < adapters.size(); ++i) {
    const size_t next = (i + 1) % adapters.size();
    rules.push_back({.adapters = adapters[i]});
    rules.push_back({.local_ports = ports[i]});
    rules.push_back({.destination_ports = ports[i]});
    rules.push_back({.destinations = destinations[i]});
    rules.push_back({.adapters = adapters[i], .local_ports = ports[next]});
    rules.push_back({.local_ports = ports[i], .destinations = destinations[next]});
    rules.push_back({.destination_ports = ports[i], .destinations = destinations[i]});
  }
  for (size_t i = 0, count = rules.size(); i < count; ++i) rules.push_back(Refusing(rules[i]));
  return rules;
}

// What tells any two conditions of ManyRules() apart, with and without all that there are conditions on.
std::vector<Use> ManyUses() {
  std::vector<std::optional<IpAddress>> destinations = {std::nullopt};
  for (const char* ip : {"9.0.0.1", "10.0.0.1", "10.1.0.1", "2001:db8::1", "2001:db9::1"}) {
    destinations.push_back(IpAddress::Parse(ip));
  }
  std::vector<std::optional<PortRange>> local_ports = {std::nullopt, PortRange{1, 65535}, PortRange{500, 65535}};
  for (const uint16_t port : {10, 12, 13, 15, 21}) local_ports.push_back(PortRange{port, port});
  std::vector<Use> uses;
  for (const char* adapter : {"", "a", "ab", "b", "c", "d"}) {
    for (const auto& local : local_ports) {
      for (const auto& destination : destinations) {
        for (const uint16_t port : {0, 10, 12, 13, 15, 21, 500}) uses.push_back({adapter, local, destination, port});
      }
    }
  }
  return uses;
}

bool HasAllThatConditionsAreOn(const Use& use, const Rule& rule) {
  return (rule.adapters.empty() || !use.adapter.empty()) && (rule.local_ports.empty() || use.local_ports) &&
         (rule.destinations.empty() || use.destination) &&
         (rule.destination_ports.empty() || use.destination_port != 0);
}

TEST(ARule, ComesTooLateWhereNothingThatItIsAboutIsLeftToIt) {
  const std::vector<Use> uses = ManyUses();
  const std::vector<Rule> rules = ManyRules();
  size_t late = 0;
  for (const Rule& later : rules) {
    std::vector<Use> about;
    for (const Use& use : uses) {
      if (HasAllThatConditionsAreOn(use, later) && later.Decides(use)) about.push_back(use);
    }
    for (const Rule& earlier : rules) {
      const auto left = std::find_if(about.begin(), about.end(), [&](const Use& use) { return !earlier.Decides(use); });
      EXPECT_EQ(ComesTooLate(earlier, later), left == about.end())
          << &earlier - rules.data() << " before " << &later - rules.data() << " leaves "
          << (left == about.end() ? "nothing" : left->ToString());
      late += left == about.end() ? 1 : 0;
    }
  }
  EXPECT_GT(late, rules.size()) << "each behind itself and some others, or the rules are badly chosen";
  EXPECT_LT(late, rules.size() * rules.size());
}

}  // namespace
}  // namespace rdmabroker
