// SPDX-License-Identifier: Apache-2.0

#include "broker/control/policy_configuration.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "broker/control/spiffe_id.h"
#include "broker/core/fabric_messages.h"

namespace rdmabroker {
namespace {

constexpr int64_t kMostQuota = 1'000'000;  // As the limits of configuration.cc.

std::string Quoted(const std::string& text) { return absl::StrCat("\"", absl::CHexEscape(text), "\""); }

template <typename Value>
Setter OneOf(Value& field, std::vector<std::pair<const char*, Value>> choices) {
  return [&field, choices = std::move(choices)](const toml::node& node) -> Complaint {
    std::string names;
    for (const auto& [name, value] : choices) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", "\"", name, "\"");
      if (node.value_exact<std::string>() != name) continue;
      field = value;
      return {};
    }
    return {node.source(), absl::StrCat("must be one of ", names)};
  };
}

Setter Quota(std::optional<uint32_t>& field, int64_t least) { return SetWhole(field, least, kMostQuota); }

// A list whose entries `read` sets, or says what is wrong with.
template <typename Entry>
Setter ListOf(std::function<void(std::vector<Entry>)> set, std::function<std::string(const toml::node&, Entry*)> read) {
  return [set = std::move(set), read = std::move(read)](const toml::node& node) -> Complaint {
    const toml::array* array = node.as_array();
    if (array == nullptr) return {node.source(), "must be a list"};
    if (array->empty()) {
      return {node.source(), "is empty, so that nothing would ever match; name something, or take the key away"};
    }
    if (array->size() > kMostPolicyEntries)
      return {node.source(), absl::StrCat("has more than ", kMostPolicyEntries, " entries")};
    std::vector<Entry> entries;
    for (const toml::node& element : *array) {
      Entry entry;
      if (std::string what = read(element, &entry); !what.empty()) return {element.source(), std::move(what)};
      entries.push_back(std::move(entry));
    }
    set(std::move(entries));
    return {};
  };
}

template <typename Entry>
Setter ListOf(std::vector<Entry>& field, std::function<std::string(const toml::node&, Entry*)> read) {
  return ListOf<Entry>([&field](std::vector<Entry> entries) { field = std::move(entries); }, std::move(read));
}

// A text that `check` has nothing against.
std::string ReadText(const toml::node& node, std::string (*check)(const std::string&), std::string* text) {
  const auto value = node.value_exact<std::string>();
  if (!value) return "must have strings only";
  *text = *value;
  return check(*text);
}

std::string WrongWithAdapter(const std::string& name) {
  if (!name.empty() && name.size() <= kMaxDeviceName) return "";
  return absl::StrCat(Quoted(name), ": names have 1 to ", kMaxDeviceName, " bytes");
}

std::string WrongWithSpiffeId(const std::string& text) {
  const absl::string_view problem = SpiffeIdProblem(text);
  return problem.empty() ? "" : absl::StrCat(Quoted(text), " ", problem);
}

std::string ReadPorts(const toml::node& node, PortRange* ports) {
  const auto text = node.value_exact<std::string>();
  const auto parsed = text ? PortRange::Parse(*text) : std::nullopt;
  if (!parsed) {
    return absl::StrCat(text ? Quoted(*text) + " is no port or range; " : "",
                        "write strings such as \"4420\" or \"49152-65535\", from 1 to 65535, the lower end first");
  }
  *ports = *parsed;
  return "";
}

std::string ReadPrefix(const toml::node& node, Prefix* prefix) {
  const auto text = node.value_exact<std::string>();
  return text ? Prefix::Parse(*text, prefix) : "must have strings only";
}

// Looks a name up.
using Find = absl::StatusOr<uint32_t> (Accounts::*)(const std::string& name);

// Users or groups, as `kind` says, by number or by name.
std::string ReadId(const char* kind, Find find, Accounts& accounts, const toml::node& node, uint32_t* id) {
  // The greatest number stands for nobody (chown(2)).
  if (const auto number = node.value_exact<int64_t>(); number && *number >= 0 && *number < int64_t{UINT32_MAX}) {
    *id = static_cast<uint32_t>(*number);
    return "";
  }
  const auto name = node.value_exact<std::string>();
  if (!name) return absl::StrCat("must have names of ", kind, "s, or their numbers from 0 to 4294967294");
  const auto found = (accounts.*find)(*name);
  if (!found.ok()) return absl::StrCat(found.status().message(), ", or give the number");
  *id = *found;
  return "";
}

