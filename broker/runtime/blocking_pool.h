// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_BLOCKING_POOL_H_
#define BROKER_RUNTIME_BLOCKING_POOL_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "broker/core/ids.h"
#include "broker/runtime/executor.h"

namespace rdmabroker {

// Names one piece of work that was given to the pool.
enum class WorkId : uint64_t { kNone = 0 };

// Does on threads of its own what may block, and brings each outcome back to the loop thread. All functions are called
// on the loop thread. Its queue is bounded by those who give it work: an object has one piece there at a time.
//
// Work towards a peer may block for minutes, other work for seconds. So that peers that do not answer delay nobody
// else, work towards all peers has three quarters of the threads at most, towards one of them half, of one session a
// quarter, and of one session towards one peer an eighth: its other peers have as much.
class BlockingPool {
 public:
  using Work = std::function<int()>;      // On a thread of the pool. Owns what it uses.
  using Done = std::function<void(int)>;  // On the loop thread, with what the work returned.

  // Where work goes, and for whom.
  struct Towards {
    SessionId session;
    std::string peer;

    auto operator<=>(const Towards&) const = default;
  };

  // `executor` outlives the pool. At least 8 threads; the process ends where the system has none to give.
  BlockingPool(Executor& executor, int threads);
  // Does not wait for work that blocks: its thread ends with the process. No Done runs any more.
  ~BlockingPool();
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;

  // Work that needs no peer's answer.
  WorkId Run(Work work, Done done) { return Add(std::nullopt, std::move(work), std::move(done)); }
  WorkId RunTowards(Towards towards, Work work, Done done) {
    return Add(std::move(towards), std::move(work), std::move(done));
  }
  // True: it had not begun and never will, and its Done does not run.
  bool Cancel(WorkId id);

 private:
  struct State;

  WorkId Add(std::optional<Towards> towards, Work work, Done done);
  static void Serve(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_BLOCKING_POOL_H_
