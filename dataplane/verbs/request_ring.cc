// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/request_ring.h"

#include <algorithm>

namespace rdmabroker::verbs {

uint64_t RequestRing::Push(const PostedRequest& request) {
  Slot& slot = At(tail_);
  slot.request = request;
  slot.ended = NdkStatus::kPending;
  slot.provider_error = 0;
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

bool RequestRing::Complete(uint64_t sequence, NdkStatus status, uint32_t provider_error) {
  if (sequence < head_ || sequence >= tail_) return false;
  for (uint64_t before = head_; before < sequence; ++before) At(before).ended = NdkStatus::kSuccess;
  At(sequence).ended = status;
  At(sequence).provider_error = provider_error;
  return true;
}

void RequestRing::CancelBefore(uint64_t end) {
  for (uint64_t sequence = head_; sequence < end && sequence < tail_; ++sequence) {
    Slot& slot = At(sequence);
    if (slot.ended != NdkStatus::kPending) continue;
    slot.ended = slot.request.signal == Signal::kNone ? NdkStatus::kSuccess : NdkStatus::kCancelled;
  }
}

std::optional<FinishedRequest> RequestRing::TakeEnded() {
  if (empty() || At(head_).ended == NdkStatus::kPending) return std::nullopt;
  const Slot& slot = At(head_);
  beyond_ -= slot.request.beyond ? 1 : 0;
  return FinishedRequest{
      .sequence = head_++, .request = slot.request, .status = slot.ended, .provider_error = slot.provider_error};
}

}  // namespace rdmabroker::verbs
