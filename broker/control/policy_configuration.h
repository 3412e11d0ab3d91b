// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_POLICY_CONFIGURATION_H_
#define BROKER_CONTROL_POLICY_CONFIGURATION_H_

#include <cstddef>
#include <string>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "absl/status/status.h"
#include "broker/control/accounts.h"
#include "broker/control/audit_level.h"
#include "broker/policy/policy.h"

namespace rdmabroker {

// A request is held against each rule and each entry of its lists. A node has tens of tenants, each with a few rules.
inline constexpr size_t kMostPolicyRules = 1000;
inline constexpr size_t kMostPolicyEntries = 1000;  // Of each list.

// Reads [policy] and [[policy.rules]]; docs/policy.md lists the keys. Names of users and groups are looked up in
// `accounts`. INVALID_ARGUMENT names file, line and key: what ParseConfiguration complains of, and what cannot
// be meant (FindFlaw of policy.h). Then `*policy` and `*audit` are undefined.
absl::Status ReadPolicy(const std::string& file, const toml::table& table, Accounts& accounts, Policy* policy,
                        AuditLevel* audit);

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_POLICY_CONFIGURATION_H_
