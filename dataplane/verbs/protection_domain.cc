// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/protection_domain.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "dataplane/adapter_checks.h"
#include "dataplane/catch_exceptions.h"
#include "dataplane/forked_child.h"
#include "dataplane/refusal.h"
#include "dataplane/verbs/completion_queue.h"
#include "dataplane/verbs/queue_pair.h"
#include "dataplane/verbs/shared_receive_queue.h"
#include "dataplane/verbs/unfinished.h"
#include "dataplane/verbs/verbs_status.h"

namespace rdmabroker::verbs {
namespace {

struct WindowFreer {
  void operator()(ibv_mw* window) const { ibv_dealloc_mw(window); }
};

}  // namespace

Created<MemoryRegion> VerbsProtectionDomain::CreateMemoryRegion(bool fast_register) {
  if (IsForkedChild()) return {RefuseInForkedChild()};
  return CatchExceptions([&]() -> Created<MemoryRegion> {
    return {NdkStatus::kSuccess, new VerbsMemoryRegion(this, fast_register)};
  });
}

Created<MemoryWindow> VerbsProtectionDomain::CreateMemoryWindow() {
  if (IsForkedChild()) return {RefuseInForkedChild()};
  if (adapter_->info().max_window_size == 0) {
    return {Refuse(NdkStatus::kNotSupported, "this device has no memory windows (AdapterInfo::max_window_size is 0)")};
  }
  return CatchExceptions([&]() -> Created<MemoryWindow> {
    std::unique_ptr<ibv_mw, WindowFreer> window(ibv_alloc_mw(domain_, IBV_MW_TYPE_2));
    if (window == nullptr) return {FromPointer(nullptr)};
    auto* const made = new VerbsMemoryWindow(this, window.get());
    (void)window.release();
    return {NdkStatus::kSuccess, made};
  });
}

Created<SharedReceiveQueue> VerbsProtectionDomain::CreateSharedReceiveQueue(SharedReceiveQueueAttributes attributes) {
  if (IsForkedChild()) return {RefuseInForkedChild()};
  const AdapterInfo& info = adapter_->info();
  if (info.max_srq_depth == 0) {
    return {
        Refuse(NdkStatus::kNotSupported, "this device has no shared receive queues (AdapterInfo::max_srq_depth is 0)")};
  }
  if (const auto fits = CheckAttributes(attributes, info); fits != NdkStatus::kSuccess) return {fits};
  return CatchExceptions([&]() -> Created<SharedReceiveQueue> {
    return Finish<SharedReceiveQueue>(new VerbsSharedReceiveQueue(this, std::move(attributes)));
  });
}

bool VerbsProtectionDomain::Belongs(const QueuePairAttributes& attributes) const {
  if (attributes.receive_cq == nullptr || attributes.initiator_cq == nullptr) return false;
  for (CompletionQueue* const cq : {attributes.receive_cq, attributes.initiator_cq}) {
    if (static_cast<VerbsCompletionQueue*>(cq)->adapter() != adapter_.get()) return false;
  }
  return attributes.srq == nullptr || static_cast<VerbsSharedReceiveQueue*>(attributes.srq)->domain() == this;
}

Created<QueuePair> VerbsProtectionDomain::CreateQueuePair(const QueuePairAttributes& attributes) {
  if (IsForkedChild()) return {RefuseInForkedChild()};
  if (!Belongs(attributes)) return {RefuseStrangers()};
  if (const auto fits = CheckAttributes(attributes, adapter_->info()); fits != NdkStatus::kSuccess) return {fits};
  return CatchExceptions(
      [&]() -> Created<QueuePair> { return Finish<QueuePair>(new VerbsQueuePair(this, attributes)); });
}

void VerbsProtectionDomain::Add(VerbsMemoryWindow* window) {
  const std::lock_guard lock(mutex_);
  windows_.emplace(window->index(), window);
}

void VerbsProtectionDomain::Remove(VerbsMemoryWindow* window) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = windows_.equal_range(window->index());
  windows_.erase(std::find_if(first, last, [window](const auto& entry) { return entry.second == window; }));
}

void VerbsProtectionDomain::HandleInvalidated(RemoteToken token, DroppedReferences* dropped) {
  const std::lock_guard lock(mutex_);
  const auto key = static_cast<uint32_t>(token);
  const auto [first, last] = windows_.equal_range(VerbsMemoryWindow::IndexOf(key));
  for (auto entry = first; entry != last; ++entry) entry->second->HandleInvalidated(key, dropped);
}

void VerbsProtectionDomain::EndBindings(const void* queue_pair, DroppedReferences* dropped) {
  const std::lock_guard lock(mutex_);
  for (auto entry = windows_.begin(); entry != windows_.end();) {
    VerbsMemoryWindow* const window = entry->second;
    window->EndBinding(queue_pair, dropped);
    if (entry->first == window->index()) {
      ++entry;
      continue;
    }
    // No more than there were before, so that the table stays as it is. The loop may see it once more.
    auto moving = windows_.extract(entry++);
    moving.key() = window->index();
    windows_.insert(std::move(moving));
  }
}

}  // namespace rdmabroker::verbs
