// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_AUDIT_H_
#define BROKER_CONTROL_AUDIT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "broker/control/audit_level.h"
#include "broker/control/caller.h"
#include "broker/core/ids.h"
#include "broker/policy/policy.h"
#include "broker/runtime/warning_limit.h"

namespace rdmabroker {

// What was decided on, for whom and by what. Empty and 0 where there is no such thing.
struct AuditEntry {
  const char* action = "";         // "Connect"; the contract's name.
  const Caller* caller = nullptr;  // Null for one that cannot be told.
  SessionId session;
  RequestId request;
  Use use;
  std::string rule;   // That decided.
  std::string quota;  // The rule's key, where that decided.
};

// Logs decisions, each as one event. Refusals are bounded for each user, so that one who is refused again and again
// fills no log and hides nobody else's: one a second, with the number of those left out. Loop thread only.
class Audit {
 public:
  explicit Audit(AuditLevel level) : level_(level) {}

  void SetLevel(AuditLevel level) { level_ = level; }
  // As far as the level wants it.
  void Decided(bool allowed, const AuditEntry& entry, absl::Time now);
  // Whatever the level, and whatever that of the log.
  void Administered(bool allowed, const AuditEntry& entry, absl::Time now);

 private:
  // By user, or by who it is on the TCP port.
  class Limits {
   public:
    std::optional<uint64_t> Pass(const Caller* caller, absl::Time now);

   private:
    struct Limit {
      WarningLimit warnings;
      absl::Time last = absl::InfinitePast();
    };
    std::map<std::pair<uint32_t, std::string>, Limit> limits_;
    size_t most_ = 0;
  };

  void LogRefusal(const AuditEntry& entry, Limits& limits, absl::Time now);

  AuditLevel level_;
  Limits requests_;
  Limits administration_;  // Apart, so that it is not hidden by the user's requests.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_AUDIT_H_
