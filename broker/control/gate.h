// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_GATE_H_
#define BROKER_CONTROL_GATE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "broker/control/audit.h"
#include "broker/control/caller.h"
#include "broker/core/broker_core.h"
#include "broker/policy/policy.h"
#include "broker/policy/request_rates.h"

namespace rdmabroker {

// Every new request passes this before the core hears of it: the gate holds it against the policy, counts it, and has
// the decision logged. It takes nothing from anybody who has it. Loop thread only.
class Gate {
 public:
  Gate(Policy policy, AuditLevel audit) : policy_(std::move(policy)), audit_(audit) {}

  // Another policy, for requests from now on. What has been asked within the last second still counts for those rules
  // that keep their name and rate.
  void Replace(Policy policy, AuditLevel audit);

  // Is told of every decision on a request from now on.
  void OnDecision(std::function<void(bool allowed)> heard) { heard_ = std::move(heard); }

  // Why the caller may not open a session, or nothing.
  std::optional<Outcome> Open(const Caller& caller, const BrokerCore& core, Instant now);
  // Why the caller may not make this request, which is new to the core (BrokerCore::IsNew) and of a session of the
  // caller's, or nothing. Each call counts.
  std::optional<Outcome> Ask(const Caller& caller, const ClientRequest& request, const BrokerCore& core, Instant now);

  // Why the caller may not look at what there is just now, or nothing. Looks count as requests do, but an
  // administrator's, who is to see what goes on whatever goes on. Logged are those that are refused, and those from off
  // the node.
  std::optional<Outcome> Look(const Caller& caller, absl::string_view action, Instant now);

  // Whether the caller may know of the device: administrators of every one, others of those that they may open.
  bool Shows(const Caller& caller, const std::string& device) const;

  // An administrator's doing, or that somebody may not do it, which is decided elsewhere. Always logged.
  void Administered(bool allowed, const AuditEntry& entry, Instant now) { audit_.Administered(allowed, entry, now); }

 private:
  std::optional<Outcome> CountRequest(const Subject& subject, AuditEntry& entry, Instant now);
  std::optional<Outcome> HoldAgainstRules(const Subject& subject, AuditEntry& entry) const;
  std::optional<Outcome> HoldAgainstQuota(const Subject& subject, std::optional<uint32_t> Quotas::*quota,
                                          const char* key, uint32_t held, AuditEntry& entry) const;
  std::optional<Outcome> Log(std::optional<Outcome> refusal, const AuditEntry& entry, Instant now);

  Policy policy_;
  RequestRates rates_;
  Audit audit_;
  std::function<void(bool allowed)> heard_;
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_GATE_H_
