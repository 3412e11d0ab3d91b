// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/adapter.h"

#include <sys/epoll.h>

#include <utility>

#include "dataplane/adapter_checks.h"
#include "dataplane/catch_exceptions.h"
#include "dataplane/forked_child.h"

#include "dataplane/iwarp/completion_queue.h"
#include "dataplane/iwarp/memory_objects.h"
#include "dataplane/iwarp/memory_table.h"
#include "dataplane/iwarp/progress_thread.h"
#include "dataplane/iwarp/queue_pair.h"
#include "dataplane/iwarp/receive_queue.h"
#include "dataplane/iwarp/wire/adapter_limits.h"
#include "dataplane/refusal.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker::iwarp {
namespace {

class SoftwareAdapter;

NdkStatus RefuseMoreMemory() {
  return Refuse(NdkStatus::kInsufficientResources,
                "this adapter has a million regions and windows, and no place for more: close some");
}

// An entry that goes back to its table unless an object takes it.
class NewEntry {
 public:
  explicit NewEntry(MemoryTable* table) : table_(table), entry_(table->Allocate()) {}
  ~NewEntry() {
    if (entry_ != nullptr) table_->Free(entry_);
  }
  NewEntry(const NewEntry&) = delete;
  NewEntry& operator=(const NewEntry&) = delete;

  MemoryTable::Entry* get() const { return entry_; }
  template <typename Object>
  Object* Give(Object* object) {
    entry_ = nullptr;
    return object;
  }

 private:
  MemoryTable* const table_;
  MemoryTable::Entry* entry_;
};

class SoftwareProtectionDomain final : public ProtectionDomain {
 public:
  explicit SoftwareProtectionDomain(SoftwareAdapter* adapter);

  Created<MemoryRegion> CreateMemoryRegion(bool fast_register) override;
  Created<MemoryWindow> CreateMemoryWindow() override;
  Created<SharedReceiveQueue> CreateSharedReceiveQueue(SharedReceiveQueueAttributes attributes) override;
  Created<QueuePair> CreateQueuePair(const QueuePairAttributes& attributes) override;

 private:
  // Whether its queues are of this adapter and domain.
  bool Belongs(const QueuePairAttributes& attributes) const;

  const ObjectReference<SoftwareAdapter> adapter_;
};

class SoftwareAdapter final : public Adapter {
 public:
  const AdapterInfo& info() const override { return info_; }
  Created<ProtectionDomain> CreateProtectionDomain() override {
    return CatchExceptions([this]() -> Created<ProtectionDomain> {
      if (IsForkedChild()) return {RefuseInForkedChild()};
      return {NdkStatus::kSuccess, new SoftwareProtectionDomain(this)};
    });
  }
  Created<CompletionQueue> CreateCompletionQueue(uint32_t depth, CqNotification notification) override {
    return CatchExceptions([&]() -> Created<CompletionQueue> {
      if (IsForkedChild()) return {RefuseInForkedChild()};
      if (const auto fits = CheckDepth(depth, info_.max_cq_depth); fits != NdkStatus::kSuccess) return {fits};
      // Whatever makes progress needs a completion queue first.
      UniqueFd sockets(::epoll_create1(EPOLL_CLOEXEC));
      if (!sockets || !ProgressThread::Get().Start()) {
        return {
            Refuse(NdkStatus::kInsufficientResources,
                   "this process gets no more descriptors or threads: close some, or raise RLIMIT_NOFILE, RLIMIT_NPROC "
                   "or its container's limit of processes")};
      }
      return {NdkStatus::kSuccess, new SoftwareCompletionQueue(this, &completion_queues_, std::move(sockets), depth,
                                                               std::move(notification))};
    });
  }
  MemoryTable* memory() { return &memory_; }
  CompletionQueueList* completion_queues() { return &completion_queues_; }

 private:
  const AdapterInfo info_ = SoftwareAdapterInfo();
  MemoryTable memory_;
  CompletionQueueList completion_queues_;
};

SoftwareProtectionDomain::SoftwareProtectionDomain(SoftwareAdapter* adapter) : adapter_(adapter) {}

Created<MemoryRegion> SoftwareProtectionDomain::CreateMemoryRegion(bool fast_register) {
  return CatchExceptions([&]() -> Created<MemoryRegion> {
    if (IsForkedChild()) return {RefuseInForkedChild()};
    NewEntry entry(adapter_->memory());
    if (entry.get() == nullptr) return {RefuseMoreMemory()};
    return {NdkStatus::kSuccess,
            entry.Give(new SoftwareMemoryRegion(this, adapter_->memory(), entry.get(), fast_register))};
  });
}

Created<MemoryWindow> SoftwareProtectionDomain::CreateMemoryWindow() {
  return CatchExceptions([&]() -> Created<MemoryWindow> {
    if (IsForkedChild()) return {RefuseInForkedChild()};
    NewEntry entry(adapter_->memory());
    if (entry.get() == nullptr) return {RefuseMoreMemory()};
    return {NdkStatus::kSuccess, entry.Give(new SoftwareMemoryWindow(this, adapter_->memory(), entry.get()))};
  });
}

Created<SharedReceiveQueue> SoftwareProtectionDomain::CreateSharedReceiveQueue(
    SharedReceiveQueueAttributes attributes) {
  return CatchExceptions([&]() -> Created<SharedReceiveQueue> {
    if (IsForkedChild()) return {RefuseInForkedChild()};
    const AdapterInfo& info = adapter_->info();
    if (const auto fits = CheckAttributes(attributes, info); fits != NdkStatus::kSuccess) return {fits};
    return {NdkStatus::kSuccess, new SoftwareSharedReceiveQueue(this, adapter_->completion_queues(), info.max_srq_depth,
                                                                std::move(attributes))};
  });
}

bool SoftwareProtectionDomain::Belongs(const QueuePairAttributes& attributes) const {
  if (attributes.receive_cq == nullptr || attributes.initiator_cq == nullptr) return false;
  for (CompletionQueue* const cq : {attributes.receive_cq, attributes.initiator_cq}) {
    if (static_cast<SoftwareCompletionQueue*>(cq)->adapter() != adapter_.get()) return false;
  }
  return attributes.srq == nullptr || static_cast<SoftwareSharedReceiveQueue*>(attributes.srq)->domain() == this;
}

Created<QueuePair> SoftwareProtectionDomain::CreateQueuePair(const QueuePairAttributes& attributes) {
  return CatchExceptions([&]() -> Created<QueuePair> {
    if (IsForkedChild()) return {RefuseInForkedChild()};
    if (!Belongs(attributes)) return {RefuseStrangers()};
    if (const auto fits = CheckAttributes(attributes, adapter_->info()); fits != NdkStatus::kSuccess) return {fits};
    return {NdkStatus::kSuccess, new SoftwareQueuePair(this, adapter_->memory(), attributes)};
  });
}

}  // namespace

Created<Adapter> OpenAdapter() {
  return CatchExceptions([&]() -> Created<Adapter> {
    if (IsForkedChild()) return {RefuseInForkedChild(NdkStatus::kNotSupported)};
    NoticeForks();
    return {NdkStatus::kSuccess, new SoftwareAdapter};
  });
}

}  // namespace rdmabroker::iwarp
