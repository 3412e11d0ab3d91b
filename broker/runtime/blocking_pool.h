// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_BLOCKING_POOL_H_
#define BROKER_RUNTIME_BLOCKING_POOL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "broker/runtime/executor.h"

namespace rdmabroker {

// Names one piece of work that was given to the pool.
enum class WorkId : uint64_t { kNone = 0 };

// Does on threads of its own what may block, and brings each outcome back to the loop thread. All functions are called
// on the loop thread. Its queue is bounded by those who give it work: an object has one piece there at a time.
//
// Work towards a destination may block for minutes, other work for seconds. So that one that does not answer delays
// nobody else, work towards one destination has half of the threads at most, and towards all of them three quarters.
class BlockingPool {
 public:
  using Work = std::function<int()>;      // On a thread of the pool. Owns what it uses.
  using Done = std::function<void(int)>;  // On the loop thread, with what the work returned.

  // `executor` outlives the pool. At least 4 threads; the process ends where the system has none to give.
  BlockingPool(Executor& executor, int threads);
  // Does not wait for work that blocks: its thread ends with the process. No Done runs any more.
  ~BlockingPool();
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;

  WorkId Run(Work work, Done done) { return RunTowards({}, std::move(work), std::move(done)); }
  WorkId RunTowards(std::string destination, Work work, Done done);
  // True: it had not begun and never will, and its Done does not run.
  bool Cancel(WorkId id);

 private:
  struct State;

  static void Serve(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_BLOCKING_POOL_H_
