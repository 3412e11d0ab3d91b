// SPDX-License-Identifier: Apache-2.0

#include "client/broker_link.h"

#include <algorithm>
#include <new>
#include <utility>

#include "client/translation.h"
#include "dataplane/forked_child.h"
#include "dataplane/refusal.h"

namespace rdmabroker::client {
namespace {

using std::chrono::milliseconds;

// The version of the wire contract that this library is written against.
constexpr uint32_t kApiMinor = 1;
// session.proto, ListenerAddressEvent.
constexpr char kAddressEvents[] = "listener-address-events";

// Requests acknowledge as well. The broker keeps thousands of events; a client that has made none for so long says
// something.
constexpr milliseconds kAcknowledgeAfter{50};
constexpr uint64_t kAcknowledgeBeyond = 256;

// Between attempts to return to a session, or at a list.
constexpr milliseconds kFirstWait{10};
constexpr milliseconds kLongestWait{1000};
constexpr milliseconds kLongestGrace{24 * 60 * 60 * 1000};  // Whatever the broker says.

// A broker that does not end the stream by then is not waited for: its end of the connection tells it the same.
constexpr milliseconds kCloseDeadline{2000};

// A local socket's other end that takes longer than this for one answer is not about to give it: ask again.
constexpr milliseconds kLongestAnswer{10'000};
constexpr milliseconds kListDeadline{10'000};

// The broker says so where it is stopping, or keeps a session whose stream it ends (broker.proto, Session).
bool SaysReturn(const v1::Outcome& detail) {
  const Outcome outcome = FromMessage(detail);
  return outcome.status == NdkStatus::kConnectionDisconnected && outcome.retryable;
}

// Nobody has ended anything of the session then.
bool SaysForgotten(const v1::Outcome& detail) { return FromMessage(detail).status == NdkStatus::kObjectNameNotFound; }

// Whether the session may go on after the stream's end: where the broker says so, and where it says nothing, as it has
// gone then, and another process goes on in its place.
bool KeepsSession(const grpc::Status& status) {
  const auto detail = FailureDetail(status);
  return !detail.has_value() || SaysReturn(*detail);
}

}  // namespace

void Leak(const std::shared_ptr<BrokerLink>& link) { (void)new std::shared_ptr<BrokerLink>(link); }

std::shared_ptr<BrokerLink> BrokerLink::Start(SessionOptions options) {
  CompletionThread::Reserved stop;
  stop.emplace_back();
  const std::shared_ptr<CompletionThread> thread = CompletionThread::Start();
  if (thread == nullptr) return nullptr;
  // A pointer needs no memory; the thread runs until then.
  stop.front() = [running = thread.get()] { running->Stop(); };
  try {
    return std::shared_ptr<BrokerLink>(new BrokerLink(std::move(options), thread));
  } catch (const std::bad_alloc&) {
    // Nobody else would end the thread.
    thread->PostReserved(std::move(stop));
    thread->Join();
    throw;
  }
}

BrokerLink::BrokerLink(SessionOptions options, std::shared_ptr<CompletionThread> thread)
    : options_(std::move(options)),
      thread_(std::move(thread)),
      channel_(OpenControlChannel(options_.control_socket)),
      broker_(v1::Broker::NewStub(channel_)),
      inspection_(v1::Inspection::NewStub(channel_)),
      requests_(thread_, broker_.get(), [this] {
        End({.status = NdkStatus::kConnectionDisconnected,
             .hint = "the broker does not answer; open a new session when it does"});
      }) {
  close_.emplace_back([this] {
    const auto self = std::exchange(closing_, nullptr);
    Close(std::move(close_completion_));
  });
}

NdkStatus BrokerLink::RefuseAfterEnd(NdkStatus status) const {
  return Refuse(status, "the session on %s is over or closed; open a new one", options_.control_socket);
}

NdkStatus BrokerLink::Post(CompletionThread::Work&& work) {
  if (IsForkedChild()) return RefuseInForkedChild();
  const std::lock_guard lock(posting_mutex_);
  if (const NdkStatus over = over_; over != NdkStatus::kSuccess) return RefuseAfterEnd(over);
  return thread_->Post(std::move(work)) ? NdkStatus::kPending : RefuseAfterEnd(NdkStatus::kRequestAborted);
}

NdkStatus BrokerLink::PostUntilClose(CompletionThread::Work&& work) {
  if (IsForkedChild()) return RefuseInForkedChild();
  const std::lock_guard lock(posting_mutex_);
  if (!close_called_ && thread_->Post(std::move(work))) return NdkStatus::kPending;
  return RefuseAfterEnd(NdkStatus::kRequestAborted);
}

void BrokerLink::SetOver(NdkStatus status) {
  const std::lock_guard lock(posting_mutex_);
  over_ = status;
}

milliseconds BrokerLink::disconnect_timeout() const { return milliseconds(session_.limits().disconnect_timeout_ms()); }

// The broker keeps an unfetched transport for as long as both of its timeouts.
Handoff::Patience BrokerLink::handoff_patience() const {
  const milliseconds handoff(session_.limits().handoff_timeout_ms());
  const milliseconds grace(session_.limits().session_grace_ms());
  return {.answer = std::clamp(handoff, milliseconds(1), kLongestAnswer),
          .broker = std::clamp(handoff + grace, milliseconds(1), kLongestGrace)};
}

void BrokerLink::Open(OutcomeCompletion opened) {
  opened_ = std::move(opened);
  deadline_ = thread_->After(options_.open_timeout, [this] {
    End(turned_away_.value_or(Outcome{.status = NdkStatus::kIoTimeout,
                                      .hint = "the broker on " + options_.control_socket + " does not answer"}));
  });
  Return();
}

void BrokerLink::StartStream(const v1::SessionRequest& first) {
  stream_ = SessionStream::Start(
      thread_, broker_.get(), first,
      {.on_reply = [link = shared_from_this()](const v1::SessionReply& reply) { link->HandleReply(reply); },
       .on_end = [link = shared_from_this()](const grpc::Status& status) { link->HandleStreamEnd(status); }});
}

void BrokerLink::HandleReply(const v1::SessionReply& reply) {
  if (reply.has_opened()) {
    HandleOpened(reply.opened());
  } else if (reply.has_event() && (state_ == State::kOpen || state_ == State::kClosing)) {
    HandleEvent(reply.event());
  }
}

void BrokerLink::HandleOpened(const v1::SessionOpened& opened) {
  if (state_ == State::kOpening && opened.session_id() != 0) {
    session_ = opened;
    requests_.Open(opened.session_id(), opened.limits().answers_kept());
  } else if ((state_ != State::kAway && !returns_to_close_) || opened.session_id() != session_.session_id()) {
    return End(BrokenPromise("opens a session that was not asked for"));
  }
  if (std::exchange(returns_to_close_, false)) return SendClose();
  state_ = State::kOpen;
  returns_ = 0;
  thread_->Cancel(std::exchange(deadline_, {}));
  if (const auto done = std::exchange(opened_, nullptr); done != nullptr) return done({});
  requests_.Resume();
}

void BrokerLink::HandleEvent(const v1::SessionEvent& event) {
  const EventNumber number{event.number()};
  if (number <= last_event_) return;  // Seen before the stream was lost.
  Dispatch(event);
  last_event_ = number;
  requests_.set_acknowledged(number);
  const EventNumber told = std::max(acknowledged_, requests_.told());
  if (static_cast<uint64_t>(last_event_) - static_cast<uint64_t>(told) >= kAcknowledgeBeyond) Acknowledge();
  if (acknowledge_timer_ == CompletionThread::TimerId()) AcknowledgeLater();
}

void BrokerLink::AcknowledgeLater() {
  acknowledge_timer_ = thread_->After(kAcknowledgeAfter, [this, told = requests_.told()] {
    acknowledge_timer_ = {};
    // Whoever makes requests will go on to.
    if (requests_.told() != told && requests_.told() != last_event_) return AcknowledgeLater();
    Acknowledge();
  });
}

void BrokerLink::Dispatch(const v1::SessionEvent& event) {
  ObjectKey key;
  switch (event.event_case()) {
    case v1::SessionEvent::kOutcome:
      return requests_.HandleOutcome(event.outcome());
    case v1::SessionEvent::kConnect:
      key = {ObjectKind::kListener, event.connect().listener_id()};
      break;
    case v1::SessionEvent::kDisconnect:
      key = {ObjectKind::kConnector, event.disconnect().connector_id()};
      break;
    case v1::SessionEvent::kAdapterRemoved:
      key = {ObjectKind::kAdapter, event.adapter_removed().adapter_id()};
      break;
    case v1::SessionEvent::kAdapterDisabled:
      key = {ObjectKind::kAdapter, event.adapter_disabled().adapter_id()};
      break;
    case v1::SessionEvent::kListenerAddress:
      key = {ObjectKind::kListener, event.listener_address().listener_id()};
      break;
    case v1::SessionEvent::EVENT_NOT_SET:  // Of a newer kind.
      return;
  }
  if (const std::shared_ptr<BrokerObject> object = Find(key); object != nullptr) {
    object->HandleEvent(event);
  } else if (event.has_connect()) {
    CloseUnwanted(event.connect().connector_id());
  }
}

void BrokerLink::Acknowledge() {
  acknowledged_ = std::max(acknowledged_, requests_.told());
  if (state_ != State::kOpen || acknowledged_ == last_event_) return;
  acknowledged_ = last_event_;
  v1::SessionRequest message;
  message.mutable_acknowledge()->set_acknowledged_event(static_cast<uint64_t>(last_event_));
  stream_->Send(std::move(message));
}

void BrokerLink::CloseUnwanted(uint64_t connector_id) {
  if (connector_id == 0 || objects_.contains({ObjectKind::kConnector, connector_id})) return;
  v1::CloseConnectorRequest request;
  request.set_connector_id(connector_id);
  requests_.Submit(std::make_shared<RequestSender::Lane>(),
                   RequestOf(std::move(request), &v1::Broker::Stub::PrepareAsyncCloseConnector),
                   [](const Outcome&, const v1::Outcome&) {});
}

void BrokerLink::HandleStreamEnd(const grpc::Status& status) {
  stream_ = nullptr;
  if (state_ == State::kOver) return;
  if (state_ == State::kClosing) {
    // A broker that goes away may not have heard of it, and the next one would keep the session.
    returns_to_close_ = returns_to_close_ ? KeepsSession(status) : AnotherBrokerMayCome(status);
    return returns_to_close_ ? ScheduleReturn() : FinishClose();
  }
  if (state_ == State::kOpening && AnotherBrokerMayCome(status)) {
    turned_away_ = EndOf(status);
    return ScheduleReturn();
  }
  Outcome outcome = EndOf(status);
  if (state_ == State::kOpening || !KeepsSession(status)) {
    if (state_ != State::kAway) return End(outcome);
    const auto detail = FailureDetail(status);
    forgotten_ = detail.has_value() && SaysForgotten(*detail);
    return End({.status = NdkStatus::kConnectionDisconnected, .hint = "the session is over: " + outcome.hint});
  }
  if (state_ == State::kOpen) {
    state_ = State::kAway;
    requests_.Suspend();
    const milliseconds grace(session_.limits().session_grace_ms());
    deadline_ = thread_->After(std::min(grace, kLongestGrace), [this] {
      End({.status = NdkStatus::kConnectionDisconnected,
           .hint = "the session is over: no broker on " + options_.control_socket +
                   " has gone on with it in time; open a new one when there is one"});
    });
  }
  ScheduleReturn();
}

bool BrokerLink::AnotherBrokerMayCome(const grpc::Status& status) const {
  const auto detail = FailureDetail(status);
  const bool going = detail.has_value() ? SaysReturn(*detail) : HasGone(status);
  return going && SomebodyListens(options_.control_socket);
}

Outcome BrokerLink::EndOf(const grpc::Status& status) const {
  if (const auto detail = FailureDetail(status); detail.has_value()) return FromMessage(*detail);
  if (state_ == State::kOpening && !HasGone(status)) {
    return BrokenPromise("to a new session is not one: " + status.error_message());
  }
  if (state_ == State::kOpening) return NoBroker(options_.control_socket);
  return {.status = NdkStatus::kConnectionDisconnected, .hint = "the broker has gone"};
}

void BrokerLink::ScheduleReturn() {
  const milliseconds delay = back_off_(kFirstWait, kLongestWait, returns_++);
  return_timer_ = thread_->After(delay, [this] { Return(); });
}

void BrokerLink::Return() {
  v1::SessionRequest first;
  if (state_ == State::kOpening) {
    first.mutable_open()->set_api_minor(kApiMinor);
    first.mutable_open()->add_features(kAddressEvents);
    return StartStream(first);
  }
  v1::ResumeSession& resume = *first.mutable_resume();
  resume.set_session_id(session_.session_id());
  resume.set_session_secret(session_.session_secret());
  resume.set_acknowledged_event(static_cast<uint64_t>(last_event_));
  resume.set_api_minor(kApiMinor);
  resume.add_features(kAddressEvents);
  resume.set_lineage(session_.lineage());
  StartStream(first);
}

bool BrokerLink::Register(const ObjectKey& key, std::shared_ptr<BrokerObject> object) {
  return objects_.emplace(key, std::move(object)).second;
}

std::shared_ptr<BrokerObject> BrokerLink::Find(const ObjectKey& key) const {
  const auto found = objects_.find(key);
  return found == objects_.end() ? nullptr : found->second;
}

void BrokerLink::TellDeviceRemoval(const Adapter& adapter) {
  const auto objects = objects_;  // What they call may make and close objects.
  for (const auto& [key, object] : objects) object->HandleDeviceRemoval(adapter);
}

void BrokerLink::CancelTimers() {
  for (CompletionThread::TimerId* const timer : {&acknowledge_timer_, &return_timer_, &deadline_}) {
    thread_->Cancel(std::exchange(*timer, {}));
  }
}

void BrokerLink::End(const Outcome& outcome) {
  if (state_ == State::kOver) return;
  if (state_ == State::kClosing) return FinishClose();
  state_ = State::kOver;
  SetOver(outcome.status);
  CancelTimers();
  if (stream_ != nullptr) std::exchange(stream_, nullptr)->Abandon();
  requests_.End(outcome);
  const auto objects = objects_;
  for (const auto& [key, object] : objects) {
    object->HandleSessionEnd(outcome.status);
    object->TellSessionEnd(outcome.status);
  }
  if (const auto opened = std::exchange(opened_, nullptr); opened != nullptr) return opened(outcome);
  if (options_.on_end) options_.on_end(outcome);
}

void BrokerLink::PostClose(CloseCompletion completion) {
  close_completion_ = std::move(completion);
  closing_ = shared_from_this();
  thread_->PostReserved(std::move(close_));
}

void BrokerLink::Close(CloseCompletion completion) {
  closed_ = std::move(completion);
  {
    const std::lock_guard lock(posting_mutex_);
    over_ = NdkStatus::kRequestAborted;
    close_called_ = true;
  }
  const State before = std::exchange(state_, State::kClosing);
  CancelTimers();
  // What was posted before comes first.
  if (before != State::kOpen && before != State::kAway) {
    PostAlways([link = shared_from_this()] { link->FinishClose(); });
    return;
  }
  deadline_ = thread_->After(kCloseDeadline, [this] { FinishClose(); });
  if (before == State::kOpen) return SendClose();
  returns_to_close_ = true;
  if (stream_ == nullptr) ScheduleReturn();
}

void BrokerLink::SendClose() {
  v1::SessionRequest message;
  message.mutable_close();
  stream_->Send(std::move(message));
}

void BrokerLink::FinishClose() {
  if (state_ == State::kOver) return;
  state_ = State::kOver;
  returns_to_close_ = false;
  CancelTimers();
  if (stream_ != nullptr) std::exchange(stream_, nullptr)->Abandon();
  requests_.End({.status = NdkStatus::kCancelled, .hint = "the session was closed"});
  EndListings({.status = NdkStatus::kCancelled, .hint = "the session was closed"});
  while (!objects_.empty()) {
    const std::shared_ptr<BrokerObject> object = objects_.begin()->second;
    object->ForceFinish();
  }
  // Objects that somebody has closed meanwhile tell so first.
  thread_->PostLast([link = shared_from_this()] {
    if (const CloseCompletion completion = std::exchange(link->closed_, nullptr); completion) completion();
    link->thread_->Stop();
  });
}

struct BrokerLink::DeviceListing final : CompletionThread::Tag {
  using Clock = std::chrono::system_clock;

  void Complete(bool) override {
    std::unique_ptr<DeviceListing> self(this);
    if (link == nullptr) return;
    if (HasGone(status)) {
      const milliseconds wait = link->back_off_(kFirstWait, kLongestWait, before);
      if (Clock::now() + wait < deadline) return link->ListAgain(std::move(self), wait);
    }
    link->listings_.erase(this);
    const auto detail = FailureDetail(status);
    std::vector<Device> devices;
    for (const v1::Device& device : reply.devices()) devices.push_back(FromMessage(device));
    if (status.ok()) return completion({}, std::move(devices));
    const Outcome lost = {.status = NdkStatus::kConnectionDisconnected, .hint = status.error_message()};
    completion(detail.has_value() ? FromMessage(*detail) : lost, {});
  }

  BrokerLink* link = nullptr;  // Null once the session is closed.
  std::function<void(const Outcome&, std::vector<Device>)> completion;
  Clock::time_point deadline;
  int before = 0;  // Attempts at the same list.
  grpc::ClientContext context;
  v1::ListAdaptersReply reply;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::ListAdaptersReply>> reader;
};

void BrokerLink::ListAdapters(std::function<void(const Outcome&, std::vector<Device>)> completion) {
  List(std::move(completion), DeviceListing::Clock::now() + kListDeadline, 0);
}

void BrokerLink::List(std::function<void(const Outcome&, std::vector<Device>)> completion,
                      std::chrono::system_clock::time_point deadline, int before) {
  auto* const listing = new DeviceListing;
  listing->link = this;
  listing->completion = std::move(completion);
  listing->deadline = deadline;
  listing->before = before;
  listing->context.set_deadline(deadline);
  // While there is no broker it waits for one.
  listing->context.set_wait_for_ready(true);
  listing->reader = inspection_->PrepareAsyncListAdapters(&listing->context, {}, thread_->queue());
  listing->reader->StartCall();
  listings_.insert(listing);
  listing->reader->Finish(&listing->reply, &listing->status, thread_->Begin(listing));
}

// Meanwhile it is under way still, so that Close ends it.
void BrokerLink::ListAgain(std::shared_ptr<DeviceListing> failed, milliseconds wait) {
  thread_->After(wait, [this, failed = std::move(failed)] {
    if (failed->link == nullptr) return;
    listings_.erase(failed.get());
    List(std::move(failed->completion), failed->deadline, failed->before + 1);
  });
}

void BrokerLink::EndListings(const Outcome& outcome) {
  for (DeviceListing* const listing : std::exchange(listings_, {})) {
    listing->link = nullptr;
    listing->context.TryCancel();
    std::exchange(listing->completion, nullptr)(outcome, {});
  }
}

}  // namespace rdmabroker::client
