// SPDX-License-Identifier: Apache-2.0

// Who may use what, and how much: docs/policy.md says it for operators. No input or output, and no clock.

#ifndef BROKER_POLICY_POLICY_H_
#define BROKER_POLICY_POLICY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "broker/policy/matching.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker {

// Who asks: a process of this machine, which the kernel knows, or a caller of the TCP port, which its certificate
// names.
struct Subject {
  std::optional<uint32_t> uid;  // Nothing for a caller of the TCP port.
  std::vector<uint32_t> gids;   // Its own group and its supplementary ones.
  std::string spiffe_id;        // "" for a process of this machine.
};

// What a request would use. What it does not name is absent.
struct Use {
  std::string adapter;
  std::optional<PortRange> local_ports;  // One, or those among which the broker would choose.
  std::optional<IpAddress> destination;  // Or the peer that would be accepted.
  uint16_t destination_port = 0;         // 0: none; the port from which a peer connects is nobody's choice.

  bool operator==(const Use&) const = default;

  // "destination 10.0.0.9:4420, adapter "nic0"". "" for nothing at all.
  std::string ToString() const;
};

// How much one user may have or do. Absent: nothing is said of it.
struct Quotas {
  std::optional<uint32_t> sessions;
  std::optional<uint32_t> listeners;
  std::optional<uint32_t> connectors;
  std::optional<uint32_t> requests_per_second;

  bool operator==(const Quotas&) const = default;
};

struct Rule {
  std::string name;
  bool allow = true;
  // Whom it is about: who is in one of these lists. All three empty: everybody.
  std::vector<uint32_t> uids;
  std::vector<uint32_t> gids;
  std::vector<std::string> spiffe_ids;
  // What it is about: a condition for each list that is not empty.
  std::vector<std::string> adapters;  // Names, with * for any letters.
  PortSet local_ports;
  PortSet destination_ports;
  std::vector<Prefix> destinations;
  Quotas quotas;

  bool operator==(const Rule&) const = default;

  bool IsAbout(const Subject& subject) const;
  // Whether the rule decides on `use`. One that refuses does so only where the request names all that it has conditions
  // on, and one of the ports is among its own; one that allows is asked only for what the request names, and must have
  // all of the ports.
  bool Decides(const Use& use) const;
};

struct Policy {
  bool allow_by_default = true;
  std::vector<Rule> rules;

  bool operator==(const Policy&) const = default;
};

struct Decision {
  bool allowed = true;
  std::string rule;  // That decided; "" for the default.

  bool operator==(const Decision&) const = default;
};

// The first rule that is about the subject and decides on the use; the default where none does.
Decision Decide(const Policy& policy, const Subject& subject, const Use& use);

// The first rule that is about the subject and has this quota; null where none has.
const Rule* FindQuota(const Policy& policy, const Subject& subject, std::optional<uint32_t> Quotas::*quota);

// Something in a policy that cannot be meant.
struct Flaw {
  size_t rule = 0;   // Which of the rules.
  std::string key;   // Of the rule.
  std::string what;  // And what to do.

  bool operator==(const Flaw&) const = default;
};

// The first one: names that are not unique or not fit to be shown, quotas of a rule that refuses, conditions that
// nobody whom a rule is about can meet, and rules and quotas that come too late, as those before them decide.
std::optional<Flaw> FindFlaw(const Policy& policy);

}  // namespace rdmabroker

#endif  // BROKER_POLICY_POLICY_H_
