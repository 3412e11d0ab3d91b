// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_BENCH_SIDE_QUEUE_PAIRS_H_
#define TESTS_BENCH_SIDE_QUEUE_PAIRS_H_

#include <cstddef>
#include <cstdint>
#include <semaphore>
#include <vector>

#include "dataplane/adapter.h"

namespace rdmabroker::bench {

// Closes all at once, as one after the other takes its time, and waits for it.
template <typename Pointer>
void CloseAll(std::vector<Pointer>& objects) {
  std::counting_semaphore<> closed{0};
  size_t pending = 0;
  for (const Pointer& object : objects) {
    if (object->Close([&closed] { closed.release(); }) == NdkStatus::kPending) ++pending;
  }
  for (; pending > 0; --pending) closed.acquire();
  objects.clear();
}

// The queue pairs of one side of handshakes, over which nothing is sent. What fails ends the process.
class SideQueuePairs {
 public:
  explicit SideQueuePairs(Adapter* adapter);
  SideQueuePairs(const SideQueuePairs&) = delete;
  SideQueuePairs& operator=(const SideQueuePairs&) = delete;

  void Make(uint32_t count);
  QueuePair* operator[](size_t index) const { return pairs_[index]; }
  size_t size() const { return pairs_.size(); }
  void Close() { CloseAll(pairs_); }

 private:
  ProtectionDomain* const domain_;
  CompletionQueue* const queue_;
  std::vector<QueuePair*> pairs_;
};

}  // namespace rdmabroker::bench

#endif  // TESTS_BENCH_SIDE_QUEUE_PAIRS_H_
