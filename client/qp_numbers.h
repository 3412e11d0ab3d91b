// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_QP_NUMBERS_H_
#define CLIENT_QP_NUMBERS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "dataplane/queue_pair.h"

namespace rdmabroker::client {

// The number by which the broker knows a queue pair.
enum class QpNumber : uint32_t {};

// A connector's hold on its queue pair, which is its antecedent, and on the number that goes with it.
class HeldQueuePair {
 public:
  HeldQueuePair(QueuePair* queue_pair, QpNumber number) : queue_pair_(queue_pair), number_(number) {}

  QueuePair* get() const { return queue_pair_.get(); }
  QueuePair* operator->() const { return queue_pair_.get(); }
  QpNumber number() const { return number_; }

 private:
  const ObjectReference<QueuePair> queue_pair_;
  const QpNumber number_;
};

// Numbers for queue pairs whose adapter gives them none: the same for a queue pair as long as a connector holds it, so
// that the broker sees when it is used twice. Any thread.
class QpNumbers {
 public:
  std::shared_ptr<HeldQueuePair> Hold(QueuePair* queue_pair) {
    const std::lock_guard lock(mutex_);
    if (queue_pair->number() != 0) return std::make_shared<HeldQueuePair>(queue_pair, QpNumber{queue_pair->number()});
    std::weak_ptr<HeldQueuePair>& known = held_[queue_pair];
    if (auto held = known.lock(); held != nullptr) return held;
    auto held = std::make_shared<HeldQueuePair>(queue_pair, Next());
    known = held;
    return held;
  }

  // Forgets the queue pairs that nothing holds any more.
  void Sweep() {
    const std::lock_guard lock(mutex_);
    std::erase_if(held_, [](const auto& entry) { return entry.second.expired(); });
  }

 private:
  // 24 bits, from 1, as the wire contract has it.
  QpNumber Next() {
    last_ = last_ + 1 < 1u << 24 ? last_ + 1 : 1;
    return QpNumber{last_};
  }

  std::mutex mutex_;
  uint32_t last_ = 0;
  std::map<const QueuePair*, std::weak_ptr<HeldQueuePair>> held_;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_QP_NUMBERS_H_
