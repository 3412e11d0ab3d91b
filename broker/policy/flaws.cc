// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "broker/policy/policy.h"

namespace rdmabroker {
namespace {

constexpr size_t kLongestName = 63;

// Names stand in hints, in logs and between quotes.
bool IsFit(const std::string& name) {
  constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ._-";
  return !name.empty() && name.size() <= kLongestName && name.find_first_not_of(kLetters) == std::string::npos;
}

template <typename Value>
bool HasAll(const std::vector<Value>& list, const std::vector<Value>& values) {
  return std::all_of(values.begin(), values.end(),
                     [&](const Value& value) { return std::find(list.begin(), list.end(), value) != list.end(); });
}

bool IsAboutEverybody(const Rule& rule) { return rule.uids.empty() && rule.gids.empty() && rule.spiffe_ids.empty(); }

bool IsAboutAllOf(const Rule& rule, const Rule& other) {
  if (IsAboutEverybody(rule)) return true;
  return !IsAboutEverybody(other) && HasAll(rule.uids, other.uids) && HasAll(rule.gids, other.gids) &&
         HasAll(rule.spiffe_ids, other.spiffe_ids);
}

// Whether the rule's conditions hold for all that the other's hold for, as far as their lists show it.
bool HoldsForAllOf(const Rule& rule, const Rule& other) {
  const auto has_all = [](const auto& list, const auto& values) {
    return list.empty() || (!values.empty() && HasAll(list, values));
  };
  const auto has_ports = [](const PortSet& ports, const PortSet& others) { return ports.empty() || ports == others; };
  return has_all(rule.adapters, other.adapters) && has_all(rule.destinations, other.destinations) &&
         has_ports(rule.local_ports, other.local_ports) && has_ports(rule.destination_ports, other.destination_ports);
}

struct QuotaRow {
  const char* key;
  std::optional<uint32_t> Quotas::*quota;
};
constexpr QuotaRow kQuotas[] = {{"sessions", &Quotas::sessions},
                                {"listeners", &Quotas::listeners},
                                {"connectors", &Quotas::connectors},
                                {"requests_per_second", &Quotas::requests_per_second}};

// The first quota that the rule has, or "".
const char* QuotaKey(const Rule& rule) {
  const auto* found = std::find_if(std::begin(kQuotas), std::end(kQuotas),
                                   [&](const QuotaRow& row) { return (rule.quotas.*row.quota).has_value(); });
  return found == std::end(kQuotas) ? "" : found->key;
}

// The first key that says something of sessions' requests, or "".
const char* SessionKey(const Rule& rule) {
  if (!rule.local_ports.empty()) return "local_ports";
  if (!rule.destination_ports.empty()) return "destination_ports";
  if (!rule.destinations.empty()) return "destinations";
  return QuotaKey(rule);
}

}  // namespace

std::optional<Flaw> FindFlaw(const Policy& policy) {
  for (auto rule = policy.rules.begin(); rule != policy.rules.end(); ++rule) {
    const auto flaw = [&](const char* key, std::string what) {
      return Flaw{static_cast<size_t>(std::distance(policy.rules.begin(), rule)), key, std::move(what)};
    };
    if (!IsFit(rule->name)) {
      return flaw("name",
                  "must be of 1 to 63 letters of the English alphabet, digits, blanks, dots, hyphens and "
                  "underscores");
    }
    const auto namesake =
        std::find_if(policy.rules.begin(), rule, [&](const Rule& other) { return other.name == rule->name; });
    if (namesake != rule) return flaw("name", absl::StrCat("another rule is named \"", rule->name, "\" already"));
    if (const char* key = QuotaKey(*rule); !rule->allow && *key != '\0') {
      return flaw(key, "a rule that refuses gives nothing to count; take the quota away, or set allow to true");
    }
    const bool about_remote_only = rule->uids.empty() && rule->gids.empty() && !rule->spiffe_ids.empty();
    if (const char* key = SessionKey(*rule); about_remote_only && *key != '\0') {
      return flaw(key,
                  "callers with a SPIFFE ID have no sessions, and so neither ports, destinations nor quotas; say "
                  "which adapters they may see");
    }
    const auto before = std::find_if(policy.rules.begin(), rule, [&](const Rule& other) {
      return HoldsForAllOf(other, *rule) && IsAboutAllOf(other, *rule);
    });
    if (before != rule) {
      return flaw("name",
                  absl::StrCat("\"", rule->name, "\" comes too late, as rule \"", before->name,
                               "\" before it decides on everything that it is about; put it before that one, or "
                               "take it away"));
    }
    for (const QuotaRow& row : kQuotas) {
      if (!(rule->quotas.*row.quota)) continue;
      const auto counts = std::find_if(policy.rules.begin(), rule, [&](const Rule& other) {
        return (other.quotas.*row.quota).has_value() && IsAboutAllOf(other, *rule);
      });
      if (counts == rule) continue;
      return flaw(row.key, absl::StrCat("never counts, as all whom \"", rule->name, "\" is about have that of rule \"",
                                        counts->name, "\" before it; put it before that one, or take the quota away"));
    }
  }
  return std::nullopt;
}

}  // namespace rdmabroker
