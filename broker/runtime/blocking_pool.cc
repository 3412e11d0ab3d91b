// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/blocking_pool.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace rdmabroker {

// Shared with the threads, which may outlive the pool.
struct BlockingPool::State {
  explicit State(Executor& loop) : executor(loop) {}

  Executor& executor;
  std::mutex mutex;  // Guards what follows.
  std::condition_variable changed;
  WorkQueue queue;
  uint64_t last_id = 0;
  bool stopped = false;
};

BlockingPool::BlockingPool(Executor& executor) : state_(std::make_shared<State>(executor)) {
  for (int i = 0; i < kPoolThreads; ++i) std::thread(Serve, state_).detach();
}

BlockingPool::~BlockingPool() {
  const std::lock_guard lock(state_->mutex);
  state_->stopped = true;
  state_->changed.notify_all();
}

WorkId BlockingPool::Run(Work work, Done done, std::optional<Towards> towards) {
  const std::lock_guard lock(state_->mutex);
  const WorkId id{++state_->last_id};
  state_->queue.Add({id, std::move(towards), std::move(work), std::move(done)});
  if (state_->queue.MayBegin()) state_->changed.notify_one();
  return id;
}

bool BlockingPool::Cancel(WorkId id) {
  const std::lock_guard lock(state_->mutex);
  return state_->queue.Cancel(id);
}

void BlockingPool::Serve(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    std::optional<WorkItem> item;
    state->changed.wait(lock, [&] { return state->stopped || (item = state->queue.Begin()); });
    if (state->stopped) return;
    // Whoever is woken for new work, or has ended some, wakes the next one if there is more that may begin.
    if (state->queue.MayBegin()) state->changed.notify_one();
    lock.unlock();
    const int outcome = item->work();
    item->work = nullptr;
    lock.lock();
    state->queue.End(item->towards);
    if (state->stopped) return;
    state->executor.Post([state, done = std::move(item->done), outcome] {
      {
        const std::lock_guard guard(state->mutex);
        if (state->stopped) return;
      }
      done(outcome);
    });
  }
}

}  // namespace rdmabroker
