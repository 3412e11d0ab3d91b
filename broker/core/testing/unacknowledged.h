// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CORE_TESTING_UNACKNOWLEDGED_H_
#define BROKER_CORE_TESTING_UNACKNOWLEDGED_H_

#include <cstdint>
#include <vector>

#include "broker/core/messages.h"
#include "broker/core/state.h"

namespace rdmabroker {

// What the session's stream sends to a client that has returned, in that order.
inline std::vector<NumberedEvent> Unacknowledged(const SessionRecord& session) {
  std::vector<NumberedEvent> events;
  for (uint64_t number = session.acknowledged.value() + 1; number <= session.last_event.value(); ++number) {
    events.push_back({session.id, session.stream, EventNumber(number), session.event(EventNumber(number))});
  }
  return events;
}

}  // namespace rdmabroker

#endif  // BROKER_CORE_TESTING_UNACKNOWLEDGED_H_
