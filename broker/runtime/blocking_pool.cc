// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/blocking_pool.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace rdmabroker {
namespace {

struct Item {
  WorkId id = WorkId::kNone;
  std::string destination;
  BlockingPool::Work work;
  BlockingPool::Done done;
};

}  // namespace

// Shared with the threads, which may outlive the pool.
struct BlockingPool::State {
  State(Executor& loop, int count) : executor(loop), threads(count) {}

  bool MayBegin(const Item& item) const {
    if (item.destination.empty()) return true;
    const auto found = blocked_on.find(item.destination);
    return towards < threads * 3 / 4 && (found == blocked_on.end() || found->second < threads / 2);
  }
  std::deque<Item>::iterator Next() {
    return std::find_if(queue.begin(), queue.end(), [this](const Item& item) { return MayBegin(item); });
  }
  void Begin(const std::string& destination) {
    if (destination.empty()) return;
    ++towards;
    ++blocked_on[destination];
  }
  void End(const std::string& destination) {
    if (destination.empty()) return;
    --towards;
    if (--blocked_on[destination] == 0) blocked_on.erase(destination);
  }

  Executor& executor;
  const int threads;
  std::mutex mutex;  // Guards what follows.
  std::condition_variable changed;
  std::deque<Item> queue;
  int towards = 0;                        // Threads with work towards some destination,
  std::map<std::string, int> blocked_on;  // and by destination.
  uint64_t last_id = 0;
  bool stopped = false;
};

BlockingPool::BlockingPool(Executor& executor, int threads) : state_(std::make_shared<State>(executor, threads)) {
  for (int i = 0; i < threads; ++i) std::thread(Serve, state_).detach();
}

BlockingPool::~BlockingPool() {
  const std::lock_guard lock(state_->mutex);
  state_->stopped = true;
  state_->changed.notify_all();
}

WorkId BlockingPool::RunTowards(std::string destination, Work work, Done done) {
  const std::lock_guard lock(state_->mutex);
  const WorkId id{++state_->last_id};
  state_->queue.push_back({id, std::move(destination), std::move(work), std::move(done)});
  state_->changed.notify_one();
  return id;
}

bool BlockingPool::Cancel(WorkId id) {
  const std::lock_guard lock(state_->mutex);
  return std::erase_if(state_->queue, [id](const Item& item) { return item.id == id; }) != 0;
}

void BlockingPool::Serve(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->stopped || state->Next() != state->queue.end(); });
    if (state->stopped) return;
    const auto next = state->Next();
    Item item = std::move(*next);
    state->queue.erase(next);
    state->Begin(item.destination);
    lock.unlock();
    const int outcome = item.work();
    item.work = nullptr;
    lock.lock();
    state->End(item.destination);
    // What had to wait for this destination may go on elsewhere.
    state->changed.notify_all();
    if (state->stopped) return;
    state->executor.Post([state, done = std::move(item.done), outcome] {
      {
        const std::lock_guard guard(state->mutex);
        if (state->stopped) return;
      }
      done(outcome);
    });
  }
}

}  // namespace rdmabroker
