// SPDX-License-Identifier: Apache-2.0

#include "broker/control/session_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "broker/control/status_mapping.h"
#include "broker/control/translation.h"
#include "broker/core/request_names.h"
#include "broker/log/log.h"
#include "broker/runtime/randomness.h"

namespace rdmabroker {
namespace {

// Requests of one session that are handled before it is others' turn, and answers that wait for a client which does not
// read: each costs some microseconds and at most some KiB.
constexpr int kTurn = 64;

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

void SessionStream::Serve(Context& context) { std::make_shared<SessionStream>(context)->Wait(); }

void SessionStream::Wait() {
  const auto self = shared_from_this();
  // gRPC tells of the call's end only if the call came.
  void* done = context_.unary.loop.Tag([self](bool) { self->LeaveSession(StreamEnd::kClient); });
  call_.AsyncNotifyWhenDone(done);
  auto* queue = context_.unary.loop.queue();
  context_.service.RequestSession(&call_, &stream_, queue, queue, context_.unary.loop.Tag([self, done](bool ok) {
    if (!ok) self->context_.unary.loop.Drop(done);
    self->Start(ok);
  }));
}

void SessionStream::Start(bool ok) {
  if (!ok) return;
  Serve(context_);
  const grpc::Status admitted = context_.unary.Admit(call_, "Session", &caller_);
  if (!admitted.ok()) return Finish(admitted);
  if (!caller_ || caller_->IsRemote()) {
    if (caller_) context_.unary.LogRefusal(call_, "Session", caller_.get());
    return Refuse({.status = NdkStatus::kAccessDenied,
                   .hint = "session: sessions are opened on the control socket of the broker's node only"});
  }
  patience_ = context_.watcher.StartTimer(Watcher::Now() + context_.patience, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self) self->Finish(GrpcStatusOf(Malformed("message: neither open nor resume came in time")));
  });
  Read();
}

void SessionStream::Read() {
  // What was in the last message is not kept until the next one comes.
  message_.Clear();
  stream_.Read(&message_, context_.unary.loop.Tag([self = shared_from_this()](bool ok) { self->TakeMessage(ok); }));
}

void SessionStream::TakeMessage(bool ok) {
  if (finishing_) return;
  if (!ok) {
    // The client has closed its side, or is gone; then nobody sees the status.
    half_closed_ = true;
    return LeaveOnceAnswered();
  }
  next_request_ = 0;
  if (session_) {
    TakeLaterMessage();
  } else if (!std::exchange(greeted_, true)) {
    OpenOrResume();
  }
  GoOn();
}

void SessionStream::LeaveOnceAnswered() {
  if (replies_.HasAnswers()) SendNext();
  if (writing_ && replies_.HasAnswers()) return;
  LeaveSession(abandoned_ ? StreamEnd::kBroker : StreamEnd::kClient);
  Finish(grpc::Status::OK);
}

void SessionStream::OpenOrResume() {
  context_.watcher.CancelTimer(std::exchange(patience_, TimerId::kNone));
  const bool resumes = message_.has_resume();
  if (!resumes && !message_.has_open()) {
    return Finish(GrpcStatusOf(Malformed("message: the first one must be open or resume")));
  }
  const v1::ResumeSession& resume = message_.resume();
  const auto features = resumes ? ReadFeatures(resume.api_minor(), resume.features())
                                : ReadFeatures(message_.open().api_minor(), message_.open().features());
  if (const auto* malformed = std::get_if<Outcome>(&features)) return Finish(GrpcStatusOf(*malformed));
  features_ = std::get<Features>(features);
  SessionSecret secret = {};
  Broker::Opened opened;
  if (resumes) {
    if (!SecretFromBytes(resume.session_secret(), &secret)) {
      return Finish(GrpcStatusOf(Malformed("resume.session_secret: not 16 bytes")));
    }
    sent_ = EventNumber(resume.acknowledged_event());
    opened = context_.broker.Resume(*this, caller_, SessionId(resume.session_id()), secret, sent_, resume.lineage(),
                                    features_.address_events);
  } else {
    secret = RandomSecret();
    opened = context_.broker.Open(*this, caller_, secret, features_.address_events);
  }
  if (const auto* refusal = std::get_if<Outcome>(&opened)) return Refuse(*refusal);
  session_ = std::get<SessionId>(opened);
  SendOpened(resumes, secret);
}

void SessionStream::SendOpened(bool resumed, const SessionSecret& secret) {
  v1::SessionOpened* opened = reply_.mutable_opened();
  ToProto(features_, opened);
  opened->set_session_id(session_.value());
  if (!resumed) opened->set_session_secret(BytesToProto(secret));
  opened->set_api_minor(kApiMinor);
  ToProto(context_.broker.core().limits(), opened->mutable_limits());
  opened->set_lineage(context_.broker.core().records().lineage);
  Write();
}

