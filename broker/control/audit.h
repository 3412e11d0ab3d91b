// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_AUDIT_H_
#define BROKER_CONTROL_AUDIT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "broker/control/audit_level.h"
#include "broker/control/caller.h"
#include "broker/core/ids.h"
#include "broker/policy/policy.h"
#include "broker/runtime/warning_limit.h"

namespace rdmabroker {

// What was decided on, for whom and by what. Empty and 0 where there is no such thing.
struct AuditEntry {
  absl::string_view action;        // "Connect"; the contract's name, which outlives the entry.
  const Caller* caller = nullptr;  // Null for one that cannot be told.
  SessionId session;
  RequestId request;
  Use use;
  std::string rule;   // That decided.
  std::string quota;  // The rule's key, where that decided.
};

// Logs decisions, each as one event. They are bounded for each user, so that one who asks again and again fills no log
// and hides nobody else's, nor what he is refused behind what he is allowed: the next of his that is logged has the
// number of those left out. The log's own level counts for none of them. Loop thread only.
class Audit {
 public:
  // What is allowed is work, and comes as a client begins with its two thousand connections; at ten a second a user who
  // never rests writes some hundred megabytes a day.
  static constexpr int64_t kMostAllowed = 4096;
  static constexpr absl::Duration kBetweenAllowed = absl::Milliseconds(100);
  // What is refused is mended after some tries, or tried for ever.
  static constexpr int64_t kMostRefused = 16;

  explicit Audit(AuditLevel level) : level_(level) {}

  void SetLevel(AuditLevel level) { level_ = level; }
  // As far as the level wants it.
  void Decided(bool allowed, const AuditEntry& entry, absl::Time now);
  // Whatever the level.
  void Administered(bool allowed, const AuditEntry& entry, absl::Time now);

 private:
  // One for each user, or for who it is on the TCP port; one for all there who cannot be told.
  class Limits {
   public:
    explicit Limits(WarningLimit fresh) : fresh_(fresh) {}
    std::optional<uint64_t> Pass(const Caller* caller, absl::Time now);

   private:
    const WarningLimit fresh_;
    std::map<std::pair<uint32_t, std::string>, WarningLimit> limits_;
    size_t most_ = 0;
  };

  static void Log(bool allowed, const AuditEntry& entry, Limits& limits, absl::Time now);

  AuditLevel level_;
  Limits allowed_{WarningLimit(kMostAllowed, kBetweenAllowed)};
  Limits refused_{WarningLimit(kMostRefused)};
  Limits administration_{WarningLimit()};  // Refused. Apart, so that it is not hidden by the user's requests.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_AUDIT_H_
