// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/shared_receive_queue.h"

#include <algorithm>
#include <utility>

#include "dataplane/catch_exceptions.h"
#include "dataplane/forked_child.h"
#include "dataplane/post_checks.h"
#include "dataplane/refusal.h"
#include "dataplane/verbs/verbs_status.h"
#include "dataplane/verbs/work_request.h"

namespace rdmabroker::verbs {
namespace {

NdkStatus RefuseDead() {
  return Refuse(NdkStatus::kInvalidDeviceState, "shared receive queue: its device has failed; make another one");
}

}  // namespace

VerbsSharedReceiveQueue::VerbsSharedReceiveQueue(VerbsProtectionDomain* domain, SharedReceiveQueueAttributes attributes)
    : domain_(domain),
      max_sge_(std::max(attributes.max_receive_request_sge, 1u)),
      notifications_(this, &domain->adapter()->thread(), std::move(attributes.notification)),
      depth_(attributes.depth),
      threshold_(attributes.notify_threshold),
      armed_(threshold_ > 0),
      sges_(max_sge_) {
  ReserveMemory(depth_);
}

NdkStatus VerbsSharedReceiveQueue::Make() {
  cookie_ = domain_->adapter()->thread().Register(this);
  ibv_srq_init_attr attributes = {};
  attributes.srq_context = cookie_;
  attributes.attr.max_wr = depth_;
  attributes.attr.max_sge = max_sge_;
  queue_ = ibv_create_srq(domain_->get(), &attributes);
  return FromPointer(queue_);
}

void VerbsSharedReceiveQueue::Dismantle() {
  if (queue_ != nullptr) ibv_destroy_srq(queue_);
  domain_->adapter()->thread().Forget(this);
}

void VerbsSharedReceiveQueue::OnClose() {
  domain_->adapter()->thread().Unregister(cookie_);
  notifications_.Close();
}

void VerbsSharedReceiveQueue::ReserveMemory(uint32_t depth) {
  contexts_.reserve(depth);
  free_places_.reserve(depth);
}

NdkStatus VerbsSharedReceiveQueue::Receive(void* request_context, std::span<const Sge> sges) {
  if (IsForkedChild()) return RefuseInForkedChild();
  if (sges.size() > max_sge_) {
    return RefusePieces(sges.size(), TotalLength(sges), max_sge_, domain_->adapter()->info().max_transfer_length);
  }
  const std::lock_guard lock(mutex_);
  if (dead_) return RefuseDead();
  if (queued_ >= depth_) return RefuseFullQueue(depth_);
  if (free_places_.empty()) {
    free_places_.push_back(static_cast<uint32_t>(contexts_.size()));
    contexts_.emplace_back();
  }
  const uint32_t place = free_places_.back();
  ibv_recv_wr request = ReceiveRequest(place, sges, domain_->adapter()->iwarp(), sges_.data());
  ibv_recv_wr* refused = nullptr;
  const NdkStatus status = FromPost(ibv_post_srq_recv(queue_, &request, &refused));
  if (status != NdkStatus::kSuccess) return status;
  free_places_.pop_back();
  contexts_[place] = request_context;
  ++queued_;
  // Not before: most hardware would find an empty queue below any threshold and say so.
  if (armed_ && !hardware_armed_ && queued_ >= threshold_) ArmHardware();
  return NdkStatus::kSuccess;
}

// What the hardware took it tells in time; what it took before is found out by those who poll.
void VerbsSharedReceiveQueue::ArmHardware() {
  ibv_srq_attr attributes = {};
  attributes.srq_limit = threshold_;
  hardware_armed_ = ibv_modify_srq(queue_, &attributes, IBV_SRQ_LIMIT) == 0;
}

std::optional<void*> VerbsSharedReceiveQueue::Complete(uint64_t place) {
  const std::lock_guard lock(mutex_);
  if (place >= contexts_.size() || !contexts_[place].has_value()) return std::nullopt;
  const auto context = std::exchange(contexts_[place], std::nullopt);
  free_places_.push_back(static_cast<uint32_t>(place));
  --queued_;
  if (armed_ && queued_ < threshold_) Notify(NdkStatus::kSuccess);
  return context;
}

NdkStatus VerbsSharedReceiveQueue::Modify(uint32_t depth, uint32_t notify_threshold) {
  if (IsForkedChild()) return RefuseInForkedChild();
  VerbsAdapter* const adapter = domain_->adapter();
  if (const uint32_t most = adapter->info().max_srq_depth; depth > most) return RefuseDepth(depth, most);
  if (depth > 0 && !adapter->description().resizes_srqs) {
    return Refuse(NdkStatus::kNotSupported,
                  "this device resizes no shared receive queues; make one as deep as is needed");
  }
  // What the hardware took before it is armed it will not tell.
  if (notify_threshold > 0) adapter->thread().ReapAll();
  const std::lock_guard lock(mutex_);
  if (dead_) return RefuseDead();
  if (const auto status = SetDepth(depth); status != NdkStatus::kSuccess || notify_threshold == 0) return status;
  threshold_ = notify_threshold;
  armed_ = true;
  if (queued_ < threshold_) {
    Notify(NdkStatus::kSuccess);
  } else {
    ArmHardware();
  }
  return NdkStatus::kSuccess;
}

NdkStatus VerbsSharedReceiveQueue::SetDepth(uint32_t depth) {
  if (depth == 0 || depth == depth_) return NdkStatus::kSuccess;
  if (depth < queued_) return RefuseShorterQueue(depth, queued_);
  return CatchExceptions([&] {
    ReserveMemory(depth);
    ibv_srq_attr attributes = {};
    attributes.max_wr = depth;
    const NdkStatus status = FromErrnoResult(ibv_modify_srq(queue_, &attributes, IBV_SRQ_MAX_WR));
    if (status == NdkStatus::kSuccess) depth_ = depth;
    return status;
  });
}

void VerbsSharedReceiveQueue::OnAsyncEvent(ibv_event_type type) {
  if (type != IBV_EVENT_SRQ_LIMIT_REACHED) return Die();
  const std::lock_guard lock(mutex_);
  // An event may be of an arm that the count has satisfied since.
  if (std::exchange(hardware_armed_, false) && armed_) Notify(NdkStatus::kSuccess);
}

void VerbsSharedReceiveQueue::Die() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(dead_, true)) return;
    Notify(NdkStatus::kInternalError);
  }
  domain_->adapter()->thread().TellOfFailure(*this);
}

void VerbsSharedReceiveQueue::Notify(NdkStatus status) {
  armed_ = false;
  hardware_armed_ = false;
  notifications_.Call(status);
}

}  // namespace rdmabroker::verbs
