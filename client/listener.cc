// SPDX-License-Identifier: Apache-2.0

#include "client/listener.h"

#include <utility>

#include "client/adapter.h"
#include "client/connector.h"
#include "client/object_requests.h"
#include "client/reservation.h"
#include "dataplane/catch_exceptions.h"
#include "dataplane/forked_child.h"
#include "dataplane/refusal.h"

namespace rdmabroker::client {

Listener::Listener(std::shared_ptr<BrokerLink> link, std::shared_ptr<Adapter> adapter, ConnectEventCallback on_connect,
                   AddressEventCallback on_address)
    : BrokerObject(std::move(link), ObjectKind::kListener),
      adapter_(std::move(adapter)),
      on_connect_(std::move(on_connect)),
      on_address_(std::move(on_address)) {}

NdkStatus Listener::Listen(const SocketAddress& address, OutcomeCompletion completion) {
  return Listen(address, ListenOptions(), std::move(completion));
}

NdkStatus Listener::Listen(const SocketAddress& address, const ListenOptions& options, OutcomeCompletion completion) {
  return CatchExceptions([&]() -> NdkStatus {
    if (!completion) return RefuseWithoutCompletion();
    const auto self = std::static_pointer_cast<Listener>(shared_from_this());
    return Post([self, address, options, completion = std::move(completion)] {
      v1::ListenRequest request;
      *request.mutable_address() = ToMessage(address);
      request.set_await_address(options.await_address);
      request.set_any_adapter(options.any_adapter);
      self->StartListen(request, nullptr, completion);
    });
  });
}

NdkStatus Listener::Listen(const std::shared_ptr<Reservation>& reservation, OutcomeCompletion completion) {
  return CatchExceptions([&]() -> NdkStatus {
    if (!completion) return RefuseWithoutCompletion();
    if (!IsOfThisSession(reservation.get())) return RefuseForeign("reservation");
    const auto self = std::static_pointer_cast<Listener>(shared_from_this());
    return Post([self, reservation, completion = std::move(completion)] {
      v1::ListenRequest request;
      request.set_reservation_id(reservation->id());
      self->StartListen(request, reservation, completion);
    });
  });
}

void Listener::StartListen(const v1::ListenRequest& request, const std::shared_ptr<Reservation>& reservation,
                           const OutcomeCompletion& completion) {
  v1::ListenRequest message = request;
  message.set_listener_id(id());
  ++listens_;
  if (reservation != nullptr) reservation->BeginUse();
  Submit(std::move(message), [this, reservation, completion](const Outcome& outcome, const v1::Outcome& reply) {
    Outcome result = outcome;
    const auto address = FromMessage(reply.listening().address());
    if (reservation != nullptr) reservation->EndUse(outcome.ok());
    if (result.ok() && !address.has_value()) result = BrokenPromise("to Listen has no address");
    if (result.ok()) {
      const std::lock_guard lock(mutex_);
      address_ = address;
    }
    completion(result);
    if (--listens_ > 0) return;
    const std::optional<bool> presence = std::exchange(held_presence_, std::nullopt);
    if (presence && address_) TellOfAddress(*presence);
    for (const v1::ConnectEvent& event : std::exchange(held_, {})) Deliver(event);
  });
}

NdkStatus Listener::ControlConnectEvents(bool pause) {
  const bool before = paused_.exchange(pause);
  const NdkStatus posted = CatchExceptions(
      [this] { return Post([self = std::static_pointer_cast<Listener>(shared_from_this())] { self->SyncPause(); }); });
  if (posted == NdkStatus::kPending) return NdkStatus::kSuccess;
  paused_ = before;  // The broker will not be told.
  return posted;
}

// One request at a time, for the last state that the consumer asked for.
void Listener::SyncPause() {
  const bool pause = paused_;
  if (pausing_ || pause == broker_paused_ || closing()) return;
  pausing_ = true;
  v1::ControlConnectEventsRequest request;
  request.set_listener_id(id());
  request.set_pause(pause);
  Submit(std::move(request), [this, pause](const Outcome&, const v1::Outcome&) {
    pausing_ = false;
    broker_paused_ = pause;
    SyncPause();
  });
}

NdkStatus Listener::GetLocalAddress(sockaddr* address, uint32_t* length) const {
  const auto bound = this->address();
  if (bound.has_value()) return CopyAddress(*bound, address, length);
  return Refuse(NdkStatus::kInvalidDeviceState, "listener %d: it does not listen, and has no address", id());
}

std::optional<SocketAddress> Listener::address() const {
  if (IsForkedChild()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return address_;
}

void Listener::HandleEvent(const v1::SessionEvent& event) {
  if (event.has_listener_address()) {
    if (listens_ == 0) return TellOfAddress(event.listener_address().present());
    held_presence_ = event.listener_address().present();
    return;
  }
  if (!event.has_connect()) return;
  // The broker's own bound; one that does not keep to it is told so by refusing.
  if (listens_ > 0 && held_.size() < link().session().limits().backlog()) {
    held_.push_back(event.connect());
  } else {
    Deliver(event.connect());
  }
}

void Listener::TellOfAddress(bool present) {
  const AddressEventCallback tell = on_address_;
  if (tell && !closing()) tell(present);
}

void Listener::Deliver(const v1::ConnectEvent& event) {
  const auto data = FromMessage(event.data());
  if (closing() || paused_ || listens_ > 0 || !address().has_value() || !data.has_value()) {
    return link().CloseUnwanted(event.connector_id());
  }
  std::shared_ptr<Adapter> adapter = adapter_;
  if (event.adapter_id() != 0 && event.adapter_id() != adapter_->id()) {
    const ObjectKey key = {ObjectKind::kAdapter, event.adapter_id()};
    adapter = std::static_pointer_cast<Adapter>(link().Find(key));
    if (adapter == nullptr || adapter->closing()) return link().CloseUnwanted(event.connector_id());
  }
  const auto self = std::static_pointer_cast<Listener>(shared_from_this());
  const std::shared_ptr<Connector> connector = Connector::Delivered(adapter, self, event, *data);
  if (connector != nullptr) on_connect_(connector);
}

void Listener::SubmitClose(Done done) {
  v1::CloseListenerRequest request;
  request.set_listener_id(id());
  SubmitUncounted(std::move(request), std::move(done));
}

NdkStatus Listener::OnDeviceRemoval(std::function<void()> on_removal) {
  const auto self = std::static_pointer_cast<Listener>(shared_from_this());
  const NdkStatus posted = Post([self, on_removal = std::move(on_removal)]() mutable {
    if (self->closing()) return;
    if (self->adapter_->removed()) return on_removal();
    self->on_removal_ = std::move(on_removal);
  });
  return posted == NdkStatus::kPending ? NdkStatus::kSuccess : posted;
}

void Listener::HandleDeviceRemoval(const Adapter& adapter) {
  if (&adapter != adapter_.get() || closing()) return;
  if (const auto on_removal = std::exchange(on_removal_, nullptr); on_removal != nullptr) on_removal();
}

void Listener::OnClosing() {
  on_connect_ = nullptr;
  on_address_ = nullptr;
  on_removal_ = nullptr;
  for (const v1::ConnectEvent& event : std::exchange(held_, {})) link().CloseUnwanted(event.connector_id());
}

}  // namespace rdmabroker::client
