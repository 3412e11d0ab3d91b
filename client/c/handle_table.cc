// SPDX-License-Identifier: Apache-2.0

#include "client/c/handle_table.h"

#include <mutex>
#include <utility>

namespace rdmabroker::c {

HandleTable& HandleTable::Get() {
  static HandleTable& table = *new HandleTable;
  return table;
}

void HandleTable::Add(rdma_broker_handle handle, Entry entry) {
  const std::lock_guard lock(mutex_);
  if (const auto* adapter = std::get_if<std::shared_ptr<client::Adapter>>(&entry.named)) {
    adapters_[adapter->get()] = handle;
  }
  entries_.emplace(handle, std::move(entry));
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

void HandleTable::ForgetAdapter(const Entry& entry) {
  const auto* adapter = std::get_if<std::shared_ptr<client::Adapter>>(&entry.named);
  if (adapter != nullptr) adapters_.erase(adapter->get());
}

std::optional<Entry> HandleTable::Remove(rdma_broker_handle handle) {
  const std::lock_guard lock(mutex_);
  auto node = entries_.extract(handle);
  if (node.empty()) return std::nullopt;
  ForgetAdapter(node.mapped());
  return std::move(node.mapped());
}

void HandleTable::RemoveAllOf(rdma_broker_handle session) {
  std::vector<Entry> removed;  // Goes when the lock is free: the last reference to an object may do something.
  const std::lock_guard lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (entry->second.affiliation.session != session) {
      ++entry;
      continue;
    }
    ForgetAdapter(entry->second);
    removed.push_back(std::move(entry->second));
    entry = entries_.erase(entry);
  }
}

}  // namespace rdmabroker::c
