// SPDX-License-Identifier: Apache-2.0

#include <cstring>
#include <string>
#include <utility>
#include <variant>

#include "client/c/interface.h"
#include "dataplane/ndk/socket_address.h"

namespace rdmabroker::c {
namespace {

HandleTable& Table() { return HandleTable::Get(); }

std::optional<SocketAddress> Parse(const char* address, std::string* problem) {
  return address == nullptr ? std::nullopt : SocketAddress::Parse(address, problem);
}

// Tells a program of the address of its object `source`.
client::AddressEventCallback TellingOfAddress(std::shared_ptr<EventQueue> events, uint32_t kind, uint64_t context,
                                              rdma_broker_handle source) {
  return [=](bool present) {
    client::Outcome outcome;
    if (!present) {
      outcome = {.status = NdkStatus::kInvalidAddress,
                 .hint =
                     "the adapter has lost the object's address, which stays taken; it works again once that is "
                     "back"};
    }
    events->Post({kind, context, source, 0, outcome});
  };
}

// The completion of a request that makes a shared endpoint or a reservation.
template <typename Holder>
client::CreateCompletion<Holder> MakingHolder(const Affiliation& affiliation, rdma_broker_handle adapter,
                                              uint64_t context) {
  const rdma_broker_handle made = Table().NewHandle();
  return [making = Making<Holder>(affiliation, adapter, context, made),
          tell = TellingOfAddress(affiliation.events, RDMA_BROKER_EVENT_ENDPOINT_ADDRESS, context, made)](
             const client::Outcome& outcome, std::shared_ptr<Holder> holder) {
    client::Outcome result = outcome;
    if (holder != nullptr) result.status = holder->OnAddressEvent(tell);
    if (holder != nullptr && !result.ok()) std::exchange(holder, nullptr)->Close({});
    making(result, holder);
  };
}

NdkStatus CreateListener(const Found<client::Adapter>& found, rdma_broker_handle adapter, uint64_t listener_context,
                         uint64_t context) {
  const rdma_broker_handle made = Table().NewHandle();
  const auto on_connect = [affiliation = found.affiliation, made,
                           listener_context](std::shared_ptr<client::Connector> connector) {
    const rdma_broker_handle peer = Table().Add({std::move(connector), affiliation, {}});
    affiliation.events->Post({RDMA_BROKER_EVENT_CONNECT, listener_context, made, peer, client::Outcome{}});
  };
  return found->CreateListener(
      on_connect,
      TellingOfAddress(found.affiliation.events, RDMA_BROKER_EVENT_LISTENER_ADDRESS, listener_context, made),
      Making<client::Listener>(found.affiliation, adapter, context, made));
}

NdkStatus Listen(rdma_broker_handle listener, const char* address, const client::ListenOptions& options,
                 uint64_t context) {
  std::string problem;
  const auto local = Parse(address, &problem);
  if (!local.has_value()) return RefuseAddress("address", address, problem);
  const auto found = Table().Find<client::Listener>(listener);
  return found ? found->Listen(*local, options, Telling(found.affiliation, listener, context)) : NoSuch(listener);
}

NdkStatus LocalAddress(rdma_broker_handle object, std::string* address) {
  if (const auto listener = Table().Find<client::Listener>(object)) {
    const auto local = listener->address();
    if (local.has_value()) *address = local->ToString();
    if (local.has_value()) return NdkStatus::kSuccess;
    return Refuse(NdkStatus::kInvalidDeviceState, "handle %d: the listener does not listen, and has no address",
                  object);
  }
  if (const auto connector = Table().Find<client::Connector>(object)) {
    const auto data = connector->connection_data();
    if (data == nullptr) return RefuseUnknown(object);
    *address = data->local.ToString();
    return NdkStatus::kSuccess;
  }
  if (const auto endpoint = Table().Find<client::SharedEndpoint>(object)) {
    *address = endpoint->address().ToString();
    return NdkStatus::kSuccess;
  }
  if (const auto reservation = Table().Find<client::Reservation>(object)) {
    *address = reservation->address().ToString();
    return NdkStatus::kSuccess;
  }
  return NoSuch(object);
}

}  // namespace
}  // namespace rdmabroker::c

// The functions of rdma_broker.h, which have no namespace.
using namespace rdmabroker;
using namespace rdmabroker::c;

