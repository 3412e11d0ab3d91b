// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_SERVICE_CHATTER_H_
#define TESTS_SERVICE_CHATTER_H_

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "dataplane/adapter.h"

namespace rdmabroker::service {

// Messages back and forth, each with a sum and its place in the order: over some connections all the time, over the
// others once, at the end, which shows that they are sound. One thread moves those of both ends.
class Chatter {
 public:
  static constexpr size_t kMessageSize = 1024;

  // Before there are queue pairs. Connections are known by their numbers, of which the first are busy.
  Chatter(size_t connections, size_t busy);
  Chatter(const Chatter&) = delete;
  Chatter& operator=(const Chatter&) = delete;

  // For a queue pair's context.
  void* ActiveEnd(size_t connection) { return &active_[connection]; }
  void* PassiveEnd(size_t connection) { return &passive_[connection]; }
  // A completion queue has something.
  void Wake();

  // Registers the memory and posts the receives of one side's ends, whose queue pairs are not connected yet.
  void Prepare(ProtectionDomain& domain, CompletionQueue& queue, const std::vector<QueuePair*>& queue_pairs,
               bool active);
  // Once all are connected.
  void Start();
  // After Start. When each busy connection has carried further messages there and back; false: not so in time.
  bool CarryOn();
  // Once, after Start. When every connection has carried something, and all of it has been answered; false: that was
  // not so in time.
  bool Stop();
  // Before the domains go.
  void CloseRegions();

  struct Counts {
    uint64_t messages = 0;
    uint64_t bad = 0;                              // With a wrong sum, or not the next in order.
    uint64_t failures = 0;                         // Requests that ended with something else than success.
    std::chrono::milliseconds longest_silence{0};  // Of one connection, between a message and its answer.
  };
  // After Stop.
  const Counts& counts() const { return counts_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Message = std::array<uint64_t, kMessageSize / sizeof(uint64_t)>;

  struct End {
    uint64_t connection = 0;
    bool active = false;
    QueuePair* queue_pair = nullptr;
    LocalToken token = {};
    Message out = {};
    Message in = {};
    uint64_t sent = 0;
    std::atomic<uint64_t> received = 0;
    bool due = false;      // It is its turn to send.
    bool sending = false;  // The last message may not be touched yet.
    Clock::time_point not_before;
    Clock::time_point last_sent;
  };

  void Run();
  // Whose turn it is. True: nothing is under way, and every connection has carried something.
  bool Send(Clock::time_point now, bool stopping);
  void Send(End& end);
  void Take(CompletionQueue& queue);
  void Handle(const ResultEx& result);
  void Check(End& end, uint32_t size);
  void PostReceive(End& end);

  const size_t busy_;
  std::vector<End> active_;
  std::vector<End> passive_;
  std::vector<CompletionQueue*> queues_;
  std::vector<MemoryRegion*> regions_;
  Counts counts_;
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable answered_;  // Some messages, perhaps.
  bool woken_ = false;                // Guarded by mutex_, as the next two.
  bool stopping_ = false;
  bool stopped_ = false;
};

}  // namespace rdmabroker::service

#endif  // TESTS_SERVICE_CHATTER_H_
