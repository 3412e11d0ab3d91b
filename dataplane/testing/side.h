// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_TESTING_SIDE_H_
#define DATAPLANE_TESTING_SIDE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "dataplane/adapter.h"

namespace rdmabroker {

// A bound for what is sure to happen, so that a test that fails ends.
inline constexpr std::chrono::seconds kPatience{60};

// Waits, without polling any queue, until the condition holds.
inline bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// Closes an object and waits until it is closed: the progress thread may still hold it for a moment.
inline void CloseAndWait(DataObject* object) {
  std::atomic<bool> closed = false;
  if (object->Close([&] { closed = true; }) == NdkStatus::kSuccess) return;
  EXPECT_TRUE(Eventually([&] { return closed.load(); })) << "the object's close does not complete";
}

// Registered memory.
class Buffer {
 public:
  // Filled before it is registered, where there is a seed: who looks the region up for a peer's read then sees it.
  Buffer(ProtectionDomain* domain, size_t size, MrFlags flags, std::optional<uint32_t> seed = {}) : bytes_(size) {
    if (seed) Fill(*seed);
    region_ = domain->CreateMemoryRegion(false).object;
    EXPECT_EQ(region_->Register(bytes_.data(), size, flags), NdkStatus::kSuccess);
  }
  ~Buffer() { Close(); }
  void Close() {
    if (region_ != nullptr) CloseAndWait(std::exchange(region_, nullptr));
  }

  Sge sge(size_t offset, size_t length) {
    return {bytes_.data() + offset, static_cast<uint32_t>(length), region_->local_token()};
  }
  Sge sge() { return sge(0, bytes_.size()); }
  RemoteMemory remote(size_t offset = 0) {
    return {reinterpret_cast<uint64_t>(bytes_.data()) + offset, region_->remote_token()};
  }
  void Fill(uint32_t seed) {
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<uint8_t>((i * 2654435761u + seed) >> 13);
  }
  MemoryRegion* region() { return region_; }
  std::vector<uint8_t>& bytes() { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
  MemoryRegion* region_ = nullptr;
};

inline constexpr MrFlags kAllAccess = kMrAllowRemoteRead | kMrAllowRemoteWrite;

struct SideOptions {
  uint32_t depth = 64;
  uint32_t cq_depth = 1024;
  uint32_t max_sge = 4;
  uint32_t inline_data = 64;
  bool srq = false;
  std::chrono::seconds keepalive = kDefaultKeepalive;
};

// One process's worth of objects.
class DataSide {
 public:
  // Closes the adapter with the rest if it owns it.
  DataSide(Adapter* opened, bool owns_adapter, const SideOptions& options)
      : adapter(opened), owns_adapter_(owns_adapter) {
    domain = adapter->CreateProtectionDomain().object;
    cq = adapter
             ->CreateCompletionQueue(options.cq_depth,
                                     [this](NdkStatus status) {
                                       EXPECT_FALSE(in_callback.exchange(true)) << "notifications overlap";
                                       last_notification = status;
                                       ++notifications;
                                       in_callback = false;
                                     })
             .object;
    if (options.srq) {
      srq = domain
                ->CreateSharedReceiveQueue({.depth = options.depth,
                                            .max_receive_request_sge = options.max_sge,
                                            .notify_threshold = 0,
                                            .notification = [this](NdkStatus) { ++srq_notifications; }})
                .object;
    }
    qp = NewQueuePair(options, this);
  }
  ~DataSide() { Close(); }
  DataSide(const DataSide&) = delete;
  DataSide& operator=(const DataSide&) = delete;

  QueuePair* NewQueuePair(const SideOptions& options, void* context) {
    return domain
        ->CreateQueuePair({.receive_cq = cq,
                           .initiator_cq = cq,
                           .srq = srq,
                           .context = context,
                           .receive_queue_depth = options.depth,
                           .initiator_queue_depth = options.depth,
                           .max_receive_request_sge = options.max_sge,
                           .max_initiator_request_sge = options.max_sge,
                           .inline_data_size = options.inline_data,
                           .keepalive = options.keepalive})
        .object;
  }

  // Closes everything, antecedents last, and waits for it.
  void Close() {
    if (adapter == nullptr) return;
    const auto close = [this](DataObject* object) {
      if (object == nullptr) return;
      ++open;
      if (object->Close([this] { --open; }) == NdkStatus::kSuccess) --open;
    };
    close(qp), close(srq), close(cq), close(domain);
    if (owns_adapter_) close(adapter);
    adapter = nullptr;
    EXPECT_TRUE(Eventually([this] { return open == 0; })) << "an object's close does not complete";
  }

  // Notes the end of its queue pair's connection.
  ConnectionEndCallback NotesEnd() {
    return [this](const ConnectionEnd& how) {
      const std::lock_guard lock(mutex);
      ends.push_back(how);
    };
  }

  // Polls until there are that many results.
  std::vector<ResultEx> Results(size_t count) {
    std::vector<ResultEx> results;
    ResultEx batch[16];
    EXPECT_TRUE(Eventually([&] {
      const size_t got = cq->GetResultsEx(std::span(batch).first(std::min<size_t>(16, count - results.size())));
      results.insert(results.end(), batch, batch + got);
      return results.size() >= count;
    })) << results.size()
        << " of " << count << " results";
    results.resize(count);
    return results;
  }
  ResultEx Next() { return Results(1).front(); }

  size_t EndCount() {
    const std::lock_guard lock(mutex);
    return ends.size();
  }
  // Waits for the end of the connection that the other side or a fault brings about.
  ConnectionEnd End() {
    EXPECT_TRUE(Eventually([this] { return EndCount() > 0; })) << "no end of the connection was reported";
    const std::lock_guard lock(mutex);
    EXPECT_EQ(ends.size(), 1u);
    return ends.empty() ? ConnectionEnd() : ends.front();
  }

  std::atomic<bool> in_callback = false;
  std::atomic<int> notifications = 0;
  std::atomic<int> srq_notifications = 0;
  std::atomic<NdkStatus> last_notification = NdkStatus::kSuccess;
  std::atomic<int> open = 0;
  Adapter* adapter = nullptr;
  ProtectionDomain* domain = nullptr;
  CompletionQueue* cq = nullptr;
  SharedReceiveQueue* srq = nullptr;
  QueuePair* qp = nullptr;
  std::mutex mutex;
  std::vector<ConnectionEnd> ends;

 private:
  const bool owns_adapter_;
};

// Returns when the side's adapter has called everything that was due before: it calls in order.
inline void AwaitCallbacks(DataSide& side) {
  std::atomic<int> called = 0;
  CompletionQueue* const queue = side.adapter->CreateCompletionQueue(4, [&called](NdkStatus) { ++called; }).object;
  QueuePair* const qp =
      side.domain->CreateQueuePair({.receive_cq = queue, .initiator_cq = queue, .receive_queue_depth = 1}).object;
  ASSERT_EQ(qp->Receive(nullptr, {}), NdkStatus::kSuccess);
  queue->Arm(CqNotify::kAny);
  qp->Flush();
  EXPECT_TRUE(Eventually([&] { return called > 0; }));
  CloseAndWait(qp), CloseAndWait(queue);
}

// A request context that a test can tell.
inline void* Context(uintptr_t number) { return reinterpret_cast<void*>(number); }

}  // namespace rdmabroker

#endif  // DATAPLANE_TESTING_SIDE_H_
