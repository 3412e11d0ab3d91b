// SPDX-License-Identifier: Apache-2.0

#include "broker/control/policy_configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "broker/control/configuration.h"

namespace rdmabroker {
namespace {

using testing::Contains;
using testing::StartsWith;

absl::StatusOr<Configuration> Parse(const std::string& text) {
  Accounts accounts;
  return ParseConfiguration(text, "broker.toml", accounts);
}

// One rule, in the lines 2 and following.
std::string RuleWith(const std::string& keys) {
  return absl::StrCat("[[policy.rules]]\nname = \"a\"\nallow = true\n", keys, "\n");
}

Prefix PrefixOf(const char* text) {
  Prefix prefix;
  EXPECT_EQ(Prefix::Parse(text, &prefix), "");
  return prefix;
}

TEST(PolicyConfiguration, IsAbsentByDefault) {
  const auto parsed = Parse("");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->policy, Policy());
  EXPECT_TRUE(parsed->policy.allow_by_default);
  EXPECT_EQ(parsed->audit, AuditLevel::kRefused);
  EXPECT_EQ(*Parse("[policy]\n"), *parsed);
  EXPECT_EQ(*Parse("[policy]\ndefault = \"allow\"\naudit = \"refused\"\nrules = []\n"), *parsed);
}

struct GoodRow {
  const char* text;
  std::function<void(Rule&)> set;
};

TEST(PolicyConfiguration, EveryKeyOfARuleSetsItsOwnFieldOnly) {
  const GoodRow rows[] = {
      {"uids = [0, 4294967294]",
       [](Rule& r) {
         r.uids = {0, 4294967294};
       }},
      {"uids = [\"root\", 7]",
       [](Rule& r) {
         r.uids = {0, 7};
       }},
      {"gids = [\"root\", 20]",
       [](Rule& r) {
         r.gids = {0, 20};
       }},
      {"spiffe_ids = [\"spiffe://a/b\"]", [](Rule& r) { r.spiffe_ids = {"spiffe://a/b"}; }},
      {"adapters = [\"mlx5_*\", \"nic0\"]",
       [](Rule& r) {
         r.adapters = {"mlx5_*", "nic0"};
       }},
      {"local_ports = [\"1-9\", \"4420\"]",
       [](Rule& r) {
         r.local_ports = PortSet({{1, 9}, {4420, 4420}});
       }},
      {"destination_ports = [\"80\"]",
       [](Rule& r) {
         r.destination_ports = PortSet({{80, 80}});
       }},
      {"destinations = [\"10.0.0.0/8\", \"::/0\"]",
       [](Rule& r) {
         r.destinations = {PrefixOf("10.0.0.0/8"), PrefixOf("::/0")};
       }},
      {"sessions = 1", [](Rule& r) { r.quotas.sessions = 1; }},
      {"listeners = 0", [](Rule& r) { r.quotas.listeners = 0; }},
      {"connectors = 1000000", [](Rule& r) { r.quotas.connectors = 1000000; }},
      {"requests_per_second = 5", [](Rule& r) { r.quotas.requests_per_second = 5; }},
  };
  for (const GoodRow& row : rows) {
    Policy expected{.rules = {{.name = "a"}}};
    row.set(expected.rules[0]);
    const auto parsed = Parse(RuleWith(row.text));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->policy, expected) << row.text;
  }
}

