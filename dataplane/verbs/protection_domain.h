// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_PROTECTION_DOMAIN_H_
#define DATAPLANE_VERBS_PROTECTION_DOMAIN_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "dataplane/adapter.h"
#include "dataplane/verbs/memory_objects.h"
#include "dataplane/verbs/verbs_adapter.h"

namespace rdmabroker::verbs {

class VerbsProtectionDomain final : public ProtectionDomain {
 public:
  // Frees the domain, and drops the caller's use of the device, when it is dismantled.
  VerbsProtectionDomain(VerbsAdapter* adapter, ibv_pd* domain) : adapter_(adapter), domain_(domain) {}

  Created<MemoryRegion> CreateMemoryRegion(bool fast_register) override;
  Created<MemoryWindow> CreateMemoryWindow() override;
  Created<SharedReceiveQueue> CreateSharedReceiveQueue(SharedReceiveQueueAttributes attributes) override;
  Created<QueuePair> CreateQueuePair(const QueuePairAttributes& attributes) override;

  VerbsAdapter* adapter() const { return adapter_.get(); }
  ibv_pd* get() const { return domain_; }

  void Add(VerbsMemoryWindow* window);
  void Remove(VerbsMemoryWindow* window);
  // The peer has invalidated this token. What it held is put into `dropped`, for a caller without locks to let go.
  void HandleInvalidated(RemoteToken token, DroppedReferences* dropped);
  // A queue pair is about to go, and takes the bindings that it made with it. Needs no memory.
  void EndBindings(const void* queue_pair, DroppedReferences* dropped);

 private:
  void Dismantle() override {
    ibv_dealloc_pd(domain_);
    adapter_->DropDeviceUse();
  }

  bool Belongs(const QueuePairAttributes& attributes) const;

  const ObjectReference<VerbsAdapter> adapter_;
  ibv_pd* const domain_;
  std::mutex mutex_;  // Guards the set; before a window's.
  // By their index. One that the hardware could not make anew keeps its former one, which another may have by now.
  std::unordered_multimap<uint32_t, VerbsMemoryWindow*> windows_;
};

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_PROTECTION_DOMAIN_H_
