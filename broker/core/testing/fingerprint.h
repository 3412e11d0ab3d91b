// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_TESTING_FINGERPRINT_H_
#define BROKER_CORE_TESTING_FINGERPRINT_H_

#include <cstdint>
#include <utility>

#include "broker/core/state.h"
#include "broker/core/testing/observer.h"

namespace rdmabroker {

// What stands for a core's state, and its observer's, where equal futures are to be recognised: two states with the
// same fingerprint answer the same events alike, but for the names of things. It is blind to
//   - which numbers ids are: they are only ever compared, so that their order within a kind is all that counts;
//   - what time it is: the core only compares deadlines with it, so that what is left until they are due counts;
//   - the contents of unacknowledged events and of kept answers, and which requests are pending: the core stores and
//     repeats them, never looks at them, and the observer compares them in every state.
// 128 bits: among 10^8 states, two different ones share it with a probability of 10^-23.
struct Fingerprint {
  uint64_t high = 0;
  uint64_t low = 0;

  bool operator==(const Fingerprint&) const = default;

  template <typename H>
  friend H AbslHashValue(H state, const Fingerprint& fingerprint) {
    return H::combine(std::move(state), fingerprint.low);
  }
};

Fingerprint FingerprintOf(const Records& records, const Observer& observer);

}  // namespace rdmabroker

#endif  // BROKER_CORE_TESTING_FINGERPRINT_H_
