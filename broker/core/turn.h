// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_TURN_H_
#define BROKER_CORE_TURN_H_

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "broker/core/index.h"
#include "broker/core/limits.h"
#include "broker/core/messages.h"
#include "broker/core/state.h"
#include "broker/core/tally.h"

namespace rdmabroker {

// What the handling of one event works on. The nouns' functions (sessions.h, endpoints.h, ...) take it first.
struct Turn {
  const Limits& limits;
  Records& records;
  Index& index;
  Effects& effects;
  Tally& tally;
  const Instant before;  // Of the event before, or of the last on record; absl::InfinitePast() where there was none.
  TurnBudget& left;

  Instant now() const { return records.now; }
  void Emit(Effect effect) { effects.push_back(std::move(effect)); }
};

// The request that is being handled.
struct Call {
  SessionId session;
  RequestId id;
};

inline Outcome Pending() { return {.status = NdkStatus::kPending}; }

inline Outcome Done(Payload payload = {}) { return {.payload = std::move(payload)}; }

// `parts` make the hint: what was wrong with which field or object, and what to do.
template <typename... Parts>
Outcome Refuse(NdkStatus status, const Parts&... parts) {
  return {.status = status, .hint = absl::StrCat(parts...)};
}

}  // namespace rdmabroker

#endif  // BROKER_CORE_TURN_H_
