// SPDX-License-Identifier: Apache-2.0

#include "broker/store/session_lists.h"

#include <algorithm>

#include "broker/store/record_codec.h"
#include "broker/store/record_file.h"

namespace rdmabroker::store {
namespace {

// Both are in the order of the ids.
void WriteAnswers(Transaction& transaction, SessionId id, const std::vector<RequestId>& stored,
                  const std::deque<KeptAnswer>& answers) {
  auto old = stored.begin();
  const auto erase_up_to = [&](RequestId request) {
    for (; old != stored.end() && *old < request; ++old) {
      transaction.Erase({Kind::kAnswer, id.value(), old->value()});
    }
  };
  for (const KeptAnswer& answer : answers) {
    erase_up_to(answer.id);
    if (old != stored.end() && *old == answer.id) {
      ++old;
      continue;
    }
    transaction.PutMade<v1::Answer>({Kind::kAnswer, id.value(), answer.id.value()},
                                    [&answer](v1::Answer* message) { ToProto(answer, message); });
  }
  for (; old != stored.end(); ++old) transaction.Erase({Kind::kAnswer, id.value(), old->value()});
}

void EraseEvents(Transaction& transaction, SessionId id, uint64_t first, uint64_t end) {
  for (uint64_t number = first; number < end; ++number) transaction.Erase({Kind::kEvent, id.value(), number});
}

uint64_t FirstEvent(const SessionRecord& session) { return session.acknowledged.value() + 1; }

}  // namespace

void SessionLists::Write(Transaction& transaction, SessionId id, const SessionRecord* session) const {
  static const SessionRecord kGone;
  static const Stored kNothing;
  const SessionRecord& wanted = session == nullptr ? kGone : *session;
  const auto found = stored_.find(id);
  const Stored& stored = found == stored_.end() ? kNothing : found->second;
  WriteAnswers(transaction, id, stored.answers, wanted.answers);
  const uint64_t first = FirstEvent(wanted);
  const uint64_t end = first + wanted.events.size();
  EraseEvents(transaction, id, stored.first_event, std::min(first, stored.end_event));
  EraseEvents(transaction, id, std::max(end, stored.first_event), stored.end_event);
  for (uint64_t number = std::max(first, stored.end_event); number < end; ++number) {
    const SessionEvent& event = wanted.events[number - first];
    transaction.PutMade<v1::Event>({Kind::kEvent, id.value(), number},
                                   [&event](v1::Event* message) { ToProto(event, message); });
  }
}

void SessionLists::Remember(SessionId id, const SessionRecord* session) {
  if (session == nullptr) {
    stored_.erase(id);
    return;
  }
  Stored& stored = stored_[id];
  stored.answers.clear();
  for (const KeptAnswer& answer : session->answers) stored.answers.push_back(answer.id);
  stored.first_event = FirstEvent(*session);
  stored.end_event = stored.first_event + session->events.size();
}

}  // namespace rdmabroker::store
