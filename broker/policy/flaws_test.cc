// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

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
       "\"b\" comes too late, as rule \"a\" before it"},
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
      {{.name = "a", .adapters = {"*"}}, {.name = "b"}},
      {{.name = "a", .adapters = {"x"}}, {.name = "b", .adapters = {"x", "y"}}},
      {{.name = "a", .adapters = {"x"}}, {.name = "b", .local_ports = ports}},
      {{.name = "a", .local_ports = ports}, {.name = "b", .local_ports = PortSet({{1, 1}})}},
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

}  // namespace
}  // namespace rdmabroker
