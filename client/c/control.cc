// SPDX-License-Identifier: Apache-2.0

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "client/c/interface.h"
#include "client/control_socket.h"
#include "client/session_options.h"
#include "dataplane/last_hint.h"
#include "dataplane/provider_error_text.h"

namespace rdmabroker::c {
namespace {

constexpr char kRemovedHint[] =
    "the adapter's device is gone; close the adapter and everything on it, and open the device again when it is back";

HandleTable& Table() { return HandleTable::Get(); }

NdkStatus RefuseIndex(uint32_t index, size_t count) {
  return Refuse(NdkStatus::kNoMoreEntries, "index: %d; there are %d entries, from 0 on", index, count);
}

NdkStatus Take(rdma_broker_handle events, int timeout_ms, const std::function<bool(const Event&)>& wanted,
               rdma_broker_event* event) {
  if (!HasRoom(event)) return RefuseStruct("event", event);
  const auto queue = Table().Find<EventQueue>(events);
  if (!queue) return NoSuch(events);
  Event taken;
  const NdkStatus status = queue->Take(timeout_ms, wanted, &taken);
  if (status == NdkStatus::kSuccess) GiveOut(taken, event);
  return status;
}

NdkStatus OpenSession(const rdma_broker_session_options& options, const std::shared_ptr<EventQueue>& events,
                      rdma_broker_handle* session, rdma_broker_event* failure) {
  const rdma_broker_handle handle = Table().NewHandle();
  client::SessionOptions how;
  if (options.control_socket != nullptr) how.control_socket = options.control_socket;
  if (options.open_timeout_ms != 0) how.open_timeout = std::chrono::milliseconds(options.open_timeout_ms);
  how.on_end = [events, handle, context = options.context](const client::Outcome& outcome) {
    events->Post({RDMA_BROKER_EVENT_SESSION_END, context, handle, 0, outcome});
  };
  client::Session::Opening opening = client::Session::Open(std::move(how));
  if (opening.outcome.ok()) {
    Table().Add(handle, {std::shared_ptr<client::Session>(std::move(opening.session)), {events, handle}, {}});
    *session = handle;
  } else if (failure != nullptr) {
    GiveOut(Event{RDMA_BROKER_EVENT_OUTCOME, 0, 0, 0, opening.outcome}, failure);
  }
  return opening.outcome.ok() ? opening.outcome.status : Refuse(opening.outcome.status, "%s", opening.outcome.hint);
}

// What a close needs when it has completed.
struct Closing {
  rdma_broker_handle handle = 0;
  std::shared_ptr<EventQueue> events;  // May be null.
  EventQueue::Events closed;
  std::shared_ptr<client::Session> session;  // Must outlast its close.

  void Complete() {
    // Again: more may have been made since the close began.
    if (session != nullptr) Table().RemoveAllOf(handle);
    if (events != nullptr) events->Post(std::move(closed));
  }
};

// Closes what a handle has named. Needs no memory.
struct Closer {
  Closing& closing;
  CloseCompletion completion;

