// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_BENCH_BARE_VERBS_H_
#define TESTS_BENCH_BARE_VERBS_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/ndk/qp_attributes.h"

namespace rdmabroker::bench {

// libibverbs with nothing between: the yardstick of dataplane/verbs. What fails ends the process.

// A device with a protection domain.
class BareDevice {
 public:
  explicit BareDevice(const std::string& name);
  ~BareDevice();
  BareDevice(const BareDevice&) = delete;
  BareDevice& operator=(const BareDevice&) = delete;

  ibv_context* context() const { return context_; }
  ibv_pd* domain() const { return domain_; }
  // The drivers of iWARP devices move queue pairs themselves.
  bool iwarp() const { return context_->device->transport_type == IBV_TRANSPORT_IWARP; }

 private:
  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
};

// A queue pair that a connection manager can connect.
class BareQueuePair {
 public:
  // `depth` requests of one piece in either queue.
  BareQueuePair(const BareDevice& device, ibv_cq* queue, uint32_t depth);
  ~BareQueuePair();
  BareQueuePair(const BareQueuePair&) = delete;
  BareQueuePair& operator=(const BareQueuePair&) = delete;

  ibv_qp* get() const { return queue_pair_; }
  uint32_t number() const { return queue_pair_->qp_num; }
  // One transition, with what the connection manager has said of it.
  void Move(const QpAttributes& step);

 private:
  ibv_qp* queue_pair_ = nullptr;
};

// Results that the loops of the benchmark ask for at a time.
inline constexpr size_t kBatch = 16;

// A queue pair with a completion queue and a buffer of its own, for the loops of the benchmark.
class BareEnd {
 public:
  BareEnd(const BareDevice& device, uint32_t depth, size_t buffer_size);
  ~BareEnd();
  BareEnd(const BareEnd&) = delete;
  BareEnd& operator=(const BareEnd&) = delete;

  uint32_t number() const { return queue_pair_.number(); }
  void Move(const QpAttributes& step) { queue_pair_.Move(step); }
  void Establish() {}

  void PostSend(uint32_t length) { Post(IBV_WR_SEND, length, {}, 0); }
  // From this end's buffer into the other's.
  void PostWrite(uint32_t length, const BareEnd& other) {
    Post(IBV_WR_RDMA_WRITE, length, other.buffer_.data(), other.region_->rkey);
  }
  void PostReceive(uint32_t length);
  // Polls until so many more results have come.
  void Await(size_t results);

 private:
  void Post(ibv_wr_opcode opcode, uint32_t length, const void* target, uint32_t key);
  ibv_sge Piece(uint32_t length);

  ibv_cq* const queue_;
  std::vector<uint8_t> buffer_;
  ibv_mr* region_ = nullptr;
  BareQueuePair queue_pair_;
  std::array<ibv_wc, kBatch> batch_;
  size_t ahead_ = 0;  // Results that came and were not awaited.
};

}  // namespace rdmabroker::bench

#endif  // TESTS_BENCH_BARE_VERBS_H_
