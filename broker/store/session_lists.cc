// SPDX-License-Identifier: Apache-2.0

#include "broker/store/session_lists.h"

#include <algorithm>
#include <cstddef>
#include <deque>

#include "broker/store/record_codec.h"
#include "broker/store/record_file.h"

namespace rdmabroker::store {
namespace {

// The first answer that is still kept.
size_t FirstKept(const std::deque<RequestId>& stored, const std::deque<KeptAnswer>& answers) {
  if (answers.empty()) return stored.size();
  return static_cast<size_t>(std::lower_bound(stored.begin(), stored.end(), answers.front().id) - stored.begin());
}

// Calls `use` for each answer that is not among `stored`, the last one first, with its place there. All that is stored
// from `first` on is kept, so once as many are left of both, they are the same: the time that this takes grows with
// what is new, and not with what is kept.
template <typename Use>
void ForEachNew(const std::deque<RequestId>& stored, size_t first, const std::deque<KeptAnswer>& answers, Use use) {
  size_t old = stored.size();
  for (size_t next = answers.size(); next > old - first; --next) {
    const KeptAnswer& answer = answers[next - 1];
    if (old > first && stored[old - 1] == answer.id) {
      --old;
    } else {
      use(answer, old);
    }
  }
}

void WriteAnswers(Transaction& transaction, SessionId id, const std::deque<RequestId>& stored,
                  const std::deque<KeptAnswer>& answers) {
  const size_t first = FirstKept(stored, answers);
  for (size_t i = 0; i < first; ++i) transaction.Erase({Kind::kAnswer, id.value(), stored[i].value()});
  ForEachNew(stored, first, answers, [&](const KeptAnswer& answer, size_t) {
    transaction.PutMade<v1::Answer>({Kind::kAnswer, id.value(), answer.id.value()},
                                    [&answer](v1::Answer* message) { ToProto(answer, message); });
  });
}

void EraseEvents(Transaction& transaction, SessionId id, uint64_t first, uint64_t end) {
  for (uint64_t number = first; number < end; ++number) transaction.Erase({Kind::kEvent, id.value(), number});
}

uint64_t FirstEvent(const SessionRecord& session) { return session.dropped.value() + 1; }

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
  const auto begin = stored.answers.begin();
  stored.answers.erase(begin, begin + static_cast<ptrdiff_t>(FirstKept(stored.answers, session->answers)));
  // The last new answer comes first, so inserting it does not move the places of the others.
  ForEachNew(stored.answers, 0, session->answers, [&stored](const KeptAnswer& answer, size_t place) {
    stored.answers.insert(stored.answers.begin() + static_cast<ptrdiff_t>(place), answer.id);
  });
  stored.first_event = FirstEvent(*session);
  stored.end_event = stored.first_event + session->events.size();
}

}  // namespace rdmabroker::store
