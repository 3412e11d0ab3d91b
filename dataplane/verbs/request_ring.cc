// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/request_ring.h"

#include <algorithm>

namespace rdmabroker::verbs {

uint64_t RequestRing::Push(const PostedRequest& request) {
  At(tail_) = {.request = request};
  silent_ = request.signal == Signal::kNone ? silent_ + 1 : 0;
  beyond_ += request.beyond ? 1 : 0;
  return tail_++;
}

// A signalled one that is taken back leaves too small a count of silent ones before it, which recounting mends.
PostedRequest RequestRing::PopLast() {
  --tail_;
  silent_ = 0;
  while (silent_ < tail_ - head_ && At(tail_ - 1 - silent_).request.signal == Signal::kNone) ++silent_;
  beyond_ -= At(tail_).request.beyond ? 1 : 0;
  return At(tail_).request;
}

void RequestRing::EndFrom(uint64_t first, NdkStatus status) {
  for (uint64_t sequence = std::max(first, head_); sequence < tail_; ++sequence) {
    if (At(sequence).ended == NdkStatus::kPending) At(sequence).ended = status;
  }
}

void RequestRing::TakeFront(NdkStatus status, uint32_t provider_error, std::vector<FinishedRequest>* finished) {
  finished->push_back(
      {.sequence = head_, .request = At(head_).request, .status = status, .provider_error = provider_error});
  beyond_ -= At(head_).request.beyond ? 1 : 0;
  ++head_;
}

void RequestRing::Complete(uint64_t sequence, NdkStatus status, uint32_t provider_error,
                           std::vector<FinishedRequest>* finished) {
  if (sequence < head_ || sequence >= tail_) return;
  while (head_ < sequence) TakeFront(NdkStatus::kSuccess, 0, finished);
  TakeFront(status, provider_error, finished);
  TakeEnded(finished);
}

void RequestRing::TakeEnded(std::vector<FinishedRequest>* finished) {
  while (head_ < tail_ && At(head_).ended != NdkStatus::kPending) TakeFront(At(head_).ended, 0, finished);
}

void RequestRing::CancelBefore(uint64_t end, std::vector<FinishedRequest>* finished) {
  while (head_ < end && head_ < tail_) {
    const Slot& slot = At(head_);
    const NdkStatus unknown = slot.request.signal == Signal::kNone ? NdkStatus::kSuccess : NdkStatus::kCancelled;
    TakeFront(slot.ended == NdkStatus::kPending ? unknown : slot.ended, 0, finished);
  }
}

}  // namespace rdmabroker::verbs
