// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_BENCH_DATA_PLANE_END_H_
#define TESTS_BENCH_DATA_PLANE_END_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/adapter.h"
#include "dataplane/ndk/qp_attributes.h"
#include "dataplane/ndk/status.h"
#include "tests/bench/bare_verbs.h"

namespace rdmabroker::bench {

// Ends the process with `what` and the status's name.
[[noreturn]] void FailWith(NdkStatus status, const char* what);

inline void RequireSuccess(NdkStatus status, const char* what) {
  if (status != NdkStatus::kSuccess) [[unlikely]]
    FailWith(status, what);
}

// BareEnd's counterpart on dataplane/verbs. Its objects stay until the process ends.
class DataPlaneEnd {
 public:
  DataPlaneEnd(Adapter& adapter, uint32_t depth, size_t buffer_size);

  uint32_t number() const { return queue_pair_->number(); }
  void Move(const QpAttributes& step);
  void Establish();

  void PostSend(uint32_t length);
  void PostWrite(uint32_t length, const DataPlaneEnd& other);
  void PostReceive(uint32_t length);
  void Await(size_t results);

 private:
  Sge Piece(uint32_t length) { return {buffer_.data(), length, region_->local_token()}; }

  std::vector<uint8_t> buffer_;
  CompletionQueue* queue_ = nullptr;
  QueuePair* queue_pair_ = nullptr;
  MemoryRegion* region_ = nullptr;
  std::array<ResultEx, kBatch> batch_;
  size_t ahead_ = 0;  // Results that came and were not awaited.
};

// A message there and one back; both ends take the results of their sends, too. One receive lies ready at `other`.
template <typename End>
void RoundTrip(uint32_t length, End& one, End& other) {
  one.PostReceive(length);
  one.PostSend(length);
  other.Await(1);
  other.PostReceive(length);
  other.PostSend(length);
  one.Await(2);
  other.Await(1);
}

}  // namespace rdmabroker::bench

#endif  // TESTS_BENCH_DATA_PLANE_END_H_
