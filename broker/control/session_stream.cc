// SPDX-License-Identifier: Apache-2.0

#include "broker/control/session_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "broker/control/served_connection.h"
#include "broker/control/status_mapping.h"
#include "broker/control/translation.h"
#include "broker/control/transport_ends.h"
#include "broker/control/unary_call.h"
#include "broker/core/request_names.h"
#include "broker/log/log.h"
#include "broker/runtime/randomness.h"

namespace rdmabroker {
namespace {

// Requests of one session that are handled before it is others' turn, and answers that wait for a client which does not
// read: each costs some microseconds and at most some KiB.
constexpr int kTurn = UserTurns::kShare;

// Dropping, or sending a returned client, this many events takes about as long as a request.
constexpr size_t kEventsAsARequest = 16;

// Ending a session needs a commit of its own. That takes as long as this many requests.
constexpr int64_t kOfEnd = 8;

// Octets of memory of an answer that waits, with room for the longest hint: rounded up.
constexpr size_t kOfAnswer = 1024;

Outcome Malformed(const std::string& hint) { return {.status = NdkStatus::kInvalidParameter, .hint = hint}; }

Outcome OutcomeOf(StreamEnding ending) {
  switch (ending) {
    case StreamEnding::kClosed:
      return {};
    case StreamEnding::kEnded:
      return {.status = NdkStatus::kRequestAborted,
              .hint = "session: ended by an administrator, or it moved to another stream"};
    case StreamEnding::kStopping:
      return {.status = NdkStatus::kConnectionDisconnected,
              .retryable = true,
              .hint = "session: the broker is stopping; return when it runs again"};
  }
  return {.status = NdkStatus::kInternalError};
}

}  // namespace

void SessionStream::Serve(Services& services, Context& context) {
  const auto begin = [&context](const BegunCall& call) {
    std::shared_ptr<const Caller> caller;
    const rpc::Status admitted = call.connection.port().Admit(call.connection, "Session", &caller);
    if (!admitted.ok()) return call.connection.Finish(call.id, admitted);
    const auto stream = std::make_shared<SessionStream>(context, call, std::move(caller));
    call.connection.Open(call.id, stream);
    stream->Start();
  };
  services.Add(PathOf(v1::SessionRequest::descriptor()), rpc::Requests::kMany, {.begin = begin});
}

SessionStream::SessionStream(Context& context, const BegunCall& call, std::shared_ptr<const Caller> caller)
    : ServerStream(call.connection, call.id, context.loop, context.patience),
      context_(context),
      caller_(std::move(caller)) {}

SessionStream::~SessionStream() { loop().CancelTimer(greeting_); }

void SessionStream::Start() {
  if (caller_->IsRemote()) {
    AuditEntry entry{.action = "Session", .caller = caller_.get(), .rule = "tcp"};
    if (caller_->peer) entry.use.destination = *caller_->peer;
    context_.broker.gate().Administered(false, entry, Loop::Now());
    return Refuse({.status = NdkStatus::kAccessDenied,
                   .hint = "session: sessions are opened on the control socket of the broker's node only"});
  }
  greeting_ = loop().StartTimer(Loop::Now() + context_.patience, [this] {
    greeting_ = TimerId::kNone;
    FinishWith(Malformed("message: neither open nor resume came in time"));
  });
  Read();
}

void SessionStream::TakeMessage(const std::string& message) {
  if (const rpc::Status read = ReadMessage(message, &message_); !read.ok()) {
    ForgetMessage();
    LeaveSession(StreamEnd::kBroker);
    return Finish(read);
  }
  next_request_ = 0;
  // The stream is ending: messages that still arrive are ignored.
  if (last_) return ForgetMessage();
  if (!message_.has_requests()) Charge(1);
  if (session_) {
    TakeLaterMessage();
  } else if (!std::exchange(greeted_, true)) {
    OpenOrResume();
  }
  GoOn();
}

void SessionStream::TakeHalfClose() {
  if (!last_) last_ = rpc::Status();
  FinishOnceAnswered();
}

void SessionStream::FinishOnceAnswered() {
  if (replies_.HasAnswers()) SendNext();
  if (writing() && replies_.HasAnswers()) return;
  LeaveSession(StreamEnd::kClient);
  Finish(*last_);
}

void SessionStream::OpenOrResume() {
  loop().CancelTimer(std::exchange(greeting_, TimerId::kNone));
  const bool resumes = message_.has_resume();
  if (!resumes && !message_.has_open()) {
    return FinishWith(Malformed("message: the first one must be open or resume"));
  }
  const v1::ResumeSession& resume = message_.resume();
  const auto features = resumes ? ReadFeatures(resume.api_minor(), resume.features())
                                : ReadFeatures(message_.open().api_minor(), message_.open().features());
  if (const auto* malformed = std::get_if<Outcome>(&features)) return FinishWith(*malformed);
  features_ = std::get<Features>(features);
  SessionSecret secret = {};
  Broker::Opened opened;
  if (resumes) {
    if (!SecretFromBytes(resume.session_secret(), &secret)) {
      return FinishWith(Malformed("resume.session_secret: not 16 bytes"));
    }
    sent_ = EventNumber(resume.acknowledged_event());
    opened = context_.broker.Resume(*this, caller_, SessionId(resume.session_id()), secret, sent_, resume.lineage(),
                                    NewsFor(features_));
  } else {
    secret = RandomSecret();
    opened = context_.broker.Open(*this, caller_, secret, NewsFor(features_));
  }
  if (const auto* refusal = std::get_if<Outcome>(&opened)) return Refuse(*refusal);
  session_ = std::get<SessionId>(opened);
  Owe(static_cast<int64_t>(Session()->unacknowledged() / kEventsAsARequest));
  SendOpened(resumes, secret);
}

void SessionStream::SendOpened(bool resumed, const SessionSecret& secret) {
  v1::SessionReply reply;
  v1::SessionOpened* opened = reply.mutable_opened();
  ToProto(features_, opened);
  opened->set_session_id(session_.value());
  if (!resumed) opened->set_session_secret(BytesToProto(secret));
  opened->set_api_minor(kApiMinor);
  ToProto(context_.broker.core().limits(), opened->mutable_limits());
  opened->mutable_limits()->set_answers_kept(Session()->answers_kept);
  opened->set_lineage(context_.broker.core().records().lineage);
  Write(reply);
}

void SessionStream::TakeLaterMessage() {
  if (message_.has_close()) {
    Charge(kOfEnd);
    context_.broker.EndSession(std::exchange(session_, SessionId()), StreamEnding::kClosed);
    return;
  }
  const EventNumber through(message_.acknowledge().acknowledged_event());
  const bool acknowledges = message_.has_acknowledge();
  OweFor(acknowledges ? through : EventNumber(message_.requests().acknowledged_event()));
  if (acknowledges && context_.broker.Acknowledge(session_, through)) return;
  const int requests = message_.requests().requests_size();
  const SessionRecord* const session = Session();
  const uint32_t most = session == nullptr ? 0 : session->answers_kept;
  if (features_.requests_on_stream && requests > 0 && requests <= static_cast<int64_t>(most)) return TakeRequests();
  std::string cause = "message: neither acknowledge nor requests nor close";
  if (acknowledges) cause = absl::StrCat("acknowledge.acknowledged_event: ", through.value(), " was never sent");
  if (message_.has_requests()) {
    cause = features_.requests_on_stream
                ? absl::StrCat("requests: ", requests, " in a batch; 1 to ", most, ", as Limits.answers_kept says")
                : "requests: the client has not named \"requests-on-stream\"";
  }
  LeaveSession(StreamEnd::kBroker);
  FinishWith(Malformed(cause));
}

void SessionStream::TakeRequests() {
  const v1::RequestBatch& batch = message_.requests();
  const int end = std::min(batch.requests_size(), next_request_ + kTurn);
  Charge(end - next_request_);
  for (; next_request_ < end; ++next_request_) {
    const v1::BatchedRequest& item = batch.requests(next_request_);
    Translated translated = FromProto(item);
    if (const auto* malformed = std::get_if<Outcome>(&translated)) {
      context_.metrics.CountRequest(NameOf(item), malformed->status);
      replies_.Answer(item.request_id(), *malformed);
      continue;
    }
    ++unanswered_;
    context_.broker.Ask(*this, {.session = session_,
                                .id = RequestId(item.request_id()),
                                .acknowledged = EventNumber(batch.acknowledged_event()),
                                .request = std::get<Request>(std::move(translated))});
  }
  last_asked_ = batch.requests(end - 1).request_id();
  if (unanswered_ == 0) AllAnswered();
}

void SessionStream::Answered(const ClientRequest& request, const Outcome& outcome) {
  context_.metrics.CountRequest(kRequestNames[request.request.index()], outcome.status);
  replies_.Answer(request.id.value(), outcome);
  if (--unanswered_ > 0) return;
  AllAnswered();
  GoOn();
}

void SessionStream::AllAnswered() {
  replies_.Took(last_asked_);
  SendSoon();
}

void SessionStream::GoOn() {
  if (finishing() || !session_ || !HasMoreToAsk()) ForgetMessage();
  if (finishing()) return;
  held_up_ = writing() && replies_.waiting() >= kTurn;
  if (held_up_ || unanswered_ > 0) return;
  if (!HasMoreToAsk()) return Read();
  InTurn([this] {
    if (!session_) return;
    TakeRequests();
    GoOn();
  });
}

void SessionStream::OweFor(EventNumber acknowledged) {
  const SessionRecord* const session = Session();
  if (session == nullptr || acknowledged <= session->acknowledged || acknowledged > session->last_event) return;
  Owe(static_cast<int64_t>((acknowledged.value() - session->acknowledged.value()) / kEventsAsARequest));
}

void SessionStream::ForgetMessage() {
  // Clear would keep memory.
  message_ = v1::SessionRequest();
  next_request_ = 0;
}

size_t SessionStream::held() const { return message_.requests().SpaceUsedLong() + replies_.waiting() * kOfAnswer; }

const SessionRecord* SessionStream::Session() const {
  const auto& sessions = context_.broker.core().records().sessions;
  const auto found = sessions.find(session_);
  return found == sessions.end() ? nullptr : &found->second;
}

void SessionStream::SendSoon() {
  if (std::exchange(sends_soon_, true)) return;
  loop().AtTurnEnd(Loop::Stage::kReply, [weak = weak_from_this(), this] {
    const auto self = weak.lock();
    if (!self) return;
    sends_soon_ = false;
    SendNext();
  });
}

void SessionStream::SendNext() {
  if (writing() || finishing()) return;
  const SessionRecord* const session = SessionWithEvents();
  // What the client has acknowledged already, by another request's number, need not be sent.
  if (session != nullptr) sent_ = std::max(sent_, session->acknowledged);
  const EventNumber before = sent_;
  v1::SessionReply reply;
  const bool said = features_.requests_on_stream ? replies_.Fill(session, &sent_, &reply) : FillEvent(session, &reply);
  if (!said) return;
  context_.metrics.CountEvents(sent_.value() - before.value());
  Write(reply);
}

const SessionRecord* SessionStream::SessionWithEvents() const {
  const SessionRecord* const session = Session();
  // The core drops the events of a session that ends.
  return session == nullptr || session->ended ? nullptr : session;
}

bool SessionStream::FillEvent(const SessionRecord* session, v1::SessionReply* reply) {
  if (session == nullptr || sent_ == session->last_event) return false;
  *reply->mutable_event() = NextEvent(*session, &sent_);
  return true;
}

void SessionStream::Written() {
  if (last_) return FinishOnceAnswered();
  SendNext();
  if (held_up_) GoOn();
}

void SessionStream::End(StreamEnding ending) {
  SendNext();
  session_ = SessionId();
  last_ = RpcStatusOf(OutcomeOf(ending));
  FinishOnceAnswered();
}

void SessionStream::Ended(std::optional<rpc::CallLost::Why> why) {
  loop().CancelTimer(std::exchange(greeting_, TimerId::kNone));
  LeaveSession(why ? EndOf(*why, features_, caller_->identity) : StreamEnd::kBroker);
}

void SessionStream::Refuse(const Outcome& refusal) {
  context_.metrics.CountRefusedSession(refusal.status);
  FinishWith(refusal);
}

void SessionStream::FinishWith(const Outcome& outcome) { Finish(RpcStatusOf(outcome)); }

void SessionStream::Unread() {
  if (const auto left_out = context_.unread.Pass(Loop::Now())) {
    LogWarning("stream ended, as the client does not read", {{"session", session_.value()}, {"left_out", *left_out}});
  }
  LeaveSession(last_ ? StreamEnd::kClient : StreamEnd::kBroker);
}

void SessionStream::LeaveSession(StreamEnd end) {
  // First: the broker must not hear of it twice.
  if (!std::exchange(session_, SessionId())) return;
  Charge(kOfEnd);
  context_.broker.CloseStream(*this, end);
}

}  // namespace rdmabroker
