// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_RECEIVE_QUEUE_H_
#define DATAPLANE_IWARP_RECEIVE_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/adapter.h"
#include "dataplane/iwarp/completion_queue.h"
#include "dataplane/notifications.h"
#include "dataplane/ring.h"
#include "dataplane/shared_receive_queue.h"

namespace rdmabroker::iwarp {

struct ReceiveRequest {
  void* context = nullptr;
  std::vector<Sge> sges;
};

// Posted receives in order. All functions may be called from any thread.
class ReceiveQueue {
 public:
  ReceiveQueue(uint32_t depth, uint32_t max_sge) : depth_(depth), max_sge_(max_sge) {}

  // Throws std::bad_alloc where there is no memory for the request, and nothing has been posted then.
  NdkStatus Post(void* context, std::span<const Sge> sges);
  std::optional<ReceiveRequest> Take();
  // Gives the memory of a request that is done back for the next one, if there is room to keep it.
  void Recycle(ReceiveRequest request);
  // kBufferOverflow if more are queued.
  NdkStatus SetDepth(uint32_t depth);
  size_t size() const;

 private:
  mutable std::mutex mutex_;
  uint32_t depth_;
  const uint32_t max_sge_;
  Ring<ReceiveRequest> requests_;
  std::vector<ReceiveRequest> spare_;
};

class SoftwareSharedReceiveQueue final : public SharedReceiveQueue {
 public:
  // The list must outlive the adapter's objects.
  SoftwareSharedReceiveQueue(ProtectionDomain* domain, CompletionQueueList* completion_queues, uint32_t max_depth,
                             SharedReceiveQueueAttributes attributes);

  NdkStatus Receive(void* request_context, std::span<const Sge> sges) override;
  NdkStatus Modify(uint32_t depth, uint32_t notify_threshold) override;

  std::optional<ReceiveRequest> Take();
  void Recycle(ReceiveRequest request) { queue_.Recycle(std::move(request)); }
  ProtectionDomain* domain() const { return domain_.get(); }

 private:
  void OnClose() override { notifications_.Close(); }
  void Dismantle() override { completion_queues_->Forget(this); }
  void NotifyIfBelow(size_t queued);

  const ObjectReference<ProtectionDomain> domain_;
  CompletionQueueList* const completion_queues_;
  const uint32_t max_depth_;
  Notifications notifications_;
  ReceiveQueue queue_;
  std::mutex mutex_;  // Guards what follows.
  uint32_t threshold_;
  bool armed_;
};

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_RECEIVE_QUEUE_H_
