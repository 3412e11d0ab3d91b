// SPDX-License-Identifier: Apache-2.0

#include "client/broker_link.h"

#include <algorithm>
#include <new>
#include <utility>

#include "client/control_socket.h"
#include "client/rpc_status.h"
#include "client/translation.h"
#include "dataplane/forked_child.h"
#include "dataplane/refusal.h"

namespace rdmabroker::client {
namespace {

using std::chrono::milliseconds;
using Clock = SessionProtocol::Clock;

// Between attempts at a list.
constexpr milliseconds kFirstWait{10};
constexpr milliseconds kLongestWait{1000};
constexpr milliseconds kLongestGrace{24 * 60 * 60 * 1000};  // Whatever the broker says.

// A local socket's other end that takes longer than this for one answer is not about to give it: ask again.
constexpr milliseconds kLongestAnswer{10'000};
constexpr milliseconds kListDeadline{10'000};

// The object whose address has changed. The key of no object if the event is of a newer kind.
ObjectKey KeyOf(const v1::EndpointAddressEvent& event) {
  if (event.has_reservation_id()) return {ObjectKind::kReservation, event.reservation_id()};
  return {ObjectKind::kSharedEndpoint, event.shared_endpoint_id()};
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
      inspection_(v1::Inspection::NewStub(channel_)),
      transport_(
          thread_, channel_, options_.control_socket,
          {.on_sent = [this] { protocol_.Sent(Clock::now()), Wake(); },
           .on_reply = [this](const v1::SessionReply& reply) { protocol_.Received(reply, Clock::now()), Wake(); },
           .on_end = [this](const StreamEnd& end) { protocol_.StreamEnded(end, Clock::now()), Wake(); }}),
      protocol_(transport_, *this, {options_.open_timeout, options_.control_socket}) {
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

milliseconds BrokerLink::disconnect_timeout() const { return milliseconds(session().limits().disconnect_timeout_ms()); }

// The broker keeps an unfetched transport for as long as both of its timeouts.
Handoff::Patience BrokerLink::handoff_patience() const {
  const milliseconds handoff(session().limits().handoff_timeout_ms());
  const milliseconds grace(session().limits().session_grace_ms());
  return {.answer = std::clamp(handoff, milliseconds(1), kLongestAnswer),
          .broker = std::clamp(handoff + grace, milliseconds(1), kLongestGrace)};
}

void BrokerLink::Open(OutcomeCompletion opened) {
  opened_ = std::move(opened);
  alive_ = shared_from_this();
  protocol_.Open(Clock::now());
  Wake();
}

void BrokerLink::Ask(v1::BatchedRequest request, RequestQueue::Done done) {
  protocol_.Ask(std::move(request), std::move(done), Clock::now());
  Wake();
}

void BrokerLink::Wake() {
  const SessionProtocol::Instant next = protocol_.NextDeadline();
  // One that comes too early sees to it.
  if (next >= wakes_at_) return;
  thread_->Cancel(wake_);
  wakes_at_ = next;
  const auto wait = std::chrono::ceil<milliseconds>(next - Clock::now());
  wake_ = thread_->After(std::max(wait, milliseconds(0)), [this] {
    wake_ = {};
    wakes_at_ = SessionProtocol::kNever;
    protocol_.HandleTime(Clock::now());
    Wake();
  });
}

void BrokerLink::Opened() { std::exchange(opened_, nullptr)({}); }

void BrokerLink::Happened(const v1::SessionEvent& event) {
  ObjectKey key;
  switch (event.event_case()) {
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
    case v1::SessionEvent::kEndpointAddress:
      key = KeyOf(event.endpoint_address());
      break;
    case v1::SessionEvent::kOutcome:
    case v1::SessionEvent::EVENT_NOT_SET:  // Of a newer kind.
      return;
  }
  if (const std::shared_ptr<BrokerObject> object = Find(key); object != nullptr) {
    object->HandleEvent(event);
  } else if (event.has_connect()) {
    CloseUnwanted(event.connect().connector_id());
  }
}

void BrokerLink::CloseUnwanted(uint64_t connector_id) {
  if (connector_id == 0 || objects_.contains({ObjectKind::kConnector, connector_id})) return;
  v1::BatchedRequest request;
  request.mutable_close_connector()->set_connector_id(connector_id);
  Ask(std::move(request), [](const Outcome&, const v1::Outcome&) {});
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

void BrokerLink::Over(const Outcome& outcome) {
  forgotten_ = protocol_.forgotten();
  SetOver(outcome.status);
}

void BrokerLink::Ended(const Outcome& outcome) {
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
  // If the broker need not be told, what was posted before runs first.
  if (!protocol_.Close(Clock::now())) PostAlways([link = shared_from_this()] { link->protocol_.FinishClose(); });
  Wake();
}

void BrokerLink::Closed() {
  EndListings({.status = NdkStatus::kCancelled, .hint = "the session was closed"});
  while (!objects_.empty()) {
    const std::shared_ptr<BrokerObject> object = objects_.begin()->second;
    object->ForceFinish();
  }
  // Objects that somebody has closed meanwhile tell so first.
  thread_->PostLast([link = shared_from_this()] {
    link->alive_ = nullptr;
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