  NdkStatus operator()(const std::shared_ptr<EventQueue>& events) {
    events->Shut();
    return NdkStatus::kSuccess;
  }
  // These end with their entry in the table.
  NdkStatus operator()(const std::shared_ptr<DeviceList>&) { return NdkStatus::kSuccess; }
  NdkStatus operator()(const std::shared_ptr<client::NameRegistration>&) { return NdkStatus::kSuccess; }
  NdkStatus operator()(const std::shared_ptr<client::Session>& session) {
    Table().RemoveAllOf(closing.handle);
    closing.session = session;
    return session->Close(std::move(completion));
  }
  template <typename Object>
  NdkStatus operator()(const Object& object) {
    return object->Close(std::move(completion));
  }
};

rdma_broker_adapter_info ToC(const client::Adapter& adapter) {
  const AdapterInfo& info = adapter.info();
  rdma_broker_adapter_info known = {};
  known.version = uint32_t{info.version.major} << 16 | info.version.minor;
  known.technology = static_cast<uint32_t>(info.technology);
  known.vendor_id = info.vendor_id;
  known.device_id = info.device_id;
  known.frmr_page_count = info.frmr_page_count;
  known.max_registration_size = info.max_registration_size;
  known.max_window_size = info.max_window_size;
  known.max_initiator_request_sge = info.max_initiator_request_sge;
  known.max_receive_request_sge = info.max_receive_request_sge;
  known.max_read_request_sge = info.max_read_request_sge;
  known.max_transfer_length = info.max_transfer_length;
  known.max_inline_data_size = info.max_inline_data_size;
  known.max_inbound_read_limit = info.max_inbound_read_limit;
  known.max_outbound_read_limit = info.max_outbound_read_limit;
  known.max_receive_queue_depth = info.max_receive_queue_depth;
  known.max_initiator_queue_depth = info.max_initiator_queue_depth;
  known.max_srq_depth = info.max_srq_depth;
  known.max_cq_depth = info.max_cq_depth;
  known.large_request_threshold = info.large_request_threshold;
  known.max_caller_data = info.max_caller_data;
  known.max_callee_data = info.max_callee_data;
  known.adapter_flags = info.adapter_flags;
  known.client_ends_connections = adapter.client_ends_connections() ? 1 : 0;
  return known;
}

NdkStatus ListDevices(const Found<client::Session>& found, rdma_broker_handle session, uint64_t context) {
  return found->ListAdapters(
      [affiliation = found.affiliation, session, context](const client::Outcome& outcome, DeviceList devices) {
        rdma_broker_handle list = 0;
        if (outcome.ok()) list = Table().Add({std::make_shared<DeviceList>(std::move(devices)), affiliation, {}});
        affiliation.events->Post({RDMA_BROKER_EVENT_OUTCOME, context, session, list, outcome});
      });
}

NdkStatus OpenAdapter(const Found<client::Session>& found, rdma_broker_handle session, const char* device,
                      uint64_t adapter_context, uint64_t context) {
  const rdma_broker_handle made = Table().NewHandle();
  const auto on_event = [events = found.affiliation.events, made, adapter_context](client::AdapterEvent event) {
    if (event == client::AdapterEvent::kRemoved) {
      events->Post({RDMA_BROKER_EVENT_ADAPTER_REMOVED, adapter_context, made, 0,
                    client::Outcome{.status = NdkStatus::kDeviceRemoved, .hint = kRemovedHint}});
    } else {
      events->Post({RDMA_BROKER_EVENT_ADAPTER_DISABLED, adapter_context, made, 0, client::Outcome{}});
    }
  };
  const auto completion = [affiliation = found.affiliation, session, context, made](
                              const client::Outcome& outcome, const std::shared_ptr<client::Adapter>& adapter) {
    if (adapter != nullptr) {
      Table().Add(made, {adapter, affiliation, ObjectReference<rdmabroker::Adapter>(adapter->data())});
    }
    affiliation.events->Post({RDMA_BROKER_EVENT_OUTCOME, context, session, outcome.ok() ? made : 0, outcome});
  };
  return found->OpenAdapter(device, kNdkVersion, on_event, completion);
}

}  // namespace
}  // namespace rdmabroker::c

// The functions of rdma_broker.h, which have no namespace.
using namespace rdmabroker;
using namespace rdmabroker::c;

const char* rdma_broker_status_name(rdma_broker_status status) {
  return StatusName(StatusFromNumber(status).value_or(NdkStatus::kUnsuccessful)).data();
}

const char* rdma_broker_last_hint(void) { return LastHint(); }

rdma_broker_status rdma_broker_provider_error_text(uint32_t provider_error, char text[RDMA_BROKER_HINT_SIZE]) {
  return Guarded([&] {
    if (text == nullptr) return RefuseArguments("text");
    char copy[RDMA_BROKER_HINT_SIZE];
    CopyText(ProviderErrorText(provider_error), copy);
    std::memcpy(text, copy, sizeof copy);
    return NdkStatus::kSuccess;
  });
}

rdma_broker_status rdma_broker_events_create(rdma_broker_handle* events) {
  return Guarded([&] {
    if (events == nullptr) return RefuseArguments("events");
    auto queue = std::make_shared<EventQueue>();
    if (!queue->ok()) {
      return Refuse(NdkStatus::kInsufficientResources, "this process gets no more descriptors: raise RLIMIT_NOFILE");
    }
    *events = Table().Add({std::move(queue), {}, {}});
    return NdkStatus::kSuccess;
  });
}

rdma_broker_status rdma_broker_events_descriptor(rdma_broker_handle events, int* descriptor) {
  return Guarded([&] {
    if (descriptor == nullptr) return RefuseArguments("descriptor");
    const auto queue = Table().Find<EventQueue>(events);
    if (!queue) return NoSuch(events);
    *descriptor = queue->descriptor();
    return NdkStatus::kSuccess;
  });
}

rdma_broker_status rdma_broker_events_next(rdma_broker_handle events, int timeout_ms, rdma_broker_event* event) {
  return Guarded([&] {
    return Take(
        events, timeout_ms, [](const Event&) { return true; }, event);
  });
}

rdma_broker_status rdma_broker_events_await(rdma_broker_handle events, uint64_t context, int timeout_ms,
                                            rdma_broker_event* event) {
  const auto wanted = [context](const Event& one) {
    return one.context == context && (one.kind == RDMA_BROKER_EVENT_OUTCOME || one.kind == RDMA_BROKER_EVENT_CLOSED);
  };
  return Guarded([&] { return Take(events, timeout_ms, wanted, event); });
}

