// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <utility>

#include "client/adapter.h"
#include "client/connector.h"
#include "client/handoff.h"
#include "client/object_requests.h"
#include "client/qp_numbers.h"
#include "dataplane/catch_exceptions.h"
#include "dataplane/forked_child.h"
#include "dataplane/provider_error.h"
#include "dataplane/refusal.h"

namespace rdmabroker::client {

// On the passive side the steps carry what the peer offered; what this side asks for lowers it.
NdkStatus Connector::ApplyTransitions(const ReadLimits* lowered) {
  if (transitions_.empty()) return NdkStatus::kSuccess;
  ForgetHint();
  const DataPath* const path = adapter_->data_path();
  if (path == nullptr || !path->transition) {
    return Refuse(NdkStatus::kNotSupported, "adapter: this process has no data path for queue pairs of its kind");
  }
  for (v1::QpAttributes attributes : transitions_) {
    if (lowered != nullptr) {
      attributes.set_max_inbound_reads(std::min(attributes.max_inbound_reads(), lowered->inbound));
      attributes.set_max_outbound_reads(std::min(attributes.max_outbound_reads(), lowered->outbound));
    }
    const NdkStatus status = (*queue_pair_)->Attach(path->transition(attributes), EndCallback());
    if (status != NdkStatus::kSuccess) return status;
    attached_ = true;
  }
  return NdkStatus::kSuccess;
}

// The queue pair must be connected before the consumer learns that the connection is established. So where there is a
// hand-off, a local exchange, `done` comes after it.
void Connector::TakeOver(const v1::ConnectionEstablished& established, OutcomeCompletion done) {
  if (established.handoff_secret().empty()) {
    const bool needs_none = adapter_->client_ends_connections() || adapter_->data_path() == nullptr;
    if (needs_none) return done({});
    const auto data = connection_data();
    if (data == nullptr) return done(AttachAs({}));
    return done(AttachAs({.local = data->local, .peer = data->peer}));
  }
  v1::HandoffRequest request;
  request.set_session_id(link().session().session_id());
  request.set_session_secret(link().session().session_secret());
  request.set_connector_id(id());
  request.set_handoff_secret(established.handoff_secret());
  handoff_ = std::make_unique<Handoff>(HandoffSocketPath(link().options().control_socket), std::move(request),
                                       link().handoff_patience());
  taken_over_ = std::move(done);
  Hold();
  GoOnWithHandoff();
}

void Connector::GoOnWithHandoff() {
  if (handoff_ == nullptr) return;
  std::optional<Outcome> fetched = handoff_->GoOn();
  if (!fetched) return link().After(handoff_->pause(), [self = Self()] { self->GoOnWithHandoff(); });
  if (fetched->ok()) {
    *fetched = AttachAs({.socket = handoff_->TakeTransport(), .state = handoff_->TakeState()});
    if (fetched->ok()) handoff_->Acknowledge();
  }
  EndHandoff(*fetched);
}

void Connector::EndHandoff(const Outcome& outcome) {
  if (handoff_ == nullptr) return;
  handoff_ = nullptr;
  std::exchange(taken_over_, nullptr)(outcome);
  Release();
}

Outcome Connector::AttachAs(Attachment attachment) {
  ForgetHint();
  const NdkStatus status = (*queue_pair_)->Attach(std::move(attachment), EndCallback());
  if (status != NdkStatus::kSuccess) return {.status = status, .hint = WithHint("the queue pair takes no connection")};
  attached_ = true;
  return {};
}

ConnectionEndCallback Connector::EndCallback() {
  return [weak = std::weak_ptr<Connector>(Self())](const ConnectionEnd& end) {
    const std::shared_ptr<Connector> self = weak.lock();
    if (self != nullptr) self->link().PostAlways([self, end] { self->HandleDataPathEnd(end); });
  };
}

void Connector::HandleDataPathEnd(const ConnectionEnd& end) {
  if (closing() || std::exchange(peer_ended_, true)) return;
  Report(end.graceful, end.provider_error);
  TellOfEnd(end.graceful ? NdkStatus::kSuccess : NdkStatus::kConnectionAborted, end.provider_error);
}

void Connector::TellOfEnd(NdkStatus status, uint32_t provider_error) {
  HandleDisconnectEvent(
      {.status = status, .provider_error = provider_error, .hint = ConnectionEndText(status, provider_error)});
}

void Connector::HandleDisconnectEvent(const DisconnectEvent& event) {
  {
    const std::lock_guard lock(mutex_);
    if (phase_ == Phase::kDeciding && !held_event_.has_value()) held_event_ = event;
    if (phase_ != Phase::kEstablished) return;
    phase_ = Phase::kPeerEnded;
  }
  const DisconnectEventCallback callback = std::exchange(on_disconnect_, nullptr);
  if (callback && !closing()) callback(event);
}

// Once: the broker knows the end from then on.
void Connector::Report(bool graceful, uint32_t provider_error) {
  if (std::exchange(reported_, true)) return;
  report_pending_ = true;
  v1::ReportConnectionEndRequest request;
  request.set_connector_id(id());
  request.set_graceful(graceful);
  request.set_provider_error(provider_error);
  Submit(std::move(request), [this](const Outcome&, const v1::Outcome&) {
    report_pending_ = false;
    if (const auto outcome = std::exchange(disconnect_outcome_, std::nullopt); outcome.has_value()) {
      FinishDisconnect(*outcome);
    }
  });
}

bool Connector::EndsByItself() const {
  return adapter_->client_ends_connections() || (link().forgotten() && attached_);
}

NdkStatus Connector::Disconnect(OutcomeCompletion completion) {
  return CatchExceptions([&]() -> NdkStatus {
    if (IsForkedChild()) return RefuseInForkedChild();
    if (!completion) return RefuseWithoutCompletion();
    std::function<void()> work = [self = Self(), completion = std::move(completion)]() mutable {
      self->RunDisconnect(std::move(completion));
    };
    Phase before = Phase::kIdle;
    if (const auto entered = EnterDisconnecting(&before); entered != NdkStatus::kPending) return entered;
    const NdkStatus status = CatchExceptions([&] { return PostUntilClose(std::move(work)); });
    // It is closed, or its session is, and neither is told of an end any more.
    if (status != NdkStatus::kPending) SetPhase(before);
    return status;
  });
}

void Connector::RunDisconnect(OutcomeCompletion completion) {
  disconnect_completion_ = std::move(completion);
  Hold();
  if (!EndsByItself()) {
    v1::DisconnectRequest request;
    request.set_connector_id(id());
    return Submit(std::move(request), [this](const Outcome& outcome, const v1::Outcome&) {
      if (queue_pair_ != nullptr) (*queue_pair_)->Flush();
      FinishDisconnect(outcome);
    });
  }
  if (!adapter_->client_ends_connections()) {
    // The kernel ends a connection that nobody knows with its queue pair.
    (*queue_pair_)->Flush();
    return FinishDisconnect({});
  }
  const auto done = [self = Self()](NdkStatus status) {
    self->link().PostAlways([self, status] { self->HandleDisconnected(status); });
  };
  const NdkStatus status = (*queue_pair_)->Disconnect(link().disconnect_timeout(), done);
  if (status != NdkStatus::kPending) HandleDisconnected(status);
}

// The broker must know before the consumer does, who may use the addresses again at once.
void Connector::HandleDisconnected(NdkStatus status) {
  if (disconnect_completion_ == nullptr) return;  // Its session was closed meanwhile.
  Outcome outcome = {.status = status};
  if (closing()) {
    outcome = {.status = NdkStatus::kCancelled, .hint = "the connector was closed meanwhile"};
    return FinishDisconnect(outcome);
  }
  if (peer_ended_) outcome.status = NdkStatus::kSuccess;
  if (!outcome.ok()) outcome.hint = "the peer did not disconnect in order; the connection is over all the same";
  // What becomes of a connection that this side has ended is no error of its.
  Report(true, 0);
  if (!report_pending_) return FinishDisconnect(outcome);
  disconnect_outcome_ = outcome;
}

void Connector::FinishDisconnect(const Outcome& outcome) {
  const OutcomeCompletion completion = std::exchange(disconnect_completion_, nullptr);
  if (completion == nullptr) return;
  SetPhase(Phase::kDead);
  completion(outcome);
  Release();
}

void Connector::SubmitClose(Done done) {
  v1::CloseConnectorRequest request;
  request.set_connector_id(id());
  SubmitUncounted(std::move(request), std::move(done));
}

void Connector::OnClosing() {
  EndHandoff({.status = NdkStatus::kCancelled, .hint = "the connector was closed meanwhile"});
  const Phase now = phase();
  const bool connected = now == Phase::kEstablished || now == Phase::kPeerEnded || now == Phase::kDisconnecting;
  if (attached_ && connected) (*queue_pair_)->Flush();
}

void Connector::EndLocalRequests() {
  EndHandoff({.status = NdkStatus::kCancelled, .hint = "the session was closed meanwhile"});
  FinishDisconnect({.status = NdkStatus::kCancelled, .hint = "the session was closed"});
}

void Connector::OnFinished() {
  on_disconnect_ = nullptr;
  queue_pair_ = nullptr;
  endpoint_ = nullptr;
  link().qp_numbers().Sweep();
}

void Connector::HandleEvent(const v1::SessionEvent& event) {
  if (!event.has_disconnect()) return;
  TellOfEnd(FromMessage(event.disconnect().status()), event.disconnect().provider_error());
}

void Connector::HandleSessionEnd(NdkStatus status) {
  EndHandoff({.status = status, .hint = "the session has ended meanwhile; open a new one"});
  // Nobody has ended it, and the data path needs no broker.
  if (link().forgotten() && attached_) return (*queue_pair_)->WatchAlone();
  TellOfEnd(status, 0);
}

}  // namespace rdmabroker::client
