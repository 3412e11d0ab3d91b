// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/blocking_pool.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "dataplane/start_thread.h"

namespace rdmabroker {

// Shared with the threads, which may outlive the pool.
struct BlockingPool::State {
  explicit State(Executor& loop) : executor(loop) {}

  Executor& executor;
  std::mutex mutex;  // Guards what follows.
  std::condition_variable changed;
  WorkQueue queue;
  uint64_t last_id = 0;
  int threads = 0;
  int idle = 0;  // Threads that wait for work.
  bool stopped = false;
};

BlockingPool::BlockingPool(Executor& executor) : state_(std::make_shared<State>(executor)) {
  state_->threads = 1;
  std::thread(Serve, state_).detach();
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
  WakeOne(state_);
  return id;
}

void BlockingPool::WakeOne(const std::shared_ptr<State>& state) {
  if (!state->queue.MayBegin()) return;
  if (state->idle > 0) return state->changed.notify_one();
  if (state->threads == kPoolThreads) return;
  std::thread another = StartThread([state] { Serve(state); });
  // Without it the work waits for a thread that there is.
  if (!another.joinable()) return;
  ++state->threads;
  another.detach();
}

bool BlockingPool::Cancel(WorkId id) {
  const std::lock_guard lock(state_->mutex);
  return state_->queue.Cancel(id);
}

void BlockingPool::Serve(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    std::optional<WorkItem> item;
    ++state->idle;
    state->changed.wait(lock, [&] { return state->stopped || (item = state->queue.Begin()); });
    --state->idle;
    if (state->stopped) return;
    // Whoever is woken for new work, or has ended some, wakes the next one if there is more that may begin.
    WakeOne(state);
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
