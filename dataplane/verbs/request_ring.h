// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_REQUEST_RING_H_
#define DATAPLANE_VERBS_REQUEST_RING_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "dataplane/operation.h"

namespace rdmabroker::verbs {

// Which requests the hardware reports even if they succeed.
enum class Signal : uint8_t {
  kNone,      // Not this one: a later one that is reported tells that it is done.
  kHidden,    // This one, so that the places of those before it come free; the consumer is told nothing.
  kReported,  // This one, and the consumer is told.
};

// As the end of a range: no request has this sequence number.
inline constexpr uint64_t kAllRequests = std::numeric_limits<uint64_t>::max();

struct PostedRequest {
  void* context = nullptr;
  OperationType type = OperationType::kReceive;
  Signal signal = Signal::kReported;
  bool internal = false;  // Not the consumer's own: has no result, however it ends.
  bool beyond = false;    // Takes none of the consumer's places.
};

struct FinishedRequest {
  uint64_t sequence = 0;
  PostedRequest request;
  NdkStatus status = NdkStatus::kSuccess;
  uint32_t provider_error = 0;

  bool reported() const {
    return !request.internal && (status != NdkStatus::kSuccess || request.signal == Signal::kReported);
  }
};

// The requests of one queue that the hardware has, oldest first, by sequence numbers that never come again. Requests
// end in order: the completion of one tells that those before it have succeeded. Not thread-safe.
class RequestRing {
 public:
  // So many that take a place, and so many beyond.
  explicit RequestRing(size_t capacity, size_t beyond = 0)
      : capacity_(capacity), slots_(std::bit_ceil(capacity + beyond)) {}

  size_t room() const { return capacity_ + beyond_ - (tail_ - head_); }
  // How many are there that take no place.
  size_t beyond() const { return beyond_; }
  bool empty() const { return head_ == tail_; }
  // The number of the next request.
  uint64_t tail() const { return tail_; }
  // Where a request of the ring lies, which no other one of the ring does, out of so many.
  size_t SlotOf(uint64_t sequence) const { return sequence & (slots_.size() - 1); }
  size_t slots() const { return slots_.size(); }

  // Whether a silent request that is pushed next should be signalled, since half of the places are already taken by
  // requests that nothing reports; and whether it must be, lest they never come free.
  bool wants_signal() const { return silent_ + 1 >= (capacity_ + 1) / 2; }
  bool needs_signal() const { return silent_ + 1 >= capacity_; }

  // There must be room.
  uint64_t Push(const PostedRequest& request);
  // The last one, which was not posted after all.
  PostedRequest PopLast();
  // The hardware will say nothing of the requests from `first` on, which end like this.
  void EndFrom(uint64_t first, NdkStatus status);

  // The hardware has reported this request: ends it like this, and those before it as successes. False: it is not in
  // the ring, as one of an earlier life of the queue pair, and nothing has changed.
  bool Complete(uint64_t sequence, NdkStatus status, uint32_t provider_error);
  // Takes it out where it is all that is done by that, as it is most often. Nothing: more is done, or less.
  std::optional<PostedRequest> CompleteAlone(uint64_t sequence) {
    if (sequence != head_ || empty()) return std::nullopt;
    if (sequence + 1 < tail_ && At(sequence + 1).ended != NdkStatus::kPending) return std::nullopt;
    ++head_;
    const PostedRequest& request = At(sequence).request;
    beyond_ -= request.beyond ? 1 : 0;
    return request;
  }
  // The hardware says no more of those before `end`: those that have not ended are cancelled. Silent ones count as
  // done: nothing tells those that are from those that are not.
  void CancelBefore(uint64_t end);
  // Takes out the first request if it has ended.
  std::optional<FinishedRequest> TakeEnded();

 private:
  struct Slot {
    PostedRequest request;
    NdkStatus ended = NdkStatus::kPending;  // How; kPending: it has not.
    uint32_t provider_error = 0;
  };

  Slot& At(uint64_t sequence) { return slots_[SlotOf(sequence)]; }

  const size_t capacity_;
  std::vector<Slot> slots_;  // A power of two: every request looks its slot up several times, and a division is slow.
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
  size_t silent_ = 0;  // How many of the last ones are not signalled.
  size_t beyond_ = 0;  // How many take no place.
};

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_REQUEST_RING_H_