Setter Ids(std::vector<uint32_t>& field, const char* kind, Find find, Accounts& accounts) {
  return ListOf<uint32_t>(field, [kind, find, &accounts](const toml::node& node, uint32_t* id) {
    return ReadId(kind, find, accounts, node, id);
  });
}

Setter Texts(std::vector<std::string>& field, std::string (*check)(const std::string&)) {
  return ListOf<std::string>(
      field, [check](const toml::node& node, std::string* text) { return ReadText(node, check, text); });
}

Setter Ports(PortSet& field) {
  return ListOf<PortRange>([&field](std::vector<PortRange> ranges) { field = PortSet(std::move(ranges)); }, ReadPorts);
}

Setters SettersOf(Rule& rule, Accounts& accounts) {
  return {
      {"name", SetText(rule.name)},
      {"allow", SetYesOrNo(rule.allow)},
      {"uids", Ids(rule.uids, "user", &Accounts::User, accounts)},
      {"gids", Ids(rule.gids, "group", &Accounts::Group, accounts)},
      {"spiffe_ids", Texts(rule.spiffe_ids, WrongWithSpiffeId)},
      {"adapters", Texts(rule.adapters, WrongWithAdapter)},
      {"local_ports", Ports(rule.local_ports)},
      {"destination_ports", Ports(rule.destination_ports)},
      {"destinations", ListOf<Prefix>(rule.destinations, ReadPrefix)},
      {"sessions", Quota(rule.quotas.sessions, 1)},
      // None at all is how a rule says that its users only connect, or only listen.
      {"listeners", Quota(rule.quotas.listeners, 0)},
      {"connectors", Quota(rule.quotas.connectors, 0)},
      {"requests_per_second", Quota(rule.quotas.requests_per_second, 1)},
  };
}

constexpr char kRules[] = "policy.rules";

Complaint ReadRule(const toml::node& node, Accounts& accounts, Rule* rule) {
  const toml::table& table = *node.as_table();
  Complaint complaint = SetAll(SettersOf(*rule, accounts), absl::StrCat(kRules, "."), table);
  if (!complaint.what.empty()) return complaint;
  // Said by no default: what a rule does must be seen in it.
  for (const char* key : {"name", "allow"}) {
    if (!table.contains(key)) return {node.source(), absl::StrCat(kRules, ".", key, ": missing; each rule has one")};
  }
  return {};
}

Complaint ReadRules(const toml::node& node, Accounts& accounts, Policy* policy) {
  const toml::array* rules = node.as_array();
  if (rules == nullptr || !(rules->empty() || rules->is_homogeneous(toml::node_type::table))) {
    return {node.source(), absl::StrCat(kRules, ": must be tables, each under a heading [[policy.rules]]")};
  }
  if (rules->size() > kMostPolicyRules)
    return {node.source(), absl::StrCat(kRules, ": more than ", kMostPolicyRules, " rules")};
  for (const toml::node& each : *rules) {
    Complaint complaint = ReadRule(each, accounts, &policy->rules.emplace_back());
    if (!complaint.what.empty()) return complaint;
  }
  const auto flaw = FindFlaw(*policy);
  if (!flaw) return {};
  const toml::table& table = *rules->get_as<toml::table>(flaw->rule);
  return {table.get(flaw->key)->source(), absl::StrCat(kRules, ".", flaw->key, ": ", flaw->what)};
}

}  // namespace

Complaint ReadPolicy(const toml::table& table, Accounts& accounts, Policy* policy, AuditLevel* audit) {
  const Setters setters = {
      {"default", OneOf<bool>(policy->allow_by_default, {{"allow", true}, {"deny", false}})},
      {"audit",
       OneOf<AuditLevel>(*audit,
                         {{"none", AuditLevel::kNone}, {"refused", AuditLevel::kRefused}, {"all", AuditLevel::kAll}})},
      {"rules", [](const toml::node&) { return Complaint{}; }},  // Below, for their own keys.
  };
  Complaint complaint = SetAll(setters, "policy.", table);
  if (const toml::node* rules = table.get("rules"); rules != nullptr && complaint.what.empty()) {
    complaint = ReadRules(*rules, accounts, policy);
  }
  // Without rules every line would say the same.
  if (!table.contains("audit")) *audit = policy->rules.empty() ? AuditLevel::kRefused : AuditLevel::kAll;
  return complaint;
}

}  // namespace rdmabroker