rdma_broker_status rdma_broker_close(rdma_broker_handle object, uint64_t context) {
  return Guarded([&] {
    const std::optional<Affiliation> of = Table().AffiliationOf(object);
    if (!of.has_value()) return NoSuch(object);
    // All memory before the handle goes: nobody could close the object again.
    const auto closing = std::make_shared<Closing>();
    closing->handle = object;
    closing->events = of->events;
    closing->closed.push_back({RDMA_BROKER_EVENT_CLOSED, context, object, 0, client::Outcome{}});
    Closer closer{*closing, [closing] { closing->Complete(); }};
    const std::optional<Entry> entry = Table().Remove(object);
    return entry.has_value() ? std::visit(closer, entry->named) : NoSuch(object);
  });
}

rdma_broker_status rdma_broker_session_open(const rdma_broker_session_options* options, rdma_broker_handle events,
                                            rdma_broker_handle* session, rdma_broker_event* failure) {
  if (IsForkedChild()) {
    const client::Outcome refusal = {.status = NdkStatus::kNotSupported, .hint = kForkedChildHint};
    if (HasRoom(failure)) GiveOut(Event{RDMA_BROKER_EVENT_OUTCOME, 0, 0, 0, refusal}, failure);
    return static_cast<rdma_broker_status>(RefuseInForkedChild(refusal.status));
  }
  return Guarded([&] {
    const auto known = options == nullptr ? rdma_broker_session_options{} : TakeIn(options);
    if (!known.has_value() || session == nullptr || (failure != nullptr && !HasRoom(failure))) {
      return RefuseArguments("options, session, failure");
    }
    const auto queue = Table().Find<EventQueue>(events);
    return queue ? OpenSession(*known, queue.object, session, failure) : NoSuch(events);
  });
}

rdma_broker_status rdma_broker_list_devices(rdma_broker_handle session, uint64_t context) {
  return Guarded([&] {
    const auto found = Table().Find<client::Session>(session);
    return found ? ListDevices(found, session, context) : NoSuch(session);
  });
}

rdma_broker_status rdma_broker_list_device(rdma_broker_handle list, uint32_t index, rdma_broker_device* device) {
  return Guarded([&] {
    if (!HasRoom(device)) return RefuseStruct("device", device);
    const auto devices = Table().Find<DeviceList>(list);
    if (!devices) return NoSuch(list);
    if (index >= devices->size()) return RefuseIndex(index, devices->size());
    const client::Device& one = (*devices.object)[index];
    rdma_broker_device known = {};
    known.usable = one.usable ? 1 : 0;
    known.technology = static_cast<uint32_t>(one.info.technology);
    known.address_count = static_cast<uint32_t>(one.addresses.size());
    CopyText(one.name, known.name);
    CopyText(one.unusable_reason, known.unusable_reason);
    known.mtu = one.mtu;
    GiveOut(known, device);
    return NdkStatus::kSuccess;
  });
}

rdma_broker_status rdma_broker_list_address(rdma_broker_handle list, uint32_t index, uint32_t address_index,
                                            char address[RDMA_BROKER_ADDRESS_SIZE]) {
  return Guarded([&] {
    if (address == nullptr) return RefuseArguments("address");
    const auto devices = Table().Find<DeviceList>(list);
    if (!devices) return NoSuch(list);
    if (index >= devices->size()) return RefuseIndex(index, devices->size());
    const size_t addresses = (*devices.object)[index].addresses.size();
    if (address_index >= addresses) return RefuseIndex(address_index, addresses);
    char text[RDMA_BROKER_ADDRESS_SIZE];
    CopyText((*devices.object)[index].addresses[address_index].ToString(), text);
    std::memcpy(address, text, sizeof text);
    return NdkStatus::kSuccess;
  });
}

rdma_broker_status rdma_broker_adapter_open(rdma_broker_handle session, const char* device, uint64_t adapter_context,
                                            uint64_t context) {
  return Guarded([&] {
    if (device == nullptr) return RefuseArguments("device");
    const auto found = Table().Find<client::Session>(session);
    return found ? OpenAdapter(found, session, device, adapter_context, context) : NoSuch(session);
  });
}

rdma_broker_status rdma_broker_adapter_get_info(rdma_broker_handle adapter, rdma_broker_adapter_info* info) {
  return Guarded([&] {
    if (!HasRoom(info)) return RefuseStruct("info", info);
    const auto found = Table().Find<client::Adapter>(adapter);
    if (!found) return NoSuch(adapter);
    GiveOut(ToC(*found.object), info);
    return NdkStatus::kSuccess;
  });
}
