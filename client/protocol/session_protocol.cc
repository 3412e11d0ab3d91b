// SPDX-License-Identifier: Apache-2.0

#include "client/protocol/session_protocol.h"

#include <algorithm>
#include <utility>

#include "client/translation.h"

namespace rdmabroker::client {
namespace {

using std::chrono::milliseconds;

// The version of the wire contract that this library is written against, and what it knows of it (session.proto).
constexpr uint32_t kApiMinor = 2;
constexpr const char* kFeatures[] = {"listener-address-events", "endpoint-address-events", kRequestsOnStream};

// Requests acknowledge as well. The broker keeps thousands of events; a client that has made none for so long says
// something.
constexpr milliseconds kAcknowledgeAfter{50};
constexpr uint64_t kAcknowledgeBeyond = 256;

// Between attempts to open a session, or to return to it.
constexpr milliseconds kFirstWait{10};
constexpr milliseconds kLongestWait{1000};
constexpr milliseconds kLongestGrace{24 * 60 * 60 * 1000};  // Whatever the broker says.

// The broker answers at once. It is stuck if it takes no request for this long, so many times in a row. HandleTime
// counts them: a process that was stopped, or whose callback took long, still gets the answers that came meanwhile.
constexpr milliseconds kSilence{10'000};
constexpr int kMostSilences = 6;

// If so many streams in a row are lost with requests under way of which none is taken, for longer than the grace
// period, then a request probably ends each broker. The session ends, so that its request does not go on with that.
constexpr int kMostFruitless = 8;

// A broker that does not end the stream by then is not waited for: its end of the connection tells it the same.
constexpr milliseconds kCloseDeadline{2000};

template <typename Greeting>
void Greet(Greeting& greeting) {
  greeting.set_api_minor(kApiMinor);
  for (const char* const feature : kFeatures) greeting.add_features(feature);
}

// The broker says so where it is stopping, or keeps a session whose stream it ends (broker.proto, Session).
bool SaysReturn(const v1::Outcome& message) {
  const Outcome outcome = FromMessage(message);
  return outcome.status == NdkStatus::kConnectionDisconnected && outcome.retryable;
}

// Whether the session may go on after the stream's end: the broker says so, or it says nothing because it has gone, and
// another process goes on in its place.
bool KeepsSession(const StreamEnd& end) { return !end.outcome.has_value() || SaysReturn(*end.outcome); }

}  // namespace

SessionProtocol::SessionProtocol(Transport& transport, Owner& owner, Settings settings, RandomBackOff back_off)
    : transport_(transport), owner_(owner), settings_(std::move(settings)), back_off_(back_off) {}

void SessionProtocol::Open(Instant now) {
  deadline_ = now + settings_.open_timeout;
  Return();
}

void SessionProtocol::Ask(v1::BatchedRequest request, RequestQueue::Done done, Instant now) {
  requests_.Add(std::move(request), std::move(done));
  Pump(now);
}

bool SessionProtocol::Close(Instant now) {
  const State before = std::exchange(state_, State::kClosing);
  StopWaiting();
  if (before != State::kOpen && before != State::kAway) return false;
  deadline_ = now + kCloseDeadline;
  close_to_send_ = true;
  returns_to_close_ = before == State::kAway;
  if (returns_to_close_ && !streaming_) ScheduleReturn(now);
  Pump(now);
  return true;
}

void SessionProtocol::FinishClose() {
  if (state_ == State::kOver) return;
  state_ = State::kOver;
  StopWaiting();
  AbandonStream();
  requests_.End({.status = NdkStatus::kCancelled, .hint = "the session was closed"});
  owner_.Closed();
}

void SessionProtocol::Sent(Instant now) {
  busy_ = false;
  Pump(now);
}

void SessionProtocol::Received(const v1::SessionReply& reply, Instant now) {
  handling_ = true;
  if (reply.has_opened()) {
    HandleOpened(reply.opened(), now);
  } else if (reply.has_batch()) {
    HandleBatch(reply.batch(), now);
  } else if (reply.has_event()) {
    HandleEvent(reply.event(), now);
  }
  handling_ = false;
  Pump(now);
}

void SessionProtocol::HandleOpened(const v1::SessionOpened& opened, Instant now) {
  const bool first = state_ == State::kOpening && opened.session_id() != 0;
  if (first) {
    session_ = opened;
    requests_.SetWindow(opened.limits().answers_kept());
  } else if ((state_ != State::kAway && !returns_to_close_) || opened.session_id() != session_.session_id()) {
    return End(BrokenPromise("opens a session that was not asked for"));
  }
  if (std::exchange(returns_to_close_, false)) return;
  state_ = State::kOpen;
  if (fruitless_ == 0) returns_ = 0;
  deadline_ = kNever;
  requests_.SendAgain();
  AwaitAnswers(now);
  if (first) owner_.Opened();
}

void SessionProtocol::HandleBatch(const v1::ReplyBatch& batch, Instant now) {
  if (state_ != State::kOpen && state_ != State::kClosing) return;
  for (const v1::BatchedAnswer& answer : batch.answers()) requests_.Finish(answer.request_id(), answer.outcome());
  const uint64_t before = requests_.taken();
  requests_.Took(batch.requests_taken());
  if (requests_.taken() != before) {
    fruitless_ = 0;
    returns_ = 0;
    AwaitAnswers(now);
  }
  for (const v1::SessionEvent& event : batch.events()) HandleEvent(event, now);
}

void SessionProtocol::HandleEvent(const v1::SessionEvent& event, Instant now) {
  if (state_ != State::kOpen && state_ != State::kClosing) return;
  if (event.number() <= last_event_) return;  // Seen before the stream was lost.
  if (event.has_outcome()) {
    requests_.Finish(event.outcome().request_id(), event.outcome().outcome());
  } else {
    owner_.Happened(event);
  }
  if (state_ == State::kOver) return;
  last_event_ = event.number();
  if (last_event_ - told_ >= kAcknowledgeBeyond) acknowledge_now_ = true;
  if (acknowledge_at_ != kNever) return;
  acknowledge_at_ = now + kAcknowledgeAfter;
  told_then_ = told_;
}

void SessionProtocol::StreamEnded(const StreamEnd& end, Instant now) {
  streaming_ = busy_ = false;
  if (state_ == State::kOver) return;
  if (state_ == State::kClosing) {
    // A broker that goes away may not have heard of it, and the next one would keep the session.
    returns_to_close_ = returns_to_close_ ? KeepsSession(end) : AnotherBrokerMayCome(end);
    if (!returns_to_close_) return FinishClose();
    close_to_send_ = true;
    return ScheduleReturn(now);
  }
  const Outcome outcome = OutcomeOf(end);
  if (state_ == State::kOpening && AnotherBrokerMayCome(end)) {
    turned_away_ = outcome;
    return ScheduleReturn(now);
  }
  if (state_ == State::kOpening || !KeepsSession(end)) {
    if (state_ != State::kAway) return End(outcome);
    forgotten_ = end.outcome.has_value() && FromMessage(*end.outcome).status == NdkStatus::kObjectNameNotFound;
    return End({.status = NdkStatus::kConnectionDisconnected, .hint = "the session is over: " + outcome.hint});
  }
  if (state_ == State::kOpen) {
    const auto grace = std::min(milliseconds(session_.limits().session_grace_ms()), kLongestGrace);
    if (requests_.unanswered() && fruitless_++ == 0) fruitless_since_ = now;
    if (fruitless_ >= kMostFruitless && now - fruitless_since_ >= grace) {
      return End({.status = NdkStatus::kConnectionDisconnected,
                  .hint = "brokers go again and again without an answer to this session's requests; see their logs"});
    }
    state_ = State::kAway;
    answer_by_ = acknowledge_at_ = kNever;
    deadline_ = now + grace;
  }
  ScheduleReturn(now);
}

bool SessionProtocol::AnotherBrokerMayCome(const StreamEnd& end) {
  const bool going = end.outcome.has_value() ? SaysReturn(*end.outcome) : end.gone;
  return going && transport_.SomebodyListens();
}

Outcome SessionProtocol::OutcomeOf(const StreamEnd& end) const {
  if (end.outcome.has_value()) return FromMessage(*end.outcome);
  if (state_ == State::kOpening && !end.gone) return BrokenPromise("to a new session is not one: " + end.text);
  if (state_ == State::kOpening) return transport_.NoBroker();
  return {.status = NdkStatus::kConnectionDisconnected, .hint = "the broker has gone"};
}

void SessionProtocol::ScheduleReturn(Instant now) {
  return_at_ = now + back_off_(kFirstWait, kLongestWait, returns_++);
}

void SessionProtocol::Return() {
  v1::SessionRequest first;
  if (state_ == State::kOpening) {
    Greet(*first.mutable_open());
  } else {
    v1::ResumeSession& resume = *first.mutable_resume();
    Greet(resume);
    resume.set_session_id(session_.session_id());
    resume.set_session_secret(session_.session_secret());
    resume.set_acknowledged_event(last_event_);
    resume.set_lineage(session_.lineage());
    told_ = last_event_;
  }
  streaming_ = busy_ = true;
  transport_.Start(first);
}

SessionProtocol::Instant SessionProtocol::NextDeadline() const {
  return std::min({acknowledge_at_, return_at_, deadline_, answer_by_});
}

void SessionProtocol::HandleTime(Instant now) {
  if (return_at_ <= now) {
    return_at_ = kNever;
    Return();
  }
  if (acknowledge_at_ <= now) HandleAcknowledgeTime(now);
  if (deadline_ <= now) HandleDeadline();
  if (answer_by_ <= now) HandleSilence(now);
  Pump(now);
}

void SessionProtocol::HandleSilence(Instant now) {
  if (!requests_.unanswered()) return AwaitAnswers(now);
  answer_by_ = now + kSilence;
  if (++silences_ < kMostSilences) return;
  End({.status = NdkStatus::kConnectionDisconnected,
       .hint = "the broker does not answer; open a new session when it does"});
}

void SessionProtocol::HandleDeadline() {
  deadline_ = kNever;
  const std::string& socket = settings_.control_socket;
  if (state_ == State::kClosing) return FinishClose();
  if (state_ == State::kOpening) {
    return End(turned_away_.value_or(
        Outcome{.status = NdkStatus::kIoTimeout, .hint = "the broker on " + socket + " does not answer"}));
  }
  End({.status = NdkStatus::kConnectionDisconnected,
       .hint = "the session is over: no broker on " + socket +
               " has gone on with it in time; open a new one when there is one"});
}

void SessionProtocol::HandleAcknowledgeTime(Instant now) {
  acknowledge_at_ = kNever;
  if (told_ == last_event_) return;
  // A client that makes requests acknowledges by them.
  acknowledge_now_ = acknowledge_now_ || told_ == told_then_;
  acknowledge_at_ = now + kAcknowledgeAfter;
  told_then_ = told_;
}

void SessionProtocol::AwaitAnswers(Instant now) {
  answer_by_ = requests_.unanswered() ? now + kSilence : kNever;
  silences_ = 0;
}

void SessionProtocol::Pump(Instant now) {
  if (handling_) return;
  v1::SessionRequest message;
  while (streaming_ && !busy_ && FillNext(&message, now)) busy_ = !transport_.Send(message);
}

bool SessionProtocol::FillNext(v1::SessionRequest* message, Instant now) {
  message->Clear();
  // Before the session is returned to, nothing else can be said.
  if (state_ != State::kOpen && (!close_to_send_ || returns_to_close_)) return false;
  if (requests_.Fill(message->mutable_requests())) {
    message->mutable_requests()->set_acknowledged_event(last_event_);
    if (answer_by_ == kNever && state_ == State::kOpen) AwaitAnswers(now);
  } else if (std::exchange(close_to_send_, false)) {
    message->mutable_close();
  } else if (acknowledge_now_ && told_ != last_event_) {
    message->mutable_acknowledge()->set_acknowledged_event(last_event_);
  } else {
    return false;
  }
  acknowledge_now_ = false;
  told_ = last_event_;
  return true;
}

void SessionProtocol::StopWaiting() { acknowledge_at_ = return_at_ = deadline_ = answer_by_ = kNever; }

void SessionProtocol::AbandonStream() {
  if (std::exchange(streaming_, false)) transport_.Abandon();
}

void SessionProtocol::End(const Outcome& outcome) {
  if (state_ == State::kOver) return;
  if (state_ == State::kClosing) return FinishClose();
  state_ = State::kOver;
  StopWaiting();
  AbandonStream();
  owner_.Over(outcome);
  requests_.End(outcome);
  owner_.Ended(outcome);
}

}  // namespace rdmabroker::client
