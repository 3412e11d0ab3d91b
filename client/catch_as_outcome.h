// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_CATCH_AS_OUTCOME_H_
#define CLIENT_CATCH_AS_OUTCOME_H_

#include "client/values.h"
#include "dataplane/catch_exceptions.h"
#include "dataplane/last_hint.h"
#include "dataplane/ndk/status.h"

namespace rdmabroker::client {

inline Outcome& OutcomeOf(Outcome& outcome) { return outcome; }
template <typename Result>
Outcome& OutcomeOf(Result& result) {
  return result.outcome;
}

// CatchExceptions, for a body that returns an Outcome or a struct with one.
template <typename Body>
auto CatchAsOutcome(const Body& body) noexcept -> decltype(body()) {
  return CatchExceptions(body, [](NdkStatus status) {
    decltype(body()) refused = {};
    // A text that is so short needs no memory.
    OutcomeOf(refused) = {.status = status, .hint = status == NdkStatus::kNoMemory ? "out of memory" : LastHint()};
    return refused;
  });
}

}  // namespace rdmabroker::client

#endif  // CLIENT_CATCH_AS_OUTCOME_H_