void SessionStream::TakeLaterMessage() {
  if (message_.has_close()) {
    context_.broker.EndSession(std::exchange(session_, SessionId()), StreamEnding::kClosed);
    return;
  }
  const EventNumber through(message_.acknowledge().acknowledged_event());
  const bool acknowledges = message_.has_acknowledge();
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
  const Outcome refusal = Malformed(cause);
  LeaveSession(StreamEnd::kBroker);
  Finish(GrpcStatusOf(refusal));
}

void SessionStream::TakeRequests() {
  const v1::RequestBatch& batch = message_.requests();
  const int end = std::min(batch.requests_size(), next_request_ + kTurn);
  std::vector<ClientRequest> asked;
  for (; next_request_ < end; ++next_request_) {
    const v1::BatchedRequest& item = batch.requests(next_request_);
    Translated translated = FromProto(item);
    if (const auto* malformed = std::get_if<Outcome>(&translated)) {
      context_.unary.metrics.CountRequest(NameOf(item), malformed->status);
      replies_.Answer(item.request_id(), *malformed);
      continue;
    }
    asked.push_back({.session = session_,
                     .id = RequestId(item.request_id()),
                     .acknowledged = EventNumber(batch.acknowledged_event()),
                     .request = std::get<Request>(std::move(translated))});
  }
  taking_ = true;
  context_.broker.AskAll(*this, std::move(asked));
  taking_ = false;
  replies_.Took(batch.requests(end - 1).request_id());
  SendNext();
}

void SessionStream::Answered(const ClientRequest& request, const Outcome& outcome) {
  context_.unary.metrics.CountRequest(kRequestNames[request.request.index()], outcome.status);
  replies_.Answer(request.id.value(), outcome);
}

void SessionStream::GoOn() {
  if (finishing_) return;
  held_up_ = writing_ && replies_.waiting() >= kTurn;
  if (held_up_) return;
  // Reading also tells of the client's end.
  if (!session_ || next_request_ == message_.requests().requests_size()) return Read();
  context_.unary.loop.Post([self = shared_from_this()] {
    if (self->session_) self->TakeRequests();
    self->GoOn();
  });
}

const SessionRecord* SessionStream::Session() const {
  const auto& sessions = context_.broker.core().records().sessions;
  const auto found = sessions.find(session_);
  return found == sessions.end() ? nullptr : &found->second;
}

void SessionStream::SendNext() {
  if (writing_ || finishing_ || taking_ || !session_) return;
  const SessionRecord* const session = Session();
  if (session == nullptr) return;
  // What the client has acknowledged already, by another request's number, need not be sent.
  sent_ = std::max(sent_, session->acknowledged);
  reply_.Clear();
  const bool said = features_.requests_on_stream ? replies_.Fill(*session, &sent_, &reply_) : FillEvent(*session);
  if (said) Write();
}

bool SessionStream::FillEvent(const SessionRecord& session) {
  if (sent_ == session.last_event) return false;
  *reply_.mutable_event() = NextEvent(session, &sent_);
  return true;
}

void SessionStream::Write() {
  writing_ = true;
  patience_ = context_.watcher.StartTimer(Watcher::Now() + context_.patience, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Abandon();
  });
  stream_.Write(reply_, context_.unary.loop.Tag([self = shared_from_this()](bool ok) { self->Written(ok); }));
}

void SessionStream::Written(bool ok) {
  writing_ = false;
  context_.watcher.CancelTimer(std::exchange(patience_, TimerId::kNone));
  if (finishing_) return FinishNow();
  // A failed write is the client's end, which the reading side and the call's done notification tell of.
  if (half_closed_) return LeaveOnceAnswered();
  if (ok) SendNext();
  if (held_up_) GoOn();
}

void SessionStream::End(StreamEnding ending) {
  session_ = SessionId();
  Finish(GrpcStatusOf(OutcomeOf(ending)));
}

void SessionStream::Refuse(const Outcome& refusal) {
  context_.unary.metrics.CountRefusedSession(refusal.status);
  Finish(GrpcStatusOf(refusal));
}

void SessionStream::Finish(grpc::Status status) {
  if (std::exchange(finishing_, true)) return;
  final_status_ = std::move(status);
  if (!writing_) FinishNow();
}

void SessionStream::FinishNow() {
  context_.watcher.CancelTimer(std::exchange(patience_, TimerId::kNone));
  stream_.Finish(final_status_, context_.unary.loop.Tag([self = shared_from_this()](bool) {}));
}

void SessionStream::Abandon() {
  patience_ = TimerId::kNone;
  if (const auto left_out = context_.unread.Pass(Watcher::Now())) {
    LogWarning("stream ended, as the client does not read", {{"session", session_.value()}, {"left_out", *left_out}});
  }
  abandoned_ = !half_closed_;
  LeaveSession(abandoned_ ? StreamEnd::kBroker : StreamEnd::kClient);
  call_.TryCancel();
}

void SessionStream::LeaveSession(StreamEnd end) {
  if (session_) context_.broker.CloseStream(*this, end);
  session_ = SessionId();
}

}  // namespace rdmabroker