TEST(PolicyConfiguration, HasADefaultAndAnAuditLevel) {
  const auto parsed = Parse("[policy]\ndefault = \"deny\"\naudit = \"all\"\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_FALSE(parsed->policy.allow_by_default);
  EXPECT_EQ(parsed->audit, AuditLevel::kAll);
  EXPECT_EQ(Parse("[policy]\naudit = \"none\"\n")->audit, AuditLevel::kNone);
}

TEST(PolicyConfiguration, HasEveryDecisionLoggedWhereThereAreRulesUnlessItSaysOtherwise) {
  EXPECT_EQ(Parse("[policy]\ndefault = \"deny\"\n")->audit, AuditLevel::kRefused);
  EXPECT_EQ(Parse(RuleWith(""))->audit, AuditLevel::kAll);
  EXPECT_EQ(Parse("[policy]\naudit = \"refused\"\n" + RuleWith(""))->audit, AuditLevel::kRefused);
}

TEST(PolicyConfiguration, KeepsTheOrderOfRules) {
  std::string text = "[policy]\ndefault = \"deny\"\n";
  for (const char* name : {"c", "a", "b"}) {
    absl::StrAppend(&text, "[[policy.rules]]\nname = \"", name, "\"\nallow = false\nadapters = [\"", name, "\"]\n");
  }
  const auto parsed = Parse(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->policy.rules.size(), 3u);
  EXPECT_EQ(parsed->policy.rules[0].name, "c");
  EXPECT_EQ(parsed->policy.rules[2].name, "b");
  EXPECT_FALSE(parsed->policy.rules[1].allow);
}

// As the Helm chart writes it.
TEST(PolicyConfiguration, RulesMayStandInTheLineOfTheirKey) {
  const auto parsed = Parse(
      "[policy]\n"
      R"(rules = [{"allow" = true, "name" = "a", "uids" = [7]}, {"allow" = false, "name" = "b"}])");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->policy, Parse(RuleWith("uids = [7]") + "[[policy.rules]]\nname = \"b\"\nallow = false\n")->policy);
}

struct BadRow {
  std::string text;
  const char* complaint;
};

void ExpectComplaints(const std::vector<BadRow>& rows) {
  for (const BadRow& row : rows) {
    const auto parsed = Parse(row.text);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << row.text;
    EXPECT_THAT(std::string(parsed.status().message()), StartsWith(row.complaint)) << row.text;
  }
}

TEST(PolicyConfiguration, UnknownKeysAndOtherTypesAreRefusedWithFileLineAndKey) {
  ExpectComplaints({
      {"policy = 5\n", "broker.toml:1: policy: unknown key"},
      {"[policy]\n\nrule = 1\n", "broker.toml:3: policy.rule: unknown key; known are audit, default, rules"},
      {"[policy]\ndefault = \"maybe\"\n", "broker.toml:2: policy.default: must be one of \"allow\", \"deny\""},
      {"[policy]\ndefault = true\n", "broker.toml:2: policy.default: must be one of \"allow\", \"deny\""},
      {"[policy]\naudit = \"some\"\n", "broker.toml:2: policy.audit: must be one of \"none\", \"refused\", \"all\""},
      {"[policy]\nrules = 1\n", "broker.toml:2: policy.rules: must be tables, each under a heading [[policy.rules]]"},
      {"[policy]\nrules = [1]\n", "broker.toml:2: policy.rules: must be tables"},
      {"[policy]\nrules = [{allow = true}]\n", "broker.toml:2: policy.rules.name: missing"},
      {"[policy.rules]\nname = \"a\"\n", "broker.toml:1: policy.rules: must be tables"},
      {RuleWith("uid = [1]"), "broker.toml:4: policy.rules.uid: unknown key; known are adapters, allow, connectors, "},
      {"[[policy.rules]]\nname = 1\n", "broker.toml:2: policy.rules.name: must be a string"},
      {"[[policy.rules]]\nallow = \"yes\"\n", "broker.toml:2: policy.rules.allow: must be a boolean"},
      {"\n[[policy.rules]]\nallow = true\n", "broker.toml:2: policy.rules.name: missing"},
      {"\n[[policy.rules]]\nname = \"a\"\n", "broker.toml:2: policy.rules.allow: missing"},
      {RuleWith("uids = 1"), "broker.toml:4: policy.rules.uids: must be a list"},
      {RuleWith("uids = [1.5]"), "broker.toml:4: policy.rules.uids: must have names of users, or their numbers"},
      {RuleWith("uids = [-1]"), "broker.toml:4: policy.rules.uids: must have names of users, or their numbers"},
      {RuleWith("uids = [4294967295]"), "broker.toml:4: policy.rules.uids: must have names of users"},
      {RuleWith("gids = [true]"), "broker.toml:4: policy.rules.gids: must have names of groups"},
      {RuleWith("spiffe_ids = [1]"), "broker.toml:4: policy.rules.spiffe_ids: must have strings only"},
      {RuleWith("adapters = [1]"), "broker.toml:4: policy.rules.adapters: must have strings only"},
      {RuleWith("local_ports = [4420]"), "broker.toml:4: policy.rules.local_ports: write strings such as \"4420\""},
      {RuleWith("destinations = [10]"), "broker.toml:4: policy.rules.destinations: must have strings only"},
      {RuleWith("sessions = \"1\""), "broker.toml:4: policy.rules.sessions: must be a whole number from 1 to 1000000"},
      {RuleWith("sessions = 1.0"), "broker.toml:4: policy.rules.sessions: must be a whole number"},
  });
}

