// SPDX-License-Identifier: Apache-2.0

#include "broker/control/gate.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "broker/control/uses.h"

namespace rdmabroker {
namespace {

// In hints and in the log, in place of a rule's name.
constexpr char kDefault[] = "policy.default";

Subject SubjectOf(const Caller& caller) {
  if (!caller.spiffe_id.empty()) return {.spiffe_id = caller.spiffe_id};
  Subject subject{.uid = caller.identity.uid, .gids = {caller.identity.gid}};
  subject.gids.insert(subject.gids.end(), caller.groups.begin(), caller.groups.end());
  return subject;
}

std::string RuleText(const std::string& rule) { return absl::StrCat("policy rule \"", rule, "\": "); }

}  // namespace

void Gate::Replace(Policy policy, AuditLevel audit) {
  policy_ = std::move(policy);
  rates_.Keep(policy_);
  audit_.SetLevel(audit);
}

std::optional<Outcome> Gate::Open(const Caller& caller, const BrokerCore& core, Instant now) {
  const Subject subject = SubjectOf(caller);
  AuditEntry entry{.action = "Session", .caller = &caller};
  auto refusal = CountRequest(subject, entry, now);
  if (!refusal) refusal = HoldAgainstRules(subject, entry);
  if (!refusal) {
    const uint32_t held = core.HoldingsOf(caller.identity.uid).sessions;
    refusal = HoldAgainstQuota(subject, &Quotas::sessions, "sessions", held, entry);
  }
  return Log(std::move(refusal), entry, now);
}

std::optional<Outcome> Gate::Ask(const Caller& caller, const ClientRequest& request, const BrokerCore& core,
                                 Instant now) {
  if (OnlyEnds(request.request)) return std::nullopt;
  const Subject subject = SubjectOf(caller);
  AuditEntry entry{
      .action = NameOf(request.request), .caller = &caller, .session = request.session, .request = request.id};
  const auto use = UseOf(request, core.records(), core.limits());
  if (use) entry.use = *use;
  auto refusal = CountRequest(subject, entry, now);
  if (refusal) return Log(std::move(refusal), entry, now);
  // Nothing is decided on it: it begins nothing, or the core refuses it.
  if (!use) return std::nullopt;
  refusal = HoldAgainstRules(subject, entry);
  const auto* open = std::get_if<OpenAdapter>(&request.request);
  if (refusal && open != nullptr && !caller.administrator) refusal = UnknownDevice(open->device);
  for (const Use& further : FurtherUsesOf(request, *use, core)) {
    if (refusal) break;
    AuditEntry of_further = entry;
    of_further.use = further;
    refusal = HoldAgainstRules(subject, of_further);
    // An allowed request is audited with the use that it asked for.
    if (refusal) entry = of_further;
  }
  const Holdings held = core.HoldingsOf(caller.identity.uid);
  if (!refusal && std::holds_alternative<CreateListener>(request.request)) {
    refusal = HoldAgainstQuota(subject, &Quotas::listeners, "listeners", held.listeners, entry);
  }
  const bool takes_connector =
      std::holds_alternative<CreateConnector>(request.request) || std::holds_alternative<Accept>(request.request);
  if (!refusal && takes_connector) {
    refusal = HoldAgainstQuota(subject, &Quotas::connectors, "connectors", held.connectors, entry);
  }
  return Log(std::move(refusal), entry, now);
}

std::optional<Outcome> Gate::Look(const Caller& caller, absl::string_view action, Instant now) {
  AuditEntry entry{.action = action, .caller = &caller};
  if (caller.IsRemote()) {
    // Of whom there is no user to count for. He has been let in to see what is everybody's.
    entry.rule = "tcp";
    entry.use.destination = caller.peer;
    audit_.Decided(true, entry, now);
    return std::nullopt;
  }
  if (caller.administrator) return std::nullopt;
  auto refusal = CountRequest(SubjectOf(caller), entry, now);
  return refusal ? Log(std::move(refusal), entry, now) : std::nullopt;
}

bool Gate::Shows(const Caller& caller, const std::string& device) const {
  return caller.administrator || Decide(policy_, SubjectOf(caller), {.adapter = device}).allowed;
}

std::optional<Outcome> Gate::CountRequest(const Subject& subject, AuditEntry& entry, Instant now) {
  const Rule* rule = FindQuota(policy_, subject, &Quotas::requests_per_second);
  if (rule == nullptr || !subject.uid) return std::nullopt;
  const auto wait = rates_.Take(*rule, *subject.uid, now);
  if (!wait) return std::nullopt;
  entry.rule = rule->name;
  entry.quota = "requests_per_second";
  return Outcome{.status = NdkStatus::kInsufficientResources,
                 .retryable = true,
                 .hint = absl::StrCat(RuleText(rule->name), "requests_per_second: uid ", *subject.uid, " has made its ",
                                      *rule->quotas.requests_per_second, "; try again in ",
                                      absl::ToInt64Milliseconds(absl::Ceil(*wait, absl::Milliseconds(1))), " ms")};
}

std::optional<Outcome> Gate::HoldAgainstRules(const Subject& subject, AuditEntry& entry) const {
  const Decision decision = Decide(policy_, subject, entry.use);
  entry.rule = decision.rule.empty() ? kDefault : decision.rule;
  if (decision.allowed) return std::nullopt;
  const std::string used = entry.use.ToString();
  const std::string what = used.empty() ? "a session" : used;
  return Outcome{.status = NdkStatus::kAccessDenied,
                 .hint = decision.rule.empty()
                             ? absl::StrCat(kDefault, ": ", what, " is allowed by no rule; ask the administrator")
                             : absl::StrCat(RuleText(decision.rule), what, " is not allowed; ask the administrator")};
}

std::optional<Outcome> Gate::HoldAgainstQuota(const Subject& subject, std::optional<uint32_t> Quotas::*quota,
                                              const char* key, uint32_t held, AuditEntry& entry) const {
  const Rule* rule = FindQuota(policy_, subject, quota);
  if (rule == nullptr || held < *(rule->quotas.*quota)) return std::nullopt;
  entry.rule = rule->name;
  entry.quota = key;
  return Outcome{
      .status = NdkStatus::kInsufficientResources,
      .hint = absl::StrCat(RuleText(rule->name), key, ": uid ", subject.uid.value_or(0), " has ", held, " of at most ",
                           *(rule->quotas.*quota), "; close some, or ask the administrator for more")};
}

std::optional<Outcome> Gate::Log(std::optional<Outcome> refusal, const AuditEntry& entry, Instant now) {
  audit_.Decided(!refusal, entry, now);
  if (heard_) heard_(!refusal);
  return refusal;
}

}  // namespace rdmabroker
