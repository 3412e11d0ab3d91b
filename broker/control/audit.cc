// SPDX-License-Identifier: Apache-2.0

#include "broker/control/audit.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "broker/control/audit_fields.h"
#include "broker/log/log.h"

namespace rdmabroker {
namespace {

// As many users are on a busy node; more cost a walk over all of them once they have doubled.
constexpr size_t kUsualUsers = 1024;

}  // namespace

void Audit::Decided(bool allowed, const AuditEntry& entry, absl::Time now) {
  const AuditLevel least = allowed ? AuditLevel::kAll : AuditLevel::kRefused;
  if (level_ >= least) Log(allowed, entry, allowed ? allowed_ : refused_, now);
}

void Audit::Administered(bool allowed, const AuditEntry& entry, absl::Time now) {
  if (allowed) return LogInfoAlways("policy decision", AuditFields(true, entry));
  Log(false, entry, administration_, now);
}

void Audit::Log(bool allowed, const AuditEntry& entry, Limits& limits, absl::Time now) {
  const auto left_out = limits.Pass(entry.caller, now);
  if (!left_out) return;
  std::vector<LogField> fields = AuditFields(allowed, entry);
  fields.emplace_back("left_out", *left_out);
  if (allowed) return LogInfoAlways("policy decision", fields);
  LogWarningAlways("policy decision", fields);
}

std::optional<uint64_t> Audit::Limits::Pass(const Caller* caller, absl::Time now) {
  if (limits_.size() >= std::max(most_, kUsualUsers)) {
    // What was left out of those is not told any more; hardly anything was decided on them lately.
    std::erase_if(limits_, [&](const auto& entry) { return entry.second.IsFresh(now); });
    most_ = limits_.size() * 2;
  }
  const std::string spiffe_id = caller == nullptr ? "" : caller->spiffe_id;
  const uint32_t uid = caller == nullptr ? kNoUser : caller->identity.uid;
  return limits_.try_emplace({uid, spiffe_id}, fresh_).first->second.Pass(now);
}

}  // namespace rdmabroker
