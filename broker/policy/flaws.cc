// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <functional>
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

template <typename Value, typename Contains>
bool ContainsEach(const std::vector<Value>& list, const std::vector<Value>& others, Contains contains) {
  return std::all_of(others.begin(), others.end(), [&](const Value& other) {
    return std::any_of(list.begin(), list.end(), [&](const Value& value) { return contains(value, other); });
  });
}

template <typename Value>
bool HasAll(const std::vector<Value>& list, const std::vector<Value>& values) {
  return ContainsEach(list, values, std::equal_to<Value>());
}

bool IsAboutEverybody(const Rule& rule) { return rule.uids.empty() && rule.gids.empty() && rule.spiffe_ids.empty(); }

bool IsAboutAllOf(const Rule& rule, const Rule& other) {
  if (IsAboutEverybody(rule)) return true;
  return !IsAboutEverybody(other) && HasAll(rule.uids, other.uids) && HasAll(rule.gids, other.gids) &&
         HasAll(rule.spiffe_ids, other.spiffe_ids);
}

// A * of the other pattern can stand for letters that no pattern names, so only a * takes it in; and that takes in
// whatever the other one stands for.
bool Contains(const std::vector<std::string>& patterns, const std::vector<std::string>& others) {
  return ContainsEach(patterns, others, MatchesGlob);
}
bool ContainsAll(const std::vector<std::string>& patterns) { return Contains(patterns, {"*"}); }

bool Contains(const PortSet& ports, const PortSet& others) { return ports.CoversAllOf(others); }
bool ContainsAll(const PortSet& ports) { return ports.Covers({1, 65535}); }

// By one prefix each. A rule that only several contain together passes: halves in place of a whole are rare.
bool Contains(const std::vector<Prefix>& prefixes, const std::vector<Prefix>& others) {
  return ContainsEach(prefixes, others, [](const Prefix& prefix, const Prefix& other) {
    return prefix.length <= other.length && prefix.Contains(other.address);
  });
}
bool ContainsAll(const std::vector<Prefix>& prefixes) {
  return Contains(prefixes, {Prefix{IpAddress::Any(IpFamily::kIpv4), 0}, Prefix{IpAddress::Any(IpFamily::kIpv6), 0}});
}

// Whether one condition of the rule holds for all that the other rule's holds for.
template <typename Condition>
bool IsWider(const Rule& rule, const Rule& other, Condition Rule::*condition) {
  const Condition& own = rule.*condition;
  const Condition& others = other.*condition;
  if (own.empty()) return true;
  // The other rule decides on what lacks this as well, on which one with a condition decides only where it allows.
  if (others.empty()) return rule.allow && ContainsAll(own);
  return Contains(own, others);
}

bool IsWiderInLocalPorts(const Rule& rule, const Rule& other) {
  // Of the ports among which the broker would choose, one that refuses needs any and one that allows all. Which these
  // are is a limit that may change, so only a rule that has all ports has them for sure.
  const bool must_have_free_ports = rule.allow && !other.allow && !rule.local_ports.empty();
  return must_have_free_ports ? ContainsAll(rule.local_ports) : IsWider(rule, other, &Rule::local_ports);
}

// Whether the rule decides on each request that the other one decides on and that has all that the other's conditions
// are on. One that allows decides on what lacks this, too, but nobody names ports or prefixes for its sake.
bool HoldsForAllOf(const Rule& rule, const Rule& other) {
  return IsWider(rule, other, &Rule::adapters) && IsWiderInLocalPorts(rule, other) &&
         IsWider(rule, other, &Rule::destination_ports) && IsWider(rule, other, &Rule::destinations);
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
      // The callers first, as these differ in long policies, and conditions take longer.
      return IsAboutAllOf(other, *rule) && HoldsForAllOf(other, *rule);
    });
    if (before != rule) {
      return flaw("name", absl::StrCat("\"", rule->name, "\" comes too late, as rule \"", before->name,
                                       "\" before it decides on everything that it is about; move \"", rule->name,
                                       "\", which is no wider, before \"", before->name, "\", or take it away"));
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
