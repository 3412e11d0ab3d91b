// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_COMPLETION_QUEUE_H_
#define DATAPLANE_IWARP_COMPLETION_QUEUE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "dataplane/adapter.h"
#include "dataplane/completion_queue.h"
#include "dataplane/cq_arming.h"
#include "dataplane/iwarp/driven_queue_pair.h"
#include "dataplane/notifications.h"
#include "dataplane/pending_call.h"
#include "dataplane/timers.h"
#include "dataplane/unique_fd.h"
#include "dataplane/waiting_results.h"

namespace rdmabroker::iwarp {

class SoftwareCompletionQueue;

// The completion queues of an adapter. All functions may be called from any thread.
class CompletionQueueList {
 public:
  void Add(SoftwareCompletionQueue* queue);
  void Remove(SoftwareCompletionQueue* queue);
  // Drops the results of the shared queue's receives from all of them.
  void Forget(const SharedReceiveQueue* srq);

 private:
  std::mutex mutex_;  // Before those of the queues.
  std::set<SoftwareCompletionQueue*> queues_;
};

// A completion queue in memory. Polling it drives those queue pairs that report to it whose sockets are ready. A
// moderated one holds a notification back that a result has made due, until as many results have come as it waits for,
// the interval is over or the queue is full. What an Arm finds waiting is notified of at once.
class SoftwareCompletionQueue final : public CompletionQueue {
 public:
  // `sockets` is a new epoll instance. The list must outlive the adapter's objects.
  SoftwareCompletionQueue(Adapter* adapter, CompletionQueueList* list, UniqueFd sockets, uint32_t depth,
                          CqNotification notification);

  size_t GetResultsEx(std::span<ResultEx> results) override;
  void Arm(CqNotify type) override;
  NdkStatus Resize(uint32_t depth) override;
  NdkStatus ControlInterruptModeration(uint32_t interval_us, uint32_t count) override;

  // For queue pairs, with or without their locks. False: the queue has overrun and its queue pairs are dead.
  bool Add(const ResultEx& result, const ResultOwner& owner, bool solicited);
  bool dead() const { return dead_.load(std::memory_order_acquire); }
  bool armed() const { return armed_for_results_.load(std::memory_order_acquire); }
  Adapter* adapter() const { return adapter_.get(); }
  // How often it has been polled in vain.
  uint64_t polls() const { return polls_.load(std::memory_order_relaxed); }

  // Adds and removes a queue pair that polling drives. The caller holds none of the queue pair's locks. After Detach
  // this queue no longer drives the queue pair and holds none of its results.
  void Attach(DrivenQueuePair* queue_pair);
  void Detach(DrivenQueuePair* queue_pair);
  // The socket of an attached queue pair: polls drive the queue pair when one of these events is there. The caller may
  // hold the queue pair's locks. False: the kernel watches no more.
  bool WatchSocket(DrivenQueuePair* queue_pair, int fd, uint32_t events);
  void SetSocketEvents(DrivenQueuePair* queue_pair, int fd, uint32_t events);
  void UnwatchSocket(int fd);
  // Calls the attached queue pair's OnArm when the queue is next armed; at once if it is.
  void CallOnArm(DrivenQueuePair* queue_pair);
  // None of the results of its receives waits afterwards.
  void Forget(const SharedReceiveQueue* srq);

 private:
  void OnClose() override;
  void Dismantle() override { list_->Remove(this); }
  void EndHoldingBack();
  size_t Take(std::span<ResultEx> results);
  void DriveReady();
  void Notify(NdkStatus status);
  void EndQueuePairs();
  bool moderated() const { return interval_us_ > 0 && most_results_ > 1; }
  void HoldBack();
  void StopHoldingBack();

  const ObjectReference<Adapter> adapter_;
  CompletionQueueList* const list_;
  const UniqueFd sockets_;
  std::atomic<uint64_t> polls_ = 0;
  std::mutex queue_pairs_mutex_;  // Before a queue pair's locks.
  std::vector<DrivenQueuePair*> queue_pairs_;
  std::mutex to_arm_mutex_;  // Before the progress thread's.
  // Its queue pairs. From one to the other goes what there is memory for already.
  std::set<DrivenQueuePair*> to_arm_;
  std::set<DrivenQueuePair*> not_to_arm_;

  std::atomic<bool> dead_ = false;
  std::atomic<bool> armed_for_results_ = false;
  Notifications notifications_;
  PendingCall end_queue_pairs_{this, [this] { EndQueuePairs(); }};
  Timer hold_back_timer_{this, [this] { EndHoldingBack(); }};

  std::mutex mutex_;  // Guards what follows; after a queue pair's locks.
  WaitingResults waiting_;
  CqArming arming_;
  uint32_t interval_us_ = 0;   // Until a notification that is held back; ~0: for ever.
  uint32_t most_results_ = 0;  // That one waits for; ~0: for no number of them.
  uint32_t held_back_ = 0;     // The results that the notification has waited for, from the first on; 0: none waits.
};

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_COMPLETION_QUEUE_H_