rdma_broker_status rdma_broker_listener_create(rdma_broker_handle adapter, uint64_t listener_context,
                                               uint64_t context) {
  return Guarded([&] {
    const auto found = Table().Find<client::Adapter>(adapter);
    return found ? CreateListener(found, adapter, listener_context, context) : NoSuch(adapter);
  });
}

rdma_broker_status rdma_broker_listen(rdma_broker_handle listener, const char* address, uint64_t context) {
  return Guarded([&] { return Listen(listener, address, {}, context); });
}

rdma_broker_status rdma_broker_listen_with(rdma_broker_handle listener, const char* address, uint32_t flags,
                                           uint64_t context) {
  return Guarded([&] {
    constexpr uint32_t kKnown = RDMA_BROKER_AWAIT_ADDRESS | RDMA_BROKER_ANY_ADAPTER;
    if ((flags & ~kKnown) != 0) {
      return Refuse(NdkStatus::kInvalidParameter, "flags: %d; this library knows %d and %d", flags,
                    uint32_t{RDMA_BROKER_AWAIT_ADDRESS}, uint32_t{RDMA_BROKER_ANY_ADAPTER});
    }
    const client::ListenOptions options = {.await_address = (flags & RDMA_BROKER_AWAIT_ADDRESS) != 0,
                                           .any_adapter = (flags & RDMA_BROKER_ANY_ADAPTER) != 0};
    return Listen(listener, address, options, context);
  });
}

rdma_broker_status rdma_broker_listen_reserved(rdma_broker_handle listener, rdma_broker_handle reservation,
                                               uint64_t context) {
  return Guarded([&] {
    const auto found = Table().Find<client::Listener>(listener);
    const auto reserved = Table().Find<client::Reservation>(reservation);
    if (!found || !reserved) return NoSuch(found ? reservation : listener);
    return found->Listen(reserved.object, Telling(found.affiliation, listener, context));
  });
}

rdma_broker_status rdma_broker_listener_pause(rdma_broker_handle listener, int pause) {
  return Guarded([&] {
    const auto found = Table().Find<client::Listener>(listener);
    if (!found) return NoSuch(listener);
    return found->ControlConnectEvents(pause != 0);
  });
}

rdma_broker_status rdma_broker_shared_endpoint_create(rdma_broker_handle adapter, const char* address,
                                                      uint64_t context) {
  return Guarded([&] {
    std::string problem;
    const auto local = Parse(address, &problem);
    if (!local.has_value()) return RefuseAddress("address", address, problem);
    const auto found = Table().Find<client::Adapter>(adapter);
    if (!found) return NoSuch(adapter);
    return found->CreateSharedEndpoint(*local,
                                       MakingHolder<client::SharedEndpoint>(found.affiliation, adapter, context));
  });
}

rdma_broker_status rdma_broker_shared_endpoint_create_reserved(rdma_broker_handle adapter,
                                                               rdma_broker_handle reservation, uint64_t context) {
  return Guarded([&] {
    const auto found = Table().Find<client::Adapter>(adapter);
    const auto reserved = Table().Find<client::Reservation>(reservation);
    if (!found || !reserved) return NoSuch(found ? reservation : adapter);
    return found->CreateSharedEndpoint(reserved.object,
                                       MakingHolder<client::SharedEndpoint>(found.affiliation, adapter, context));
  });
}

rdma_broker_status rdma_broker_reserve_port(rdma_broker_handle adapter, const char* address, uint64_t context) {
  return Guarded([&] {
    std::string problem;
    const auto local = Parse(address, &problem);
    if (!local.has_value()) return RefuseAddress("address", address, problem);
    const auto found = Table().Find<client::Adapter>(adapter);
    if (!found) return NoSuch(adapter);
    return found->ReservePort(*local, MakingHolder<client::Reservation>(found.affiliation, adapter, context));
  });
}

rdma_broker_status rdma_broker_get_local_address(rdma_broker_handle object, char address[RDMA_BROKER_ADDRESS_SIZE]) {
  return Guarded([&] {
    if (address == nullptr) return RefuseArguments("address");
    std::string local;
    const NdkStatus status = LocalAddress(object, &local);
    char text[RDMA_BROKER_ADDRESS_SIZE];
    CopyText(local, text);
    if (status == NdkStatus::kSuccess) std::memcpy(address, text, sizeof text);
    return status;
  });
}
