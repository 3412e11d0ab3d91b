// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_BLOCKING_POOL_H_
#define BROKER_RUNTIME_BLOCKING_POOL_H_

#include <functional>
#include <memory>
#include <optional>

#include "broker/runtime/executor.h"
#include "broker/runtime/work_queue.h"

namespace rdmabroker {

// Does on threads of its own what may block, and brings each outcome back to the loop thread. It begins with one thread
// and starts others as work waits for one, up to kPoolThreads. All functions are called on the loop thread. Its queue
// is bounded by those who give it work: an object has one piece there at a time.
//
// Work that waits for a peer may block for minutes or for ever, other work for seconds. So that peers that do not
// answer delay nobody else, the former has shares of the threads: kWorkShares.
class BlockingPool {
 public:
  using Work = std::function<int()>;      // On a thread of the pool. Owns what it uses.
  using Done = std::function<void(int)>;  // On the loop thread, with what the work returned.

  // `executor` outlives the pool. The process ends where the system has not one thread to give. Where it has none more
  // later, work waits for the threads that there are.
  explicit BlockingPool(Executor& executor);
  // Does not wait for work that blocks: its thread ends with the process. No Done runs any more.
  ~BlockingPool();
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;

  // `towards`: whose answer it waits for, and for whom; none for work that needs no peer's answer.
  WorkId Run(Work work, Done done, std::optional<Towards> towards = std::nullopt);
  // True: it had not begun and never will, and its Done does not run.
  bool Cancel(WorkId id);

 private:
  struct State;

  static void Serve(const std::shared_ptr<State>& state);
  // Has a thread look for work, if there is any that may begin. With the mutex held.
  static void WakeOne(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_BLOCKING_POOL_H_
