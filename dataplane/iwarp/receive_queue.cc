// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/receive_queue.h"

#include <algorithm>
#include <utility>

#include "dataplane/catch_exceptions.h"
#include "dataplane/forked_child.h"
#include "dataplane/iwarp/progress_thread.h"
#include "dataplane/iwarp/wire/adapter_limits.h"
#include "dataplane/post_checks.h"
#include "dataplane/refusal.h"

namespace rdmabroker::iwarp {

NdkStatus ReceiveQueue::Post(void* context, std::span<const Sge> sges) {
  if (sges.size() > max_sge_) return RefusePieces(sges.size(), TotalLength(sges), max_sge_, kMaxTransfer);
  const std::lock_guard lock(mutex_);
  if (requests_.size() >= depth_) return RefuseFullQueue(depth_);
  // For this one and all that are posted, when they are done.
  const size_t most = requests_.size() + 1;
  if (most > spare_.capacity()) spare_.reserve(std::min<size_t>(2 * most, depth_));
  ReceiveRequest request;
  if (!spare_.empty()) {
    request = std::move(spare_.back());
    spare_.pop_back();
  }
  request.context = context;
  request.sges.assign(sges.begin(), sges.end());
  requests_.push_back(std::move(request));
  return NdkStatus::kSuccess;
}

std::optional<ReceiveRequest> ReceiveQueue::Take() {
  const std::lock_guard lock(mutex_);
  if (requests_.empty()) return std::nullopt;
  std::optional<ReceiveRequest> request(std::move(requests_.front()));
  requests_.pop_front();
  return request;
}

void ReceiveQueue::Recycle(ReceiveRequest request) {
  const std::lock_guard lock(mutex_);
  if (spare_.size() < spare_.capacity()) spare_.push_back(std::move(request));
}

NdkStatus ReceiveQueue::SetDepth(uint32_t depth) {
  const std::lock_guard lock(mutex_);
  if (depth < requests_.size()) return RefuseShorterQueue(depth, requests_.size());
  depth_ = depth;
  return NdkStatus::kSuccess;
}

size_t ReceiveQueue::size() const {
  const std::lock_guard lock(mutex_);
  return requests_.size();
}

SoftwareSharedReceiveQueue::SoftwareSharedReceiveQueue(ProtectionDomain* domain, CompletionQueueList* completion_queues,
                                                       uint32_t max_depth, SharedReceiveQueueAttributes attributes)
    : domain_(domain),
      completion_queues_(completion_queues),
      max_depth_(max_depth),
      notifications_(this, &ProgressThread::Get(), std::move(attributes.notification)),
      queue_(attributes.depth, attributes.max_receive_request_sge),
      threshold_(attributes.notify_threshold),
      armed_(threshold_ > 0) {}

NdkStatus SoftwareSharedReceiveQueue::Receive(void* request_context, std::span<const Sge> sges) {
  if (IsForkedChild()) return RefuseInForkedChild();
  return CatchExceptions([&] { return queue_.Post(request_context, sges); });
}

NdkStatus SoftwareSharedReceiveQueue::Modify(uint32_t depth, uint32_t notify_threshold) {
  if (IsForkedChild()) return RefuseInForkedChild();
  if (depth > max_depth_) return RefuseDepth(depth, max_depth_);
  if (depth > 0) {
    if (const NdkStatus status = queue_.SetDepth(depth); status != NdkStatus::kSuccess) return status;
  }
  if (notify_threshold == 0) return NdkStatus::kSuccess;
  {
    const std::lock_guard lock(mutex_);
    threshold_ = notify_threshold;
    armed_ = true;
  }
  NotifyIfBelow(queue_.size());
  return NdkStatus::kSuccess;
}

std::optional<ReceiveRequest> SoftwareSharedReceiveQueue::Take() {
  std::optional<ReceiveRequest> request = queue_.Take();
  // An empty queue was below the threshold before; only the step below it counts.
  if (request) NotifyIfBelow(queue_.size());
  return request;
}

void SoftwareSharedReceiveQueue::NotifyIfBelow(size_t queued) {
  const std::lock_guard lock(mutex_);
  if (!armed_ || queued >= threshold_) return;
  armed_ = false;
  notifications_.Call(NdkStatus::kSuccess);
}

}  // namespace rdmabroker::iwarp
