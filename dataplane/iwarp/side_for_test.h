// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_SIDE_FOR_TEST_H_
#define DATAPLANE_IWARP_SIDE_FOR_TEST_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dataplane/adapter.h"
#include "dataplane/iwarp/adapter.h"
#include "dataplane/iwarp/tcp_pair_for_test.h"
#include "dataplane/iwarp/wire/connection_state.h"

namespace rdmabroker::iwarp {

// A bound for what is sure to happen, so that a test that fails ends.
inline constexpr std::chrono::seconds kPatience{20};

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
  Buffer(ProtectionDomain* domain, size_t size, MrFlags flags) : bytes_(size) {
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
};

// One process's worth of objects.
class Side {
 public:
  // On an adapter of its own, or on one that somebody else has opened and closes.
  explicit Side(const SideOptions& options = {}, Adapter* opened = nullptr) : owns_adapter_(opened == nullptr) {
    adapter = owns_adapter_ ? OpenAdapter().object : opened;
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
  ~Side() { Close(); }

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
                           .inline_data_size = options.inline_data})
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

  NdkStatus Attach(UniqueFd socket, const ConnectionState& state) {
    return qp->Attach({std::move(socket), EncodeConnectionState(state)}, [this](const ConnectionEnd& how) {
      const std::lock_guard lock(mutex);
      ends.push_back(how);
    });
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

struct States {
  ConnectionState active, passive;
};

// Of a three-way handshake by the write form, which leaves no trace in the numbers.
inline States StatesFor(bool crc = true, uint32_t fpdu_limit = kMaxFpduLength, uint32_t reads = 16) {
  States states;
  for (ConnectionState* state : {&states.active, &states.passive}) {
    state->ready_to_receive = ReadyToReceive::kWrite;
    state->crc = crc;
    state->fpdu_limit = fpdu_limit;
    state->inbound_read_limit = reads;
    state->outbound_read_limit = reads;
  }
  states.passive.role = Role::kResponder;
  return states;
}

inline void Connect(Side& active, Side& passive, const States& states = StatesFor(), int family = AF_INET) {
  TcpPair pair = ConnectTcpPair(family);
  ASSERT_EQ(active.Attach(std::move(pair.active), states.active), NdkStatus::kSuccess);
  ASSERT_EQ(passive.Attach(std::move(pair.passive), states.passive), NdkStatus::kSuccess);
}

// A request context that a test can tell.
inline void* Context(uintptr_t number) { return reinterpret_cast<void*>(number); }

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_SIDE_FOR_TEST_H_
