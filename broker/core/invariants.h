// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_INVARIANTS_H_
#define BROKER_CORE_INVARIANTS_H_

#include "absl/status/status.h"
#include "broker/core/index.h"
#include "broker/core/limits.h"
#include "broker/core/state.h"

namespace rdmabroker {

// The rules that the records keep after every event, recounted from nothing: every reference leads somewhere, every
// count is what it counts, every state has what belongs to it, and no two endpoints or connections are in each other's
// way. INTERNAL, naming the record and the rule.
absl::Status CheckRecords(const Records& records);

// Nobody has more than `limits` allow, or more answers than its client was told of. Not a rule of records that were
// made under other limits.
absl::Status CheckLimits(const Records& records, const Limits& limits);

// The index is what the records give.
absl::Status CheckIndex(const Records& records, const Index& index);

}  // namespace rdmabroker

#endif  // BROKER_CORE_INVARIANTS_H_
