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
  std::optional<BlockingPool::Towards> towards;
  BlockingPool::Work work;
  BlockingPool::Done done;
};

// How many threads there are for each key. Of keys without one it keeps nothing.
template <typename Key>
class ThreadCount {
 public:
  int Of(const Key& key) const {
    const auto found = counts_.find(key);
    return found == counts_.end() ? 0 : found->second;
  }
  void Add(const Key& key) { ++counts_[key]; }
  void Remove(const Key& key) {
    if (--counts_[key] == 0) counts_.erase(key);
  }

 private:
  std::map<Key, int> counts_;
};

}  // namespace

// Shared with the threads, which may outlive the pool.
struct BlockingPool::State {
  State(Executor& loop, int count) : executor(loop), threads(count) {}

  bool MayBegin(const Item& item) const {
    if (!item.towards) return true;
    return towards < threads * 3 / 4 && of_peer.Of(item.towards->peer) < threads / 2 &&
           of_session.Of(item.towards->session) < threads / 4 && of_both.Of(*item.towards) < threads / 8;
  }
  std::deque<Item>::iterator Next() {
    return std::find_if(queue.begin(), queue.end(), [this](const Item& item) { return MayBegin(item); });
  }
  void Begin(const Item& item) {
    if (!item.towards) return;
    ++towards;
    of_peer.Add(item.towards->peer);
    of_session.Add(item.towards->session);
    of_both.Add(*item.towards);
  }
  void End(const Item& item) {
    if (!item.towards) return;
    --towards;
    of_peer.Remove(item.towards->peer);
    of_session.Remove(item.towards->session);
    of_both.Remove(*item.towards);
  }

  Executor& executor;
  const int threads;
  std::mutex mutex;  // Guards what follows.
  std::condition_variable changed;
  std::deque<Item> queue;
  int towards = 0;  // Threads with work towards some peer; and those of each.
  ThreadCount<std::string> of_peer;
  ThreadCount<SessionId> of_session;
  ThreadCount<Towards> of_both;
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

WorkId BlockingPool::Add(std::optional<Towards> towards, Work work, Done done) {
  const std::lock_guard lock(state_->mutex);
  const WorkId id{++state_->last_id};
  state_->queue.push_back({id, std::move(towards), std::move(work), std::move(done)});
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
    state->Begin(item);
    // Whoever is woken for new work, or has ended some, wakes the next one if there is more that may begin.
    if (state->Next() != state->queue.end()) state->changed.notify_one();
    lock.unlock();
    const int outcome = item.work();
    item.work = nullptr;
    lock.lock();
    state->End(item);
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
