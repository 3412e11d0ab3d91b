// SPDX-License-Identifier: Apache-2.0

#include "broker/control/session_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "broker/control/status_mapping.h"
#include "broker/control/translation.h"
#include "broker/log/log.h"
#include "broker/runtime/randomness.h"

namespace rdmabroker {
namespace {

// The contract's minor version that this broker implements; broker.proto.
constexpr uint32_t kApiMinor = 1;
// session.proto, OpenSession.features.
constexpr int kMaxFeatures = 64;
constexpr size_t kMaxFeatureName = 63;
// session.proto, ListenerAddressEvent; the broker's only feature.
constexpr char kAddressEvents[] = "listener-address-events";

Outcome Malformed(const std::string& hint) { return {.status = NdkStatus::kInvalidParameter, .hint = hint}; }

// What `open` and `resume` say alike.
template <typename Message>
std::optional<Outcome> CheckGreeting(const Message& message) {
  if (message.api_minor() == 0) return Malformed("api_minor: missing; 1 is the first");
  if (message.features_size() > kMaxFeatures) return Malformed("features: more than 64 names");
  const bool fits = std::all_of(message.features().begin(), message.features().end(),
                                [](const std::string& name) { return name.size() <= kMaxFeatureName; });
  if (!fits) return Malformed("features: a name of more than 63 bytes");
  return std::nullopt;
}

template <typename Message>
bool HearsOfAddresses(const Message& greeting) {
  const auto& features = greeting.features();
  return std::find(features.begin(), features.end(), kAddressEvents) != features.end();
}

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
  stream_.Read(&message_, context_.unary.loop.Tag([self = shared_from_this()](bool ok) { self->TakeMessage(ok); }));
}

void SessionStream::TakeMessage(bool ok) {
  if (finishing_) return;
  if (!ok) {
    // The client has closed its side, or is gone; then nobody sees the status.
    LeaveSession(abandoned_ ? StreamEnd::kBroker : StreamEnd::kClient);
    return Finish(grpc::Status::OK);
  }
  if (session_) {
    TakeLaterMessage();
  } else {
    OpenOrResume();
  }
  if (!finishing_) Read();
}

void SessionStream::OpenOrResume() {
  context_.watcher.CancelTimer(std::exchange(patience_, TimerId::kNone));
  Broker::Opened opened;
  const bool resumes = message_.has_resume();
  SessionSecret secret = {};
  bool hears_of_addresses = false;
  if (message_.has_open()) {
    if (auto refusal = CheckGreeting(message_.open())) return Finish(GrpcStatusOf(*refusal));
    secret = RandomSecret();
    hears_of_addresses = HearsOfAddresses(message_.open());
    opened = context_.broker.Open(*this, caller_, secret, hears_of_addresses);
  } else if (resumes) {
    const v1::ResumeSession& resume = message_.resume();
    if (auto refusal = CheckGreeting(resume)) return Finish(GrpcStatusOf(*refusal));
    if (!SecretFromBytes(resume.session_secret(), &secret)) {
      return Finish(GrpcStatusOf(Malformed("resume.session_secret: not 16 bytes")));
    }
    sent_ = EventNumber(resume.acknowledged_event());
    hears_of_addresses = HearsOfAddresses(resume);
    opened = context_.broker.Resume(*this, caller_, SessionId(resume.session_id()), secret, sent_, resume.lineage(),
                                    hears_of_addresses);
  } else {
    return Finish(GrpcStatusOf(Malformed("message: the first one must be open or resume")));
  }
  if (const auto* refusal = std::get_if<Outcome>(&opened)) return Refuse(*refusal);
  session_ = std::get<SessionId>(opened);
  SendOpened(resumes, secret, hears_of_addresses);
}

void SessionStream::SendOpened(bool resumed, const SessionSecret& secret, bool hears_of_addresses) {
  v1::SessionOpened* opened = reply_.mutable_opened();
  if (hears_of_addresses) opened->add_features(kAddressEvents);
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
  const bool acknowledges = message_.has_acknowledge();
  const EventNumber through(message_.acknowledge().acknowledged_event());
  if (acknowledges && context_.broker.Acknowledge(session_, through)) return;
  const Outcome refusal =
      acknowledges ? Malformed(absl::StrCat("acknowledge.acknowledged_event: ", through.value(), " was never sent"))
                   : Malformed("message: neither acknowledge nor close");
  LeaveSession(StreamEnd::kBroker);
  Finish(GrpcStatusOf(refusal));
}

void SessionStream::SendNext() {
  if (writing_ || finishing_ || !session_) return;
  const auto& sessions = context_.broker.core().records().sessions;
  const auto session = sessions.find(session_);
  if (session == sessions.end()) return;
  // What the client has acknowledged already, by another request's number, need not be sent.
  sent_ = std::max(sent_, session->second.acknowledged);
  if (sent_ == session->second.last_event) return;
  const uint64_t offset = sent_.value() - session->second.acknowledged.value();
  sent_ = EventNumber(sent_.value() + 1);
  reply_.Clear();
  ToProto(NumberedEvent{session_, StreamId(), sent_, session->second.events[offset]}, reply_.mutable_event());
  Write();
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
  if (ok) SendNext();
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
  abandoned_ = true;
  LeaveSession(StreamEnd::kBroker);
  call_.TryCancel();
}

void SessionStream::LeaveSession(StreamEnd end) {
  if (session_) context_.broker.CloseStream(*this, end);
  session_ = SessionId();
}

}  // namespace rdmabroker
