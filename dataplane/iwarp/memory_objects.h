// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_MEMORY_OBJECTS_H_
#define DATAPLANE_IWARP_MEMORY_OBJECTS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <span>
#include <utility>

#include "dataplane/adapter.h"
#include "dataplane/iwarp/memory_table.h"
#include "dataplane/memory.h"
#include "dataplane/pending_call.h"

namespace rdmabroker::iwarp {

// Windows that were bound to a region: those whose token is live still are.
using BoundWindows = std::list<std::pair<const MemoryTable::Entry*, uint32_t>>;

// A change of the memory table that a queue pair carries out when its turn comes. Nobody could be told then that there
// is no memory for it, so that is here.
struct MemoryChange {
  MemoryTable::Entry* entry = nullptr;
  uint32_t token = 0;
  uint32_t region_token = 0;      // Bind: by which the region's memory was described.
  uint64_t deregistrations = 0;   // FastRegister: how many the region had seen.
  MemoryDescription description;  // Bind, FastRegister.
  // Bind: one element each, for the region and for the table.
  BoundWindows window;
  MemoryTable::Bindings binding;
};

class SoftwareMemoryRegion final : public LetGoOnThread<MemoryRegion> {
 public:
  // `entry` is the region's own from now on.
  SoftwareMemoryRegion(ProtectionDomain* domain, MemoryTable* table, MemoryTable::Entry* entry, bool fast_register);

  NdkStatus Register(void* address, size_t length, MrFlags flags) override;
  NdkStatus Deregister() override;
  NdkStatus InitializeFastRegister(uint32_t page_count, bool remote_access) override;
  LocalToken local_token() const override { return LocalToken{token()}; }
  RemoteToken remote_token() const override { return RemoteToken{token()}; }

  // For a queue pair's posts. Nothing of the region changes before the post is accepted, its token then, and the table
  // when the change is carried out. Up to AcceptFastRegister they may throw std::bad_alloc, and have changed nothing
  // then.
  NdkStatus PrepareFastRegister(std::span<void* const> pages, size_t first_byte_offset, size_t length,
                                uint64_t base_address, OpFlags flags, MemoryChange* change);
  NdkStatus PrepareBind(const void* queue_pair, void* address, size_t length, OpFlags flags, MemoryChange* change);
  NdkStatus PrepareInvalidate(MemoryChange* change);
  void AcceptFastRegister(MemoryChange* change);
  // It will not be carried out: what was live before it is so still, and the region's token names it again.
  void CancelFastRegister(const MemoryChange& change);
  // Makes a window live unless the region is gone meanwhile, or stands for other memory.
  bool PublishWindow(MemoryChange* change);
  bool Publish(MemoryChange* change);

  ProtectionDomain* domain() const { return domain_.get(); }

 private:
  void Dismantle() override;
  uint32_t token() const;
  bool HasLiveWindow();

  const ObjectReference<ProtectionDomain> domain_;
  MemoryTable* const table_;
  MemoryTable::Entry* const entry_;
  const bool fast_register_;

  mutable std::mutex mutex_;   // Guards what follows; after a queue pair's locks.
  uint32_t token_ = 0;         // 0: not registered or not initialised.
  uint32_t unused_token_ = 0;  // Told by InitializeFastRegister; nothing will be registered by it.
  uint64_t deregistrations_ = 0;
  uint32_t max_pages_ = 0;
  bool remote_access_ = false;
  BoundWindows windows_;
};

class SoftwareMemoryWindow final : public LetGoOnThread<MemoryWindow> {
 public:
  SoftwareMemoryWindow(ProtectionDomain* domain, MemoryTable* table, MemoryTable::Entry* entry);

  RemoteToken remote_token() const override;

  // For a queue pair's posts: once one is accepted the window has a new token. May throw std::bad_alloc, and has
  // changed nothing then.
  void AcceptBind(MemoryChange* change);
  // It will not be carried out: the window has the token of the binding that is live, or none.
  void CancelBind(const MemoryChange& change);
  NdkStatus PrepareInvalidate(MemoryChange* change);
  // Binds the window to the region if that is still there.
  bool CarryOutBind(MemoryChange* change, SoftwareMemoryRegion* region);

  ProtectionDomain* domain() const { return domain_.get(); }

 private:
  void Dismantle() override;

  const ObjectReference<ProtectionDomain> domain_;
  MemoryTable* const table_;
  MemoryTable::Entry* const entry_;

  mutable std::mutex mutex_;  // Guards what follows; before a region's.
  uint32_t token_ = 0;
};

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_MEMORY_OBJECTS_H_
