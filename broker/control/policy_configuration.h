// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_POLICY_CONFIGURATION_H_
#define BROKER_CONTROL_POLICY_CONFIGURATION_H_

#include <cstddef>

#include "broker/control/accounts.h"
#include "broker/control/audit_level.h"
#include "broker/control/toml_setters.h"
#include "broker/policy/policy.h"

namespace rdmabroker {

// A request is held against each rule and each entry of its lists. A node has tens of tenants, each with a few rules.
inline constexpr size_t kMostPolicyRules = 1000;
inline constexpr size_t kMostPolicyEntries = 1000;  // Of each list.

// Reads [policy] and [[policy.rules]]; docs/policy.md lists the keys. Names of users and groups are looked up in
// `accounts`. Complains of what SetAll does, and of what cannot be meant (FindFlaw of policy.h); then `*policy` and
// `*audit` are undefined.
Complaint ReadPolicy(const toml::table& table, Accounts& accounts, Policy* policy, AuditLevel* audit);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_POLICY_CONFIGURATION_H_
