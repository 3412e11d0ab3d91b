// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_STORE_SESSION_LISTS_H_
#define BROKER_STORE_SESSION_LISTS_H_

#include <cstdint>
#include <deque>

#include "absl/container/flat_hash_map.h"
#include "broker/core/state.h"

namespace rdmabroker::store {

class Transaction;

// Which of the sessions' answers and events are in the store: so that only new ones are written, and only those that
// went erased. What an answer or event says never changes while the core keeps it. The core forgets both from the first
// on, and takes none before one that it has forgotten.
class SessionLists {
 public:
  // Brings what `transaction` has of the session's answers and events to what `session` has; null where it is gone.
  void Write(Transaction& transaction, SessionId id, const SessionRecord* session) const;
  // That was committed.
  void Remember(SessionId id, const SessionRecord* session);

 private:
  // The answers' ids, rising, and the events' numbers, from the first to before the last.
  struct Stored {
    std::deque<RequestId> answers;
    uint64_t first_event = 0;
    uint64_t end_event = 0;
  };

  absl::flat_hash_map<SessionId, Stored> stored_;
};

}  // namespace rdmabroker::store

#endif  // BROKER_STORE_SESSION_LISTS_H_
