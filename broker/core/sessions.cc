// SPDX-License-Identifier: Apache-2.0

#include "broker/core/sessions.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "broker/core/connections.h"
#include "broker/core/new_ids.h"
#include "broker/core/objects.h"

namespace rdmabroker {
namespace {

void SetDeadline(Turn& turn, SessionRecord& session, Instant deadline) {
  if (session.deadline != absl::InfiniteFuture()) turn.index.deadlines.sessions.erase({session.deadline, session.id});
  session.deadline = deadline;
  if (deadline != absl::InfiniteFuture()) turn.index.deadlines.sessions.emplace(deadline, session.id);
}

// Drops acknowledged events, and the events and answers of an ended session: at most `most`.
void Drop(Turn& turn, SessionRecord& session, uint32_t most) {
  const uint32_t uid = session.identity.uid;
  uint32_t left = std::min(most, turn.left.drops);
  turn.left.drops -= left;
  for (; left > 0 && session.dropped < session.done_with(); --left) {
    turn.index.ledger.Release(uid, BytesOf(session.events.front()));
    session.events.pop_front();
    session.dropped = EventNumber(session.dropped.value() + 1);
  }
  for (; left > 0 && session.has_leftovers(); --left) {
    turn.index.ledger.Release(uid, BytesOf(session.answers.front()));
    session.answers.pop_front();
  }
  turn.left.drops += left;
  if (session.has_leftovers()) {
    turn.index.undropped.insert(session.id);
  } else {
    turn.index.undropped.erase(session.id);
  }
}

// Returns false if there was no event `through`.
bool Acknowledge(Turn& turn, SessionRecord& session, EventNumber through) {
  if (through > session.last_event) return false;
  if (through <= session.acknowledged) return true;
  session.acknowledged = through;
  Drop(turn, session, turn.left.drops);
  return true;
}

// Whether the request is so far behind the newest that its answer is not kept. The newest one's own always is.
bool IsForgotten(const SessionRecord& session, RequestId request) {
  return session.newest_request > request && session.newest_request.value() - request.value() >= session.answers_kept;
}

// The first kept answer to `request` or a later one. Requests come nearly in order, so the newest are looked at first.
std::deque<KeptAnswer>::const_iterator FindAnswer(const SessionRecord& session, RequestId request) {
  auto found = session.answers.end();
  while (found != session.answers.begin() && std::prev(found)->id >= request) --found;
  return found;
}

// Closes objects of the ended session, as many as the current event still may.
void CloseObjects(Turn& turn, SessionId id) {
  for (; turn.left.closes > 0; --turn.left.closes) {
    const auto open = turn.index.open.find(id);
    if (open == turn.index.open.end()) return;
    // Connectors first and adapters last: successors before what they depend on.
    const ObjectId last = *open->second.rbegin();
    CloseForEndedSession(turn, last);
  }
}

void End(Turn& turn, SessionRecord& session) {
  const SessionId id = session.id;
  session.ended = true;
  SetDeadline(turn, session, absl::InfiniteFuture());
  turn.Emit(SessionEnded{id, session.stream});
  session.stream = StreamId();
  Drop(turn, session, turn.left.drops);
  if (turn.index.open.contains(id)) {
    SetDeadline(turn, session, turn.now());
    // Sessions that ended earlier have precedence.
    if (turn.index.deadlines.sessions.begin()->first == turn.now()) CloseObjects(turn, id);
  }
  ForgetIfDone(turn, id);
}

// A client learns the number with SessionOpened, and it holds to the session's end: with a higher one, a request that
// was answered and forgotten would be new again.
void PromiseAnswers(const Limits& limits, SessionRecord& session) {
  if (session.answers_kept == 0) session.answers_kept = limits.answers_kept;
}

bool IsFull(const Turn& turn, uint32_t uid) { return turn.index.ledger.Of(uid) >= turn.limits.kept_bytes_per_uid; }

// A process may change its user, so it is known by its pid where the broker can see that, and else by its user.
bool IsClientOf(const SessionRecord& session, const Identity& returning) {
  if (session.identity.pid != 0) return session.identity.pid == returning.pid;
  return session.identity.uid == returning.uid;
}

SessionRecord* FindLive(Turn& turn, SessionId id) {
  const auto it = turn.records.sessions.find(id);
  return it == turn.records.sessions.end() || it->second.ended ? nullptr : &it->second;
}

}  // namespace

void Handle(Turn& turn, const OpenSession& event) {
  const uint32_t uid = event.identity.uid;
  if (turn.index.lists.sessions.CountOf(uid) >= turn.limits.sessions_per_uid) {
    turn.Emit(SessionRefused{event.stream,
                             Refuse(NdkStatus::kInsufficientResources, "session: uid ", uid, " has ",
                                    turn.limits.sessions_per_uid, " already; end some, or raise sessions_per_uid")});
    return;
  }
  if (auto refusal = RefuseIfFull(turn, uid)) {
    turn.Emit(SessionRefused{event.stream, *std::move(refusal)});
    return;
  }
  NewIds<SessionKind> ids(turn.records.counters.id_key, turn.records.counters.session);
  const SessionId id = ids.Next(turn.records.sessions);
  ids.Take();
  turn.index.lists.sessions.Add(uid, id);
  turn.index.ledger.Charge(uid, kSessionBytes);
  SessionRecord& session = turn.records.sessions[id];
  session.id = id;
  session.identity = event.identity;
  session.secret = event.secret;
  session.stream = event.stream;
  session.address_news = event.address_news;
  PromiseAnswers(turn.limits, session);
  turn.Emit(SessionOpened{event.stream, id});
}

void Handle(Turn& turn, const ResumeSession& event) {
  SessionRecord* session = FindLive(turn, event.session);
  // One answer for an unknown session and a wrong secret, so that nobody can ask which sessions there are.
  const bool genuine =
      session != nullptr && SecretsEqual(session->secret, event.secret) && IsClientOf(*session, event.identity);
  if (!genuine) {
    turn.Emit(
        SessionRefused{event.stream, Refuse(NdkStatus::kAccessDenied, "session ", event.session.value(),
                                            ": no such session of this process, or it has ended; open a new one")});
    return;
  }
  if (event.acknowledged < session->acknowledged || !Acknowledge(turn, *session, event.acknowledged)) {
    turn.Emit(SessionRefused{
        event.stream, Refuse(NdkStatus::kInvalidParameter, "acknowledged_event: ", event.acknowledged.value(),
                             " is not between ", session->acknowledged.value(), " and ", session->last_event.value())});
    return;
  }
  if (session->stream) turn.Emit(StreamReplaced{session->stream});
  session->stream = event.stream;
  session->address_news = event.address_news;
  SetDeadline(turn, *session, absl::InfiniteFuture());
  PromiseAnswers(turn.limits, *session);
  session->returned = turn.now();
  turn.Emit(SessionOpened{event.stream, session->id});
}

void Handle(Turn& turn, const StreamLost& event) {
  SessionRecord* session = FindLive(turn, event.session);
  if (session == nullptr || !event.stream || session->stream != event.stream) return;
  if (event.end == StreamEnd::kBroker) return LoseStream(turn, *session);
  session->stream = StreamId();
  End(turn, *session);
}

void LoseStream(Turn& turn, SessionRecord& session) {
  session.stream = StreamId();
  SetDeadline(turn, session, turn.now() + turn.limits.session_grace);
}

void Handle(Turn& turn, const EndSession& event) {
  if (SessionRecord* session = FindLive(turn, event.session)) End(turn, *session);
}

void Handle(Turn& turn, const AcknowledgeEvents& event) {
  if (SessionRecord* session = FindLive(turn, event.session)) Acknowledge(turn, *session, event.acknowledged);
}

void OnDeadline(Turn& turn, SessionId id) {
  if (std::as_const(turn.records.sessions).at(id).ended) return CloseObjects(turn, id);
  if (turn.left.ends == 0) return;
  --turn.left.ends;
  End(turn, turn.records.sessions.at(id));
}

void DropLeftovers(Turn& turn) {
  const auto& sessions = turn.index.undropped;
  if (sessions.empty()) return;
  const auto share = static_cast<uint32_t>(std::max<size_t>(turn.left.drops / sessions.size(), 1));
  for (auto next = sessions.begin(); next != sessions.end() && turn.left.drops > 0;) {
    const SessionId id = *next;
    Drop(turn, turn.records.sessions.at(id), share);
    ForgetIfDone(turn, id);
    next = sessions.upper_bound(id);
  }
}

void LeaveOpen(Turn& turn, SessionRecord& session, const ObjectId& object) {
  const auto open = turn.index.open.find(session.id);
  if (open == turn.index.open.end()) return;
  open->second.erase(object);
  if (!open->second.empty()) return;
  turn.index.open.erase(open);
  if (session.ended) SetDeadline(turn, session, absl::InfiniteFuture());
}

std::optional<Outcome> AnswerWithoutActing(const Records& records, const ClientRequest& event) {
  const auto found = records.sessions.find(event.session);
  if (found == records.sessions.end() || found->second.ended) {
    return Refuse(NdkStatus::kObjectNameNotFound, "session ", event.session.value(), ": has ended; open a new one");
  }
  const SessionRecord& session = found->second;
  if (!event.id) return Refuse(NdkStatus::kInvalidParameter, "request_id: 0 names no request; count from 1");
  if (const auto kept = FindAnswer(session, event.id); kept != session.answers.end() && kept->id == event.id) {
    if (!kept->request || *kept->request == DigestOf(event.request)) return kept->outcome;
    return Refuse(NdkStatus::kInvalidParameter, "request_id: ", event.id.value(),
                  " was another request's; give every new request a new number");
  }
  if (IsForgotten(session, event.id)) {
    return Refuse(NdkStatus::kInvalidParameter, "request_id: ", event.id.value(), " is more than ",
                  session.answers_kept, " behind the newest; its answer, if it had one, is forgotten");
  }
  return std::nullopt;
}

Outcome TakeAcknowledgement(Turn& turn, const ClientRequest& event) {
  SessionRecord& session = turn.records.sessions.at(event.session);
  if (Acknowledge(turn, session, event.acknowledged)) return Done();
  return Refuse(NdkStatus::kInvalidParameter, "acknowledged_event: ", event.acknowledged.value(), " is beyond event ",
                session.last_event.value(), ", the last one");
}

void Give(Turn& turn, const ClientRequest& event, Outcome outcome) {
  SessionRecord* const session = FindLive(turn, event.session);
  // A refused request has done nothing and may be repeated, so a full user's refusals are not kept.
  const bool refused = !IsSuccess(outcome.status) && outcome.status != NdkStatus::kPending;
  if (session != nullptr && !(refused && IsFull(turn, session->identity.uid))) {
    session->newest_request = std::max(session->newest_request, event.id);
    const uint32_t uid = session->identity.uid;
    KeptAnswer answer{event.id, DigestOf(event.request), outcome};
    turn.index.ledger.Charge(uid, BytesOf(answer));
    session->answers.insert(FindAnswer(*session, event.id), std::move(answer));
    for (; IsForgotten(*session, session->answers.front().id); session->answers.pop_front()) {
      turn.index.ledger.Release(uid, BytesOf(session->answers.front()));
    }
  }
  turn.Emit(Answer{event.session, event.id, std::move(outcome)});
}

void Notify(Turn& turn, ObjectRecord& object, SessionEvent event) {
  SessionRecord& session = turn.records.sessions.at(object.session);
  if (session.ended) return;
  session.last_event = EventNumber(session.last_event.value() + 1);
  object.last_event = session.last_event;
  turn.Emit(NumberedEvent{session.id, session.stream, session.last_event, event});
  turn.index.ledger.Charge(session.identity.uid, BytesOf(event));
  session.events.push_back(std::move(event));
}

void Complete(Turn& turn, ObjectRecord& object, RequestId& request, Outcome outcome) {
  if (!request) return;
  Notify(turn, object, OutcomeEvent{std::exchange(request, RequestId()), std::move(outcome)});
}

bool IsOverwhelmed(const Turn& turn, const SessionRecord& session) {
  return session.unacknowledged() >= turn.limits.events_kept;
}

std::optional<Outcome> RefuseIfFull(const Turn& turn, uint32_t uid) {
  if (!IsFull(turn, uid)) return std::nullopt;
  return Refuse(NdkStatus::kInsufficientResources, "uid ", uid, ": the broker keeps ", turn.limits.kept_bytes_per_uid,
                " bytes for its sessions already; acknowledge events, close objects, or raise kept_bytes_per_uid");
}

void ForgetIfDone(Turn& turn, SessionId id) {
  const auto session = turn.records.sessions.find(id);
  if (session == turn.records.sessions.end() || !session->second.ended) return;
  if (turn.index.owned.contains(id) || session->second.has_leftovers()) return;
  const uint32_t uid = session->second.identity.uid;
  turn.index.lists.sessions.Remove(uid, id);
  turn.index.ledger.Release(uid, BytesOf(session->second));
  turn.records.sessions.erase(session);
}

}  // namespace rdmabroker
