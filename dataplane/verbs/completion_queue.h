// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_COMPLETION_QUEUE_H_
#define DATAPLANE_VERBS_COMPLETION_QUEUE_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>

#include "dataplane/completion_queue.h"
#include "dataplane/cq_arming.h"
#include "dataplane/dropped_references.h"
#include "dataplane/notifications.h"
#include "dataplane/verbs/adapter_thread.h"
#include "dataplane/verbs/verbs_adapter.h"
#include "dataplane/waiting_results.h"

namespace rdmabroker::verbs {

class VerbsQueuePair;

// A completion queue of the hardware's, and one in memory, in which what was polled waits for the consumer: of one
// completion several results can come, and arming looks before anybody polls.
class VerbsCompletionQueue final : public CompletionQueue, public EventTarget {
 public:
  // Drops the caller's use of the device when it is dismantled.
  VerbsCompletionQueue(VerbsAdapter* adapter, uint32_t depth, CqNotification notification);
  // Once, before anything else. What fails can only be closed.
  NdkStatus Make();

  size_t GetResultsEx(std::span<ResultEx> results) override;
  void Arm(CqNotify type) override;
  NdkStatus Resize(uint32_t depth) override;
  NdkStatus ControlInterruptModeration(uint32_t interval_us, uint32_t count) override;

  void OnCompletionEvent() override;
  void OnAsyncEvent(ibv_event_type type) override;
  void Reap() override;
  void Forget(const SharedReceiveQueue* srq) override;
  DataObject* data_object() override { return this; }

  // Places for completions that the consumer does not know of: of silent requests, and of the data path's own
  // questions.
  class HiddenPlaces {
   public:
    explicit HiddenPlaces(uint32_t most) : most_(most) {}
    // False if there is none now.
    bool Reserve() {
      if (taken_.fetch_add(1, std::memory_order_relaxed) < most_) return true;
      Return();
      return false;
    }
    // When the completion has come, or never will.
    void Return() { taken_.fetch_sub(1, std::memory_order_relaxed); }
    void SetMost(uint32_t most) { most_ = most; }
    uint32_t taken() const { return taken_.load(std::memory_order_relaxed); }

   private:
    std::atomic<uint32_t> most_;
    std::atomic<uint32_t> taken_ = 0;
  };
  HiddenPlaces& silent_places() { return silent_places_; }
  HiddenPlaces& question_places() { return question_places_; }

  // Whose completions, by the number of the hardware's queue pair, come here: from before that has any until it is
  // destroyed and they are taken in. Another queue pair may have its number from the moment it is destroyed, and take
  // its place here before it is detached. False: the queue is dead.
  bool Attach(uint32_t number, VerbsQueuePair* queue_pair);
  // An attached queue pair gets another number. Needs no memory.
  void Renumber(uint32_t number, uint32_t next, VerbsQueuePair* queue_pair);
  void Detach(uint32_t number, const VerbsQueuePair* queue_pair);
  // The queue pair is closed: none of its results waits afterwards.
  void Forget(const VerbsQueuePair* queue_pair);
  // Takes in what the hardware still has, and cancels those of the queue pair's requests before these that it has
  // forgotten.
  void CancelBefore(VerbsQueuePair* queue_pair, uint64_t initiator_end, uint64_t receive_end);
  // Takes in the requests that software has ended.
  void TakeEnded(VerbsQueuePair* queue_pair);

  // For a queue pair that is asked about a completion, and that means under this queue's lock. Where more results wait
  // than the queue is deep, it and its queue pairs die.
  void Add(const ResultEx& result, const ResultOwner& owner);

  ibv_cq* get() const { return queue_; }
  VerbsAdapter* adapter() const { return adapter_.get(); }

 private:
  void MakeHiddenPlaces();
  void SetHiddenPlaces(uint32_t count);
  void OnClose() override;
  void Dismantle() override;

  bool Holds(size_t more) const { return waiting_.size() + more <= static_cast<size_t>(queue_->cqe); }
  size_t Poll(size_t limit, DroppedReferences* dropped);
  // Null where it has gone.
  VerbsQueuePair* Find(uint32_t number);
  void ArmHardware(DroppedReferences* dropped);
  void Die(NdkStatus why);
  void Notify(NdkStatus status);

  // What it is armed for tells which receives were solicited, and not this queue's own guess.
  bool HardwareDecides() const;

  const ObjectReference<VerbsAdapter> adapter_;
  ibv_cq* queue_ = nullptr;
  void* cookie_ = nullptr;
  Notifications notifications_;
  HiddenPlaces silent_places_{kHiddenCompletions / 2};
  HiddenPlaces question_places_{kHiddenCompletions / 2};

  std::mutex mutex_;                      // Guards what follows; before a queue pair's locks.
  uint32_t hidden_ = kHiddenCompletions;  // The places of both kinds.
  std::unordered_map<uint32_t, VerbsQueuePair*> queue_pairs_;
  uint32_t last_number_ = 0;
  VerbsQueuePair* last_found_ = nullptr;
  WaitingResults waiting_;
  std::span<ResultEx> wanted_;  // Where results go instead while the consumer takes some out and none wait before.
  CqArming arming_;
  bool hardware_armed_for_any_ = false;
  bool receive_seen_ = false;      // While armed for solicited ones: perhaps one of them.
  bool looking_back_ = false;      // At what may have come before the hardware was armed.
  std::optional<NdkStatus> dead_;  // Why.
};

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_COMPLETION_QUEUE_H_