TEST(PolicyConfiguration, WhatCannotBeMeantIsRefusedWithFileLineAndKey) {
  ExpectComplaints({
      {RuleWith("adapters = []"), "broker.toml:4: policy.rules.adapters: is empty, so that nothing would ever match"},
      {RuleWith("uids = []"), "broker.toml:4: policy.rules.uids: is empty"},
      {RuleWith("local_ports = []"), "broker.toml:4: policy.rules.local_ports: is empty"},
      {RuleWith("adapters = [\"\"]"), "broker.toml:4: policy.rules.adapters: \"\": names have 1 to 63 bytes"},
      {RuleWith("uids = [\n  0,\n  \"no such user\"]"),
       "broker.toml:6: policy.rules.uids: there is no user \"no such user\"; make it with useradd, or give the number"},
      {RuleWith("uids = [\"root\\u0000x\"]"), "broker.toml:4: policy.rules.uids: there is no user \"root\\x00x\""},
      {RuleWith("gids = [\"no such group\"]"),
       "broker.toml:4: policy.rules.gids: there is no group \"no such group\"; make it with groupadd, or give the"},
      {RuleWith("spiffe_ids = [\"spiffe://A/b\"]"), "broker.toml:4: policy.rules.spiffe_ids: \"spiffe://A/b\" "},
      {RuleWith("local_ports = [\"9-1\"]"), "broker.toml:4: policy.rules.local_ports: \"9-1\" is no port or range; "},
      {RuleWith("local_ports = [\"0\"]"), "broker.toml:4: policy.rules.local_ports: \"0\" is no port or range; "},
      {RuleWith("destination_ports = [\"65536\"]"), "broker.toml:4: policy.rules.destination_ports: \"65536\" is no "},
      {RuleWith("destinations = [\"10.0.0.9/24\"]"),
       "broker.toml:4: policy.rules.destinations: \"10.0.0.9/24\": bits are set after the first 24; did you mean "},
      {RuleWith("destinations = [\"example.org\"]"),
       "broker.toml:4: policy.rules.destinations: \"example.org\" is no "},
      {RuleWith("sessions = 0"), "broker.toml:4: policy.rules.sessions: 0 is not from 1 to 1000000"},
      {RuleWith("listeners = -1"), "broker.toml:4: policy.rules.listeners: -1 is not from 0 to 1000000"},
      {RuleWith("connectors = 1000001"), "broker.toml:4: policy.rules.connectors: 1000001 is not from 0 to 1000000"},
      {RuleWith("requests_per_second = 0"), "broker.toml:4: policy.rules.requests_per_second: 0 is not from 1 to "},
      {RuleWith("uids = [1]") + RuleWith("uids = [2]"),
       "broker.toml:6: policy.rules.name: another rule is named \"a\""},
      {RuleWith("") + "[[policy.rules]]\nname = \"b\"\nallow = false\n",
       "broker.toml:6: policy.rules.name: \"b\" comes too late, as rule \"a\" before it decides on everything"},
      {"[[policy.rules]]\nname = \"a\"\nallow = false\nsessions = 1\n",
       "broker.toml:4: policy.rules.sessions: a rule that refuses gives nothing to count"},
      {RuleWith("adapters = [\"x\"]\nsessions = 1") +
           "[[policy.rules]]\nname = \"b\"\nallow = true\nadapters = [\"y\"]\nsessions = 2\n",
       "broker.toml:10: policy.rules.sessions: never counts, as all whom \"b\" is about have that of rule \"a\""},
      {RuleWith("spiffe_ids = [\"spiffe://a/b\"]\nlisteners = 0"),
       "broker.toml:5: policy.rules.listeners: callers with a SPIFFE ID have no sessions"},
      {"[[policy.rules]]\nname = \"\"\nallow = true\n", "broker.toml:2: policy.rules.name: must be of 1 to 63 "},
  });
}

