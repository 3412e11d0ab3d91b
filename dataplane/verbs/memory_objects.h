// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_MEMORY_OBJECTS_H_
#define DATAPLANE_VERBS_MEMORY_OBJECTS_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "dataplane/data_object.h"
#include "dataplane/dropped_references.h"
#include "dataplane/memory.h"

namespace rdmabroker::verbs {

class VerbsProtectionDomain;

class VerbsMemoryRegion final : public MemoryRegion {
 public:
  VerbsMemoryRegion(VerbsProtectionDomain* domain, bool fast_register);

  NdkStatus Register(void* address, size_t length, MrFlags flags) override;
  NdkStatus Deregister() override;
  NdkStatus InitializeFastRegister(uint32_t page_count, bool remote_access) override;
  // Without the lock: consumers name the region in each request.
  LocalToken local_token() const override { return local_token_; }
  RemoteToken remote_token() const override { return remote_token_; }

  // For a queue pair's posts: whether a window can be bound there. If so it counts as bound, so that the region stays
  // registered, until EndBinding.
  NdkStatus StartBinding(void* address, size_t length, OpFlags flags, ibv_mw_bind_info* info);
  void EndBinding();

  VerbsProtectionDomain* domain() const;

 private:
  void Dismantle() override;
  // To what region_ has.
  void SetTokens();

  const ObjectReference<VerbsProtectionDomain> domain_;
  const bool fast_register_;
  std::atomic<LocalToken> local_token_ = LocalToken{0};  // 0 while it is not registered; likewise the next.
  std::atomic<RemoteToken> remote_token_ = RemoteToken{0};

  mutable std::mutex mutex_;  // Guards what follows; innermost.
  ibv_mr* region_ = nullptr;  // Null: not registered.
  bool local_write_ = false;
  bool takes_windows_ = false;
  uint32_t windows_ = 0;  // Bound, or about to be.
};

// A window of type 2. Between a bind's post and its completion it has two states: as it will be, which the next post
// builds on, and as it is, to which a bind that fails returns it.
class VerbsMemoryWindow final : public MemoryWindow {
 public:
  // The window is the object's once it is made.
  VerbsMemoryWindow(VerbsProtectionDomain* domain, ibv_mw* window);

  RemoteToken remote_token() const override;

  // For a queue pair's posts, which consumers serialise. `bound`: the hardware binds only what is not bound.
  struct Posting {
    ibv_mw* window = nullptr;
    bool bound = false;
    bool foreign = false;   // Another queue pair's, which alone can unbind it.
    bool taken = false;     // By this; Release if nothing is posted.
    uint32_t key = 0;       // Of the binding that is there.
    uint32_t next_key = 0;  // Of the next one.
  };
  // The window is null if the hardware has none left. If it is not foreign, it is the queue pair's from now on, until
  // an invalidation is known to be done: nobody else posts it, and nobody else's end makes it anew meanwhile.
  Posting PostingBy(const void* queue_pair);
  void Release();
  void HandleBindPosted(uint32_t key);
  void HandleInvalidatePosted();

  // For completions, in the order of the posts.
  void HandleBound(uint32_t key, VerbsMemoryRegion* region, DroppedReferences* dropped);
  void HandleInvalidated(uint32_t key, DroppedReferences* dropped);
  // One of the queue pair's has failed, and none after it will succeed.
  void HandleFailed(const void* queue_pair);

  // If its binding, or one that may be under way, is of this queue pair: has the hardware make it anew.
  void EndBinding(const void* queue_pair, DroppedReferences* dropped);

  VerbsProtectionDomain* domain() const;

  // What all keys of a window have in common, until it is made anew; the last byte is the consumer's (ibv_inc_rkey).
  static uint32_t IndexOf(uint32_t key) { return key >> 8; }
  uint32_t index() const;

 private:
  void Dismantle() override;
  void LetGo(DroppedReferences* dropped);

  const ObjectReference<VerbsProtectionDomain> domain_;

  mutable std::mutex mutex_;  // Guards what follows; before a region's.
  ibv_mw* window_;            // Its rkey is that of the last bind posted: the next post needs it there.
  bool bound_ = false;
  const void* queue_pair_ = nullptr;  // Whose it is, if anybody's.
  // As it is.
  uint32_t bound_key_;
  ObjectReference<VerbsMemoryRegion> region_;  // None: not bound.
};

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_MEMORY_OBJECTS_H_
