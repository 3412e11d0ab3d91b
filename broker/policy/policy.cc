// SPDX-License-Identifier: Apache-2.0

#include "broker/policy/policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rdmabroker {
namespace {

template <typename Value>
bool Has(const std::vector<Value>& list, const Value& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

std::string Use::ToString() const {
  std::vector<std::string> parts;
  if (destination) {
    parts.push_back(destination_port == 0
                        ? absl::StrCat("peer ", destination->ToString())
                        : absl::StrCat("destination ", SocketAddress{*destination, destination_port}.ToString()));
  }
  if (local_ports && local_ports->first == local_ports->last) {
    parts.push_back(absl::StrCat("local port ", local_ports->first));
  } else if (local_ports) {
    parts.push_back(absl::StrCat("any local port from ", local_ports->first, " to ", local_ports->last));
  }
  if (!adapter.empty()) parts.push_back(absl::StrCat("adapter \"", adapter, "\""));
  return absl::StrJoin(parts, ", ");
}

bool Rule::IsAbout(const Subject& subject) const {
  if (uids.empty() && gids.empty() && spiffe_ids.empty()) return true;
  if (subject.uid && Has(uids, *subject.uid)) return true;
  if (!subject.spiffe_id.empty() && Has(spiffe_ids, subject.spiffe_id)) return true;
  return std::any_of(subject.gids.begin(), subject.gids.end(), [&](uint32_t gid) { return Has(gids, gid); });
}

bool Rule::Decides(const Use& use) const {
  // A condition on what the request does not name holds for a rule that allows, and not for one that refuses.
  const auto holds = [&](bool is_set, bool named, auto matches) { return !is_set || (named ? matches() : allow); };
  return holds(!adapters.empty(), !use.adapter.empty(),
               [&] {
                 return std::any_of(adapters.begin(), adapters.end(),
                                    [&](const std::string& pattern) { return MatchesGlob(pattern, use.adapter); });
               }) &&
         holds(!local_ports.empty(), use.local_ports.has_value(),
               [&] { return allow ? local_ports.Covers(*use.local_ports) : local_ports.Overlaps(*use.local_ports); }) &&
         holds(!destination_ports.empty(), use.destination_port != 0,
               [&] {
                 return destination_ports.Covers({use.destination_port, use.destination_port});
               }) &&
         holds(!destinations.empty(), use.destination.has_value(), [&] {
           return std::any_of(destinations.begin(), destinations.end(),
                              [&](const Prefix& prefix) { return prefix.Contains(*use.destination); });
         });
}

Decision Decide(const Policy& policy, const Subject& subject, const Use& use) {
  const auto decides = [&](const Rule& rule) { return rule.IsAbout(subject) && rule.Decides(use); };
  const auto rule = std::find_if(policy.rules.begin(), policy.rules.end(), decides);
  return rule == policy.rules.end() ? Decision{policy.allow_by_default, ""} : Decision{rule->allow, rule->name};
}

const Rule* FindQuota(const Policy& policy, const Subject& subject, std::optional<uint32_t> Quotas::*quota) {
  const auto has = [&](const Rule& rule) { return (rule.quotas.*quota).has_value() && rule.IsAbout(subject); };
  const auto rule = std::find_if(policy.rules.begin(), policy.rules.end(), has);
  return rule == policy.rules.end() ? nullptr : &*rule;
}

}  // namespace rdmabroker