TEST(PolicyConfiguration, HasABoundOnRulesAndEntries) {
  std::string rules;
  for (int i = 0; i <= 1000; ++i) {
    absl::StrAppend(&rules, "[[policy.rules]]\nname = \"", i, "\"\nallow = true\nuids = [", i, "]\n");
  }
  EXPECT_THAT(std::string(Parse(rules).status().message()), testing::HasSubstr("policy.rules: more than 1000 rules"));
  std::string uids;
  for (int i = 0; i <= 1000; ++i) absl::StrAppend(&uids, i, ",");
  EXPECT_THAT(std::string(Parse(RuleWith(absl::StrCat("uids = [", uids, "]"))).status().message()),
              StartsWith("broker.toml:4: policy.rules.uids: has more than 1000 entries"));
}

std::vector<std::string> Lines(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST(PolicyExamples, OfThePageCanBeUsed) {
  std::vector<std::string> examples;
  for (const std::string& line : Lines("docs/policy.md")) {
    if (line == "    [policy]") examples.emplace_back();
    if (absl::StartsWith(line, "#") && !examples.empty() && !examples.back().empty()) examples.back() += "#\n";
    // What else is indented is no configuration.
    const bool is_code = absl::StartsWith(line, "    ") && !absl::StartsWith(line, "    policy rule");
    if (is_code && !examples.empty()) absl::StrAppend(&examples.back(), line, "\n");
  }
  ASSERT_EQ(examples.size(), 3u);
  for (const std::string& example : examples) {
    const auto parsed = Parse(example);
    ASSERT_TRUE(parsed.ok()) << parsed.status() << "\n" << example;
    EXPECT_FALSE(parsed->policy.allow_by_default);
    EXPECT_FALSE(parsed->policy.rules.empty());
  }
}

TEST(PolicyExamples, OfTheDefaultFileCanBeUsed) {
  std::string example;
  for (const std::string& line : Lines("deploy/configuration/rdma-brokerd.toml")) {
    if (line == "# [policy]") example = "\n";
    if (!example.empty()) absl::StrAppend(&example, absl::StartsWith(line, "# ") ? line.substr(2) : "", "\n");
  }
  const auto parsed = Parse(example);
  ASSERT_TRUE(parsed.ok()) << parsed.status() << "\n" << example;
  EXPECT_EQ(parsed->policy.rules.size(), 3u);
}

TEST(PolicyPages, NameEveryKey) {
  const std::vector<std::string> page = Lines("docs/policy.md");
  const std::vector<std::string> file = Lines("deploy/configuration/rdma-brokerd.toml");
  for (const std::string& unknown : {std::string("[policy]\nnothing = 1\n"), RuleWith("nothing = 1")}) {
    const std::string complaint(Parse(unknown).status().message());
    const size_t list = complaint.find("known are ");
    ASSERT_NE(list, std::string::npos);
    const std::string prefix = unknown[1] == '[' ? "" : "policy.";
    std::string keys = complaint.substr(list + 10) + ", ";
    for (size_t comma = keys.find(", "); comma != std::string::npos; comma = keys.find(", ")) {
      const std::string key = prefix + keys.substr(0, comma);
      EXPECT_THAT(page, Contains(StartsWith(absl::StrCat("| `", key, "` |"))));
      EXPECT_THAT(file, Contains(StartsWith(absl::StrCat("#   ", key, ": "))));
      keys.erase(0, comma + 2);
    }
  }
}

}  // namespace
}  // namespace rdmabroker
