// SPDX-License-Identifier: Apache-2.0

// A configuration file, policy included. It is refused by name, or it can be applied, and each of its rules decides
// what it says.

#include "broker/control/configuration.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "tests/fuzz.h"

namespace rdmabroker {
namespace {

constexpr char kFile[] = "a.toml";

void CheckApplying(const Configuration& wanted) {
  const std::map<std::string, bool> known = KnownConfigurationKeys();
  Configuration in_use;
  const ChangedKeys changed = ApplyChanges(wanted, in_use);
  for (const std::string& key : changed.applied) {
    Require(key == "policy" || known.at(key), "what is applied may change while the daemon runs");
  }
  for (const std::string& key : changed.needs_restart) Require(!known.at(key), "other keys wait for a restart");
  Require(!changed.needs_restart.empty() || in_use == wanted, "without them all is in use");
  const ChangedKeys again = ApplyChanges(wanted, in_use);
  Require(again == ChangedKeys{{}, changed.needs_restart}, "nothing is applied twice");
}

void CheckPolicy(const Policy& policy) {
  Require(!FindFlaw(policy), "a policy that is taken has no flaw");
  Use use = {.adapter = "iwarp0", .destination_port = 4420};
  use.local_ports = PortRange{7000, 7010};
  use.destination = IpAddress{.bytes = {10, 0, 0, 9}};
  for (const Subject& subject :
       {Subject{.uid = 1000, .gids = {100}}, Subject{.uid = std::nullopt, .spiffe_id = "spiffe://example.org/a"}}) {
    const Decision decision = Decide(policy, subject, use);
    const auto rule = std::find_if(policy.rules.begin(), policy.rules.end(),
                                   [&](const Rule& each) { return each.name == decision.rule; });
    if (rule == policy.rules.end()) {
      Require(decision.rule.empty() && decision.allowed == policy.allow_by_default, "the default decides");
    } else {
      Require(decision.allowed == rule->allow && rule->IsAbout(subject) && rule->Decides(use), "a rule decides");
    }
    (void)FindQuota(policy, subject, &Quotas::connectors);
  }
}

}  // namespace
}  // namespace rdmabroker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rdmabroker;
  const std::string text(reinterpret_cast<const char*>(data), size);
  Accounts accounts({.users = {{"alice", 1000}}, .groups = {{"rdma", 100}}});
  const auto configuration = ParseConfiguration(text, kFile, accounts);
  const auto again = ParseConfiguration(text, kFile, accounts);
  Require(again.ok() == configuration.ok(), "a file is read the same again");
  if (!configuration.ok()) {
    Require(absl::IsInvalidArgument(configuration.status()), "what is refused is INVALID_ARGUMENT");
    Require(absl::StartsWith(configuration.status().message(), kFile), "a refusal names the file");
    return 0;
  }
  Require(*again == *configuration, "a file is read the same again");
  const Limits& limits = configuration->limits;
  Require(limits.first_ephemeral_port <= limits.last_ephemeral_port, "there is an ephemeral port");
  CheckApplying(*configuration);
  CheckPolicy(configuration->policy);
  return 0;
}
