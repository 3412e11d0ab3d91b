// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_WAITING_RESULTS_H_
#define DATAPLANE_WAITING_RESULTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/operation.h"
#include "dataplane/ring.h"

namespace rdmabroker {

class QueuePair;
class SharedReceiveQueue;

// The objects whose close withdraws a result, which are only compared, and what the queue pair wants to know.
struct ResultOwner {
  const QueuePair* queue_pair = nullptr;
  const SharedReceiveQueue* srq = nullptr;  // Null unless the request was a receive of this queue.
  // Counts the results of the queue pair's initiator requests that wait: as with hardware, a request has its place in
  // the queue until the consumer has taken its result. Null for those of receives. Good until the close.
  std::atomic<uint32_t>* untaken = nullptr;
};

// The results of a completion queue that wait for its consumer, oldest first. Used under the queue's lock. Allocates
// only as it is made and when its depth changes: a result that finds no memory would be lost.
class WaitingResults {
 public:
  explicit WaitingResults(size_t depth) : depth_(depth) { waiting_.fit(depth); }

  // False: `depth` results are waiting already.
  bool Add(const ResultEx& result, const ResultOwner& owner);
  // Moves up to results.size() results out and returns how many.
  size_t Take(std::span<ResultEx> results);
  // False: more than `depth` results are waiting.
  bool Resize(size_t depth);

  // The queue pair is closed: its results are dropped. A shared queue's receive keeps its result, since the consumer
  // could not know otherwise that the receive is used up, but without the queue pair's context.
  void ForgetQueuePair(const QueuePair* queue_pair);
  // The shared receive queue is closed: results of its receives are dropped.
  void ForgetSharedReceiveQueue(const SharedReceiveQueue* srq);

  size_t depth() const { return depth_; }
  size_t size() const { return waiting_.size(); }
  bool empty() const { return waiting_.empty(); }
  bool full() const { return waiting_.size() == depth_; }

 private:
  struct Waiting {
    ResultEx result;
    ResultOwner owner;
  };

  template <typename Predicate>
  void DropIf(Predicate predicate);

  size_t depth_;
  Ring<Waiting> waiting_;
};

}  // namespace rdmabroker

#endif  // DATAPLANE_WAITING_RESULTS_H_
