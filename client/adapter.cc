// SPDX-License-Identifier: Apache-2.0

#include "client/adapter.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client/completion_thread.h"
#include "client/connector.h"
#include "client/object_requests.h"
#include "client/reservation.h"
#include "client/shared_endpoint.h"
#include "dataplane/catch_exceptions.h"
#include "dataplane/refusal.h"
#include "dataplane/verbs/device/device_name.h"

namespace rdmabroker::client {
namespace {

// That of the device which was called `name` when it had this index.
std::string NameNow(std::optional<uint32_t> index, const std::string& name) {
  std::string now;
  return index && verbs::ReadDeviceName(*index, &now) == 0 ? now : name;
}

}  // namespace

Adapter::Adapter(std::shared_ptr<BrokerLink> link, AdapterEventCallback on_event)
    : BrokerObject(std::move(link), ObjectKind::kAdapter), on_event_(std::move(on_event)) {}

void Adapter::Open(const std::shared_ptr<BrokerLink>& link, const v1::OpenAdapterRequest& request,
                   AdapterEventCallback on_event, CreateCompletion<Adapter> completion) {
  const std::shared_ptr<Adapter> adapter(new Adapter(link, std::move(on_event)));
  auto accept = [adapter = adapter.get()](const v1::Outcome& reply) {
    adapter->info_ = FromMessage(reply.adapter_opened().info());
    adapter->client_ends_connections_ = reply.adapter_opened().client_ends_connections();
    return reply.adapter_opened().adapter_id();
  };
  // The device may be renamed before the broker has answered.
  auto opened = [device = request.device(), index = verbs::FindDeviceIndex(request.device()),
                 completion = std::move(completion)](const Outcome& outcome, std::shared_ptr<Adapter> opened_adapter) {
    if (!outcome.ok()) return completion(outcome, nullptr);
    ForgetHint();
    const NdkStatus status = opened_adapter->OpenDataPath(NameNow(index, device));
    if (status == NdkStatus::kSuccess) return completion(outcome, std::move(opened_adapter));
    const std::string hint = WithHint("the data path of " + device + " does not open");
    opened_adapter->Close({});
    completion({.status = status, .hint = hint}, nullptr);
  };
  Create<Adapter>(adapter, {}, request, std::move(accept), std::move(opened));
}

NdkStatus Adapter::OpenDataPath(const std::string& device) {
  for (const DataPath& path : link().options().data_paths) {
    if (path.technology != info_.technology || path.client_ends_connections != client_ends_connections_) continue;
    const Created<rdmabroker::Adapter> opened = path.open(device);
    data_ = opened.object;
    data_path_ = &path;
    data_closed_ = data_ == nullptr;
    return opened.status;
  }
  return NdkStatus::kSuccess;
}

NdkStatus Adapter::QueryInfo(AdapterInfo* info, size_t* size) const {
  const size_t room = std::exchange(*size, sizeof info_);
  if (room < sizeof info_) {
    return Refuse(NdkStatus::kBufferTooSmall, "size: %d; %d are needed", room, sizeof info_);
  }
  *info = info_;
  return NdkStatus::kSuccess;
}

NdkStatus Adapter::CreateListener(ConnectEventCallback on_connect, CreateCompletion<Listener> completion) {
  return CreateListener(std::move(on_connect), nullptr, std::move(completion));
}

NdkStatus Adapter::CreateListener(ConnectEventCallback on_connect, AddressEventCallback on_address,
                                  CreateCompletion<Listener> completion) {
  return CatchExceptions([&]() -> NdkStatus {
    if (!on_connect || !completion) {
      return Refuse(NdkStatus::kInvalidParameter, "on_connect, completion: one of them is missing");
    }
    return Post([self = Self(), on_connect = std::move(on_connect), on_address = std::move(on_address),
                 completion = std::move(completion)]() mutable {
      v1::CreateListenerRequest request;
      request.set_adapter_id(self->id());
      const std::shared_ptr<Listener> listener(
          new Listener(self->link().shared_from_this(), self, std::move(on_connect), std::move(on_address)));
      Create<Listener>(
          listener, {self}, std::move(request),
          [](const v1::Outcome& reply) { return reply.listener_created().listener_id(); }, std::move(completion));
    });
  });
}

NdkStatus Adapter::CreateSharedEndpoint(const SocketAddress& address, CreateCompletion<SharedEndpoint> completion) {
  return CatchExceptions([&]() -> NdkStatus {
    if (!completion) return RefuseWithoutCompletion();
    return Post([self = Self(), address, completion = std::move(completion)]() mutable {
      v1::CreateSharedEndpointRequest request;
      *request.mutable_address() = ToMessage(address);
      self->StartSharedEndpoint(request, nullptr, std::move(completion));
    });
  });
}

NdkStatus Adapter::CreateSharedEndpoint(const std::shared_ptr<Reservation>& reservation,
                                        CreateCompletion<SharedEndpoint> completion) {
  return CatchExceptions([&]() -> NdkStatus {
    if (!completion) return RefuseWithoutCompletion();
    if (!IsOfThisSession(reservation.get())) return RefuseForeign("reservation");
    return Post([self = Self(), reservation, completion = std::move(completion)]() mutable {
      v1::CreateSharedEndpointRequest request;
      request.set_reservation_id(reservation->id());
      self->StartSharedEndpoint(request, reservation, std::move(completion));
    });
  });
}

void Adapter::StartSharedEndpoint(const v1::CreateSharedEndpointRequest& request,
                                  const std::shared_ptr<Reservation>& reservation,
                                  CreateCompletion<SharedEndpoint> completion) {
  v1::CreateSharedEndpointRequest message = request;
  message.set_adapter_id(id());
  const std::shared_ptr<SharedEndpoint> endpoint(new SharedEndpoint(link().shared_from_this()));
  if (reservation != nullptr) reservation->BeginUse();
  auto accept = [endpoint = endpoint.get()](const v1::Outcome& reply) -> uint64_t {
    const auto address = FromMessage(reply.shared_endpoint_created().address());
    endpoint->address_ = address.value_or(SocketAddress());
    return address.has_value() ? reply.shared_endpoint_created().shared_endpoint_id() : 0;
  };
  auto created = [reservation, completion = std::move(completion)](const Outcome& outcome,
                                                                   std::shared_ptr<SharedEndpoint> made) {
    if (reservation != nullptr) reservation->EndUse(outcome.ok());
    completion(outcome, std::move(made));
  };
  Create<SharedEndpoint>(endpoint, {Self()}, std::move(message), std::move(accept), std::move(created));
}

NdkStatus Adapter::ReservePort(const SocketAddress& address, CreateCompletion<Reservation> completion) {
  return CatchExceptions([&]() -> NdkStatus {
    if (!completion) return RefuseWithoutCompletion();
    return Post([self = Self(), address, completion = std::move(completion)]() mutable {
      v1::ReservePortRequest request;
      request.set_adapter_id(self->id());
      *request.mutable_address() = ToMessage(address);
      const std::shared_ptr<Reservation> reservation(new Reservation(self->link().shared_from_this()));
      auto accept = [reservation = reservation.get()](const v1::Outcome& reply) -> uint64_t {
        const auto held = FromMessage(reply.port_reserved().address());
        reservation->address_ = held.value_or(SocketAddress());
        return held.has_value() ? reply.port_reserved().reservation_id() : 0;
      };
      Create<Reservation>(reservation, {self}, std::move(request), std::move(accept), std::move(completion));
    });
  });
}

NdkStatus Adapter::CreateConnector(CreateCompletion<Connector> completion) {
  return CatchExceptions([&]() -> NdkStatus {
    if (!completion) return RefuseWithoutCompletion();
    return Post([self = Self(), completion = std::move(completion)]() mutable {
      v1::CreateConnectorRequest request;
      request.set_adapter_id(self->id());
      const std::shared_ptr<Connector> connector(new Connector(self->link().shared_from_this(), self, false));
      Create<Connector>(
          connector, {self}, std::move(request),
          [](const v1::Outcome& reply) { return reply.connector_created().connector_id(); }, std::move(completion));
    });
  });
}

void Adapter::HandleEvent(const v1::SessionEvent& event) {
  if (event.has_adapter_removed()) return HandleRemoval();
  if (closing() || !on_event_ || !event.has_adapter_disabled()) return;
  if (!std::exchange(told_disabled_, true)) on_event_(AdapterEvent::kDisabled);
}

void Adapter::HandleRemoval() {
  if (std::exchange(removed_, true)) return;
  if (data_ != nullptr && data_path_->release_device != nullptr && !closing()) data_path_->release_device(data_);
  const AdapterEventCallback on_event = std::exchange(on_event_, nullptr);
  if (on_event && !closing()) on_event(AdapterEvent::kRemoved);
  link().TellDeviceRemoval(*this);
}

void Adapter::SubmitClose(Done done) {
  v1::CloseAdapterRequest request;
  request.set_adapter_id(id());
  SubmitUncounted(std::move(request), std::move(done));
}

void Adapter::OnClosing() {
  if (data_ == nullptr) return;
  // Made now: the thread that closes the data plane's last object runs the completion, and needs no memory for it.
  auto finish = std::make_shared<CompletionThread::Reserved>();
  finish->emplace_back([self = Self()] {
    self->data_closed_ = true;
    self->MaybeFinish();
  });
  const auto closed = [link = link().shared_from_this(), finish] { link->PostReserved(std::move(*finish)); };
  if (data_->Close(closed) == NdkStatus::kSuccess) data_closed_ = true;
}

}  // namespace rdmabroker::client
