// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_SHARED_RECEIVE_QUEUE_H_
#define DATAPLANE_VERBS_SHARED_RECEIVE_QUEUE_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/adapter.h"
#include "dataplane/notifications.h"
#include "dataplane/shared_receive_queue.h"
#include "dataplane/verbs/adapter_thread.h"
#include "dataplane/verbs/protection_domain.h"

namespace rdmabroker::verbs {

class VerbsSharedReceiveQueue final : public SharedReceiveQueue, public EventTarget {
 public:
  VerbsSharedReceiveQueue(VerbsProtectionDomain* domain, SharedReceiveQueueAttributes attributes);
  // Once, before anything else. What fails can only be closed.
  NdkStatus Make();

  NdkStatus Receive(void* request_context, std::span<const Sge> sges) override;
  NdkStatus Modify(uint32_t depth, uint32_t notify_threshold) override;

  void OnAsyncEvent(ibv_event_type type) override;
  DataObject* data_object() override { return this; }

  // The context of the receive in this place, which is free again. Nothing if there is none.
  std::optional<void*> Complete(uint64_t place);

  ibv_srq* get() const { return queue_; }
  VerbsProtectionDomain* domain() const { return domain_.get(); }

 private:
  void OnClose() override;
  void Dismantle() override;
  void ArmHardware();
  NdkStatus SetDepth(uint32_t depth);
  // For so many places.
  void ReserveMemory(uint32_t depth);
  void Die();
  void Notify(NdkStatus status);

  const ObjectReference<VerbsProtectionDomain> domain_;
  const uint32_t max_sge_;
  ibv_srq* queue_ = nullptr;
  void* cookie_ = nullptr;
  Notifications notifications_;

  std::mutex mutex_;  // Guards what follows; after a completion queue's and a queue pair's.
  uint32_t depth_;
  uint32_t threshold_;
  bool armed_;
  bool hardware_armed_ = false;
  bool dead_ = false;
  size_t queued_ = 0;  // Posted, and not known to be completed.
  // As many as receives have been posted at a time.
  std::vector<std::optional<void*>> contexts_;  // By place.
  std::vector<uint32_t> free_places_;
  std::vector<ibv_sge> sges_;  // Of the receive that is being posted.
};

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_SHARED_RECEIVE_QUEUE_H_
