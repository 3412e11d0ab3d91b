// SPDX-License-Identifier: Apache-2.0

#include "client/c/handle_table.h"

#include <iterator>
#include <mutex>
#include <utility>

namespace rdmabroker::c {

HandleTable& HandleTable::Get() {
  static HandleTable& table = *new HandleTable;
  return table;
}

void HandleTable::Add(rdma_broker_handle handle, Entry entry) {
  Places made;
  made.push_back({handle, std::move(entry)});
  const std::lock_guard lock(mutex_);
  const auto place = places_.emplace(handle, made.begin()).first;
  if (const auto* adapter = std::get_if<std::shared_ptr<client::Adapter>>(&made.front().entry.named)) {
    try {
      adapters_[adapter->get()] = handle;
    } catch (...) {
      places_.erase(place);
      throw;
    }
  }
  entries_.splice(entries_.end(), made);
}

rdma_broker_handle HandleTable::Add(Entry entry) {
  const rdma_broker_handle handle = NewHandle();
  Add(handle, std::move(entry));
  return handle;
}

std::optional<Referred<rdmabroker::Adapter>> HandleTable::ReferToData(rdma_broker_handle adapter) const {
  const std::shared_lock lock(mutex_);
  const Entry* const entry = EntryOf<std::shared_ptr<client::Adapter>>(adapter);
  if (entry == nullptr) return std::nullopt;
  return Referred<rdmabroker::Adapter>{ObjectReference<rdmabroker::Adapter>(entry->data.get()), entry->affiliation};
}

rdma_broker_handle HandleTable::HandleOf(const client::Adapter& adapter) const {
  const std::shared_lock lock(mutex_);
  const auto found = adapters_.find(&adapter);
  return found == adapters_.end() ? 0 : found->second;
}

std::optional<Affiliation> HandleTable::AffiliationOf(rdma_broker_handle handle) const {
  const std::shared_lock lock(mutex_);
  const auto place = places_.find(handle);
  if (place == places_.end()) return std::nullopt;
  return place->second->entry.affiliation;
}

void HandleTable::Remove(Places::iterator place, Places* removed) {
  const auto* adapter = std::get_if<std::shared_ptr<client::Adapter>>(&place->entry.named);
  if (adapter != nullptr) adapters_.erase(adapter->get());
  places_.erase(place->handle);
  removed->splice(removed->end(), entries_, place);
}

std::optional<Entry> HandleTable::Remove(rdma_broker_handle handle) {
  Places removed;
  {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(handle);
    if (found == places_.end()) return std::nullopt;
    Remove(found->second, &removed);
  }
  return std::move(removed.front().entry);
}

void HandleTable::RemoveAllOf(rdma_broker_handle session) {
  Places removed;
  const std::lock_guard lock(mutex_);
  for (auto place = entries_.begin(); place != entries_.end();) {
    const auto next = std::next(place);
    if (place->entry.affiliation.session == session) Remove(place, &removed);
    place = next;
  }
}

}  // namespace rdmabroker::c
