// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_C_HANDLE_TABLE_H_
#define CLIENT_C_HANDLE_TABLE_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <variant>
#include <vector>

#include "client/adapter.h"
#include "client/c/event_queue.h"
#include "client/c/rdma_broker.h"
#include "client/connector.h"
#include "client/listener.h"
#include "client/names/names.h"
#include "client/reservation.h"
#include "client/session.h"
#include "client/shared_endpoint.h"
#include "client/values.h"
#include "dataplane/adapter.h"
#include "dataplane/completion_queue.h"
#include "dataplane/data_object.h"
#include "dataplane/memory.h"
#include "dataplane/ndk/status.h"
#include "dataplane/queue_pair.h"
#include "dataplane/refusal.h"

namespace rdmabroker::c {

using DeviceList = std::vector<client::Device>;

// What a handle names. The data plane's objects are pointers that are good for as long as they are in the table.
using Named = std::variant<std::shared_ptr<EventQueue>, std::shared_ptr<client::Session>, std::shared_ptr<DeviceList>,
                           std::shared_ptr<client::Adapter>, std::shared_ptr<client::Listener>,
                           std::shared_ptr<client::SharedEndpoint>, std::shared_ptr<client::Reservation>,
                           std::shared_ptr<client::Connector>, std::shared_ptr<client::NameRegistration>,
                           ProtectionDomain*, CompletionQueue*, MemoryRegion*, QueuePair*>;

// Where what comes of an object is told, and whose it is.
struct Affiliation {
  std::shared_ptr<EventQueue> events;
  rdma_broker_handle session = 0;  // 0: it does not end with a session.
};

struct Entry {
  Named named;
  Affiliation affiliation;
  ObjectReference<rdmabroker::Adapter> data;  // Of an adapter: its other half, which so outlives a call that uses it.
};

// An object that a handle names, with its affiliation; empty where it names none of this type.
template <typename Object>
struct Found {
  std::shared_ptr<Object> object;
  Affiliation affiliation;

  explicit operator bool() const { return object != nullptr; }
  Object* operator->() const { return object.get(); }
};

// Likewise of the data plane's, whose object does not go while it is referred to.
template <typename Object>
struct Referred {
  ObjectReference<Object> object;
  Affiliation affiliation;

  explicit operator bool() const { return static_cast<bool>(object); }
  Object* operator->() const { return object.get(); }
};

// The status of a call whose handle names nothing, or nothing of the kind.
inline NdkStatus NoSuch(rdma_broker_handle handle) {
  if (handle == 0) return Refuse(NdkStatus::kInvalidParameter, "handle: 0");
  return Refuse(NdkStatus::kObjectNameNotFound, "handle %d: closed, or of another kind than this function takes",
                handle);
}

// All handles of the process. Any thread.
class HandleTable {
 public:
  // The process's; never destroyed, as the library's threads may outlast main.
  static HandleTable& Get();

  // A number that no handle has had.
  rdma_broker_handle NewHandle() { return next_.fetch_add(1, std::memory_order_relaxed); }
  // May throw std::bad_alloc, and nothing has been added then.
  void Add(rdma_broker_handle handle, Entry entry);
  rdma_broker_handle Add(Entry entry);

  template <typename Object>
  Found<Object> Find(rdma_broker_handle handle) const {
    const std::shared_lock lock(mutex_);
    const Entry* const entry = EntryOf<std::shared_ptr<Object>>(handle);
    if (entry == nullptr) return {};
    return {std::get<std::shared_ptr<Object>>(entry->named), entry->affiliation};
  }
  // An object of the data plane's, which does not go while it is referred to.
  template <typename Object>
  ObjectReference<Object> Refer(rdma_broker_handle handle) const {
    const std::shared_lock lock(mutex_);
    const Entry* const entry = EntryOf<Object*>(handle);
    return entry == nullptr ? ObjectReference<Object>() : ObjectReference<Object>(std::get<Object*>(entry->named));
  }
  // The same for who makes something on it. Both at once: somebody else may close it at any time.
  template <typename Object>
  Referred<Object> ReferAsParent(rdma_broker_handle handle) const {
    const std::shared_lock lock(mutex_);
    const Entry* const entry = EntryOf<Object*>(handle);
    if (entry == nullptr) return {};
    return {ObjectReference<Object>(std::get<Object*>(entry->named)), entry->affiliation};
  }
  // Likewise to an adapter's half of the data plane, null where it has none. Nothing where this is no adapter.
  std::optional<Referred<rdmabroker::Adapter>> ReferToData(rdma_broker_handle adapter) const;

  // 0: none names it any more.
  rdma_broker_handle HandleOf(const client::Adapter& adapter) const;

  // Whose it is; nothing where the handle names nothing.
  std::optional<Affiliation> AffiliationOf(rdma_broker_handle handle) const;
  // Takes it out: from here on the handle names nothing. Needs no memory, nor does the next.
  std::optional<Entry> Remove(rdma_broker_handle handle);
  void RemoveAllOf(rdma_broker_handle session);

 private:
  // Null where it names nothing of the type. Guarded by mutex_.
  template <typename Pointer>
  const Entry* EntryOf(rdma_broker_handle handle) const {
    const auto place = places_.find(handle);
    if (place == places_.end() || !std::holds_alternative<Pointer>(place->second->entry.named)) return nullptr;
    return &place->second->entry;
  }

  struct Place {
    rdma_broker_handle handle;
    Entry entry;
  };
  using Places = std::list<Place>;

  // Moves it to `removed`, which goes when the lock is free: the last reference to an object may do something. Guarded
  // by mutex_.
  void Remove(Places::iterator place, Places* removed);

  std::atomic<rdma_broker_handle> next_{1};
  mutable std::shared_mutex mutex_;
  Places entries_;
  std::unordered_map<rdma_broker_handle, Places::iterator> places_;
  std::unordered_map<const client::Adapter*, rdma_broker_handle> adapters_;  // The handle of each adapter in entries_.
};

}  // namespace rdmabroker::c

#endif  // CLIENT_C_HANDLE_TABLE_H_
