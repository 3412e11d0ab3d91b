// SPDX-License-Identifier: Apache-2.0

// Sessions: who asks, what was answered, and the numbered events.

#ifndef BROKER_CORE_SESSIONS_H_
#define BROKER_CORE_SESSIONS_H_

#include "broker/core/turn.h"

namespace rdmabroker {

void Handle(Turn& turn, const OpenSession& event);
void Handle(Turn& turn, const ResumeSession& event);
void Handle(Turn& turn, const StreamLost& event);
void Handle(Turn& turn, const EndSession& event);
void Handle(Turn& turn, const AcknowledgeEvents& event);

// The session's stream has gone without its client's doing, which has the whole grace period to come back.
void LoseStream(Turn& turn, SessionRecord& session);

// The grace period of the session is over, or it has ended and has more to close. It stays due if this turn has done
// enough of that.
void OnDeadline(Turn& turn, SessionId session);

// Drops the leftovers of all sessions, the same number of each, as far as the turn's budget allows.
void DropLeftovers(Turn& turn);

// The object's close has begun, or the object is gone.
void LeaveOpen(Turn& turn, SessionRecord& session, const ObjectId& object);

// A repeat of an answered request, a number out of the window, or a session that may not ask now: the answer to give
// without doing anything. Nothing where the request is new and may go on. A repeat acknowledges nothing: were a wrong
// acknowledgement a reason to refuse it, the client would take for refused what was done.
std::optional<Outcome> AnswerWithoutActing(const Records& records, const ClientRequest& event);
// Takes what the request acknowledges, or refuses it for events that there never were.
Outcome TakeAcknowledgement(Turn& turn, const ClientRequest& event);
// Keeps the answer for repeats and gives it.
void Give(Turn& turn, const ClientRequest& event, Outcome outcome);

// Puts an event on the session's stream and remembers that it concerns `object`. Nothing for a session that has ended.
void Notify(Turn& turn, ObjectRecord& object, SessionEvent event);
// The outcome of a request that was answered PENDING; `request` 0 is nobody's. Takes the number out of `request`.
void Complete(Turn& turn, ObjectRecord& object, RequestId& request, Outcome outcome);
// Whether the session has as many unacknowledged events as it may: nothing new is started for it.
bool IsOverwhelmed(const Turn& turn, const SessionRecord& session);
// The refusal of whatever would start something new, where the broker keeps kept_bytes_per_uid for the user already.
std::optional<Outcome> RefuseIfFull(const Turn& turn, uint32_t uid);

// Forgets the session where it has ended and has nothing any more.
void ForgetIfDone(Turn& turn, SessionId session);

}  // namespace rdmabroker

#endif  // BROKER_CORE_SESSIONS_H_
