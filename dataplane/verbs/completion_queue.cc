// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/completion_queue.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "dataplane/adapter_checks.h"
#include "dataplane/catch_exceptions.h"
#include "dataplane/forked_child.h"
#include "dataplane/post_checks.h"
#include "dataplane/refusal.h"
#include "dataplane/verbs/queue_pair.h"
#include "dataplane/verbs/verbs_status.h"

namespace rdmabroker::verbs {
namespace {

bool IsReceive(OperationType type) {
  return type == OperationType::kReceive || type == OperationType::kReceiveAndInvalidate;
}

}  // namespace

VerbsCompletionQueue::VerbsCompletionQueue(VerbsAdapter* adapter, uint32_t depth, CqNotification notification)
    : adapter_(adapter), notifications_(this, &adapter->thread(), std::move(notification)), waiting_(depth) {}

NdkStatus VerbsCompletionQueue::Make() {
  cookie_ = adapter_->thread().Register(this);
  const int entries = static_cast<int>(waiting_.depth() + kHiddenCompletions);
  queue_ = ibv_create_cq(adapter_->context(), entries, cookie_, adapter_->thread().channel(), 0);
  return FromPointer(queue_);
}

void VerbsCompletionQueue::Dismantle() {
  if (queue_ != nullptr) ibv_destroy_cq(queue_);
  adapter_->DropDeviceUse();
}

void VerbsCompletionQueue::OnClose() {
  adapter_->thread().Unregister(cookie_);
  notifications_.Close();
  const std::lock_guard lock(mutex_);
  arming_.Disarm();
}

size_t VerbsCompletionQueue::GetResultsEx(std::span<ResultEx> results) {
  if (IsForkedChild()) return 0;
  DroppedReferences dropped;
  const std::lock_guard lock(mutex_);
  const size_t waited = waiting_.Take(results);
  // What is found goes to the consumer directly. Again where completions were none of the consumer's, unless the
  // hardware had no more.
  wanted_ = results.subspan(waited);
  for (size_t asked = wanted_.size(); asked > 0 && Poll(asked, &dropped) == asked;) asked = wanted_.size();
  const size_t taken = results.size() - wanted_.size();
  wanted_ = {};
  arming_.HandleTaken(waiting_.size());
  return taken;
}

// Returns how many completions it took from the hardware, whose consumer may know nothing of them.
size_t VerbsCompletionQueue::Poll(size_t limit, DroppedReferences* dropped) {
  std::array<ibv_wc, 16> batch;
  size_t total = 0;
  while (total < limit) {
    const size_t wanted = std::min(batch.size(), limit - total);
    const int polled = ibv_poll_cq(queue_, static_cast<int>(wanted), batch.data());
    // What lies in the queue is out of reach.
    if (polled < 0) Die(NdkStatus::kInternalError);
    const size_t got = polled < 0 ? 0 : static_cast<size_t>(polled);
    for (const ibv_wc& completion : std::span(batch).first(got)) {
      VerbsQueuePair* const queue_pair = Find(completion.qp_num);
      if (queue_pair != nullptr) queue_pair->HandleCompletion(completion, this, dropped);
    }
    total += got;
    if (got < wanted) break;
  }
  return total;
}

// Most often the one that the completion before was of.
VerbsQueuePair* VerbsCompletionQueue::Find(uint32_t number) {
  if (last_found_ == nullptr || last_number_ != number) {
    const auto found = queue_pairs_.find(number);
    last_number_ = number;
    last_found_ = found == queue_pairs_.end() ? nullptr : found->second;
  }
  return last_found_;
}

// No more than the hardware could hold: who does not take results out overruns the queue in the end.
void VerbsCompletionQueue::Reap() {
  DroppedReferences dropped;
  const std::lock_guard lock(mutex_);
  while (Holds(16) && Poll(16, &dropped) == 16) {
  }
}

bool VerbsCompletionQueue::HardwareDecides() const {
  return arming_.armed_for(CqNotify::kSolicited) && adapter_->description().tells_of_solicited;
}

// libibverbs does not tell which receives were solicited. While the queue is armed for those the hardware tells; of
// those that lie there when it is armed each may be one.
void VerbsCompletionQueue::Add(const ResultEx& result, const ResultOwner& owner) {
  if (!wanted_.empty()) {
    wanted_.front() = result;
    wanted_ = wanted_.subspan(1);
  } else if (!waiting_.Add(result, owner)) {
    return Die(NdkStatus::kBufferOverflow);
  }
  const bool failure = result.status != NdkStatus::kSuccess;
  const bool receive = IsReceive(result.type);
  receive_seen_ |= receive;
  const bool solicited = receive && (looking_back_ || !HardwareDecides());
  if (arming_.HandleResult(failure || solicited)) Notify(NdkStatus::kSuccess);
}

void VerbsCompletionQueue::Arm(CqNotify type) {
  if (IsForkedChild()) return;
  DroppedReferences dropped;
  const std::lock_guard lock(mutex_);
  if (!arming_.armed()) receive_seen_ = false;
  const bool due = arming_.Arm(type);
  if (dead_.has_value() || due) {
    Notify(dead_.value_or(NdkStatus::kSuccess));
  } else if (arming_.armed_for_results()) {
    ArmHardware(&dropped);
  }
}

void VerbsCompletionQueue::ArmHardware(DroppedReferences* dropped) {
  const bool solicited = HardwareDecides();
  // Nobody would be woken.
  if (ibv_req_notify_cq(queue_, solicited ? 1 : 0) != 0) return Die(NdkStatus::kInternalError);
  hardware_armed_for_any_ |= !solicited;
  looking_back_ = true;
  while (arming_.armed() && Holds(1) && Poll(1, dropped) == 1) {
  }
  looking_back_ = false;
}

// The event may be of an arm that somebody who polled has satisfied since, or of a completion that the consumer does
// not know of.
void VerbsCompletionQueue::OnCompletionEvent() {
  DroppedReferences dropped;
  const std::lock_guard lock(mutex_);
  const bool for_any = std::exchange(hardware_armed_for_any_, false);
  while (arming_.armed_for_results() && Holds(1) && Poll(1, &dropped) == 1) {
  }
  if (!arming_.armed_for_results()) return;
  if (HardwareDecides() && (!for_any || receive_seen_)) {
    Notify(NdkStatus::kSuccess);
  } else {
    ArmHardware(&dropped);
  }
}

void VerbsCompletionQueue::Notify(NdkStatus status) {
  arming_.Disarm();
  notifications_.Call(status);
}

// A queue that overran is full still: nobody but this function empties it.
void VerbsCompletionQueue::OnAsyncEvent(ibv_event_type type) {
  DroppedReferences dropped;
  const std::lock_guard lock(mutex_);
  const size_t entries = static_cast<size_t>(queue_->cqe);
  const bool overrun = Poll(entries, &dropped) == entries && type == IBV_EVENT_CQ_ERR;
  Die(overrun ? NdkStatus::kBufferOverflow : NdkStatus::kInternalError);
}

void VerbsCompletionQueue::Die(NdkStatus why) {
  if (dead_.has_value()) return;
  dead_ = why;
  if (arming_.armed()) Notify(why);
  for (const auto& [number, queue_pair] : queue_pairs_) queue_pair->Break(0);
}

// The hardware gives a number away again as soon as it has destroyed the queue pair that had it. What it says of that
// one is all in its queue by then, and is taken in here, for the former owner or for nobody: later it would be taken
// for the new one's, which has posted nothing yet. The former owner is there as long as its entry is.
bool VerbsCompletionQueue::Attach(uint32_t number, VerbsQueuePair* queue_pair) {
  DroppedReferences dropped;
  const std::lock_guard lock(mutex_);
  if (dead_.has_value()) return false;
  Poll(static_cast<size_t>(queue_->cqe), &dropped);
  last_found_ = nullptr;
  queue_pairs_[number] = queue_pair;
  MakeHiddenPlaces();
  return true;
}

void VerbsCompletionQueue::Renumber(uint32_t number, uint32_t next, VerbsQueuePair* queue_pair) {
  DroppedReferences dropped;
  const std::lock_guard lock(mutex_);
  Poll(static_cast<size_t>(queue_->cqe), &dropped);
  last_found_ = nullptr;
  auto entry = queue_pairs_.extract(number);
  // It has it already where both of its queues are this one.
  if (entry.empty()) return;
  entry.key() = next;
  // No more than there were before, so that the table stays as it is.
  queue_pairs_.insert(std::move(entry)).position->second = queue_pair;
}

// Each queue pair may need a place of either kind. Where there can be no more, they take turns.
void VerbsCompletionQueue::MakeHiddenPlaces() {
  const AdapterInfo& info = adapter_->info();
  if (queue_pairs_.size() <= hidden_ / 2 || (info.adapter_flags & kCqResizeSupported) == 0) return;
  const size_t entries = waiting_.depth() + size_t{2} * hidden_;
  if (entries > size_t{info.max_cq_depth} + kHiddenCompletions) return;
  if (ibv_resize_cq(queue_, static_cast<int>(entries)) == 0) SetHiddenPlaces(2 * hidden_);
}

void VerbsCompletionQueue::SetHiddenPlaces(uint32_t count) {
  hidden_ = count;
  silent_places_.SetMost(count / 2);
  question_places_.SetMost(count / 2);
}

// Somebody else's entry stays: that one has the number now.
void VerbsCompletionQueue::Detach(uint32_t number, const VerbsQueuePair* queue_pair) {
  const std::lock_guard lock(mutex_);
  const auto found = queue_pairs_.find(number);
  if (found == queue_pairs_.end() || found->second != queue_pair) return;
  last_found_ = nullptr;
  queue_pairs_.erase(found);
}

void VerbsCompletionQueue::Forget(const VerbsQueuePair* queue_pair) {
  const std::lock_guard lock(mutex_);
  waiting_.ForgetQueuePair(queue_pair);
  arming_.HandleTaken(waiting_.size());
}

void VerbsCompletionQueue::Forget(const SharedReceiveQueue* srq) {
  const std::lock_guard lock(mutex_);
  waiting_.ForgetSharedReceiveQueue(srq);
  arming_.HandleTaken(waiting_.size());
}

void VerbsCompletionQueue::CancelBefore(VerbsQueuePair* queue_pair, uint64_t initiator_end, uint64_t receive_end) {
  DroppedReferences dropped;
  const std::lock_guard lock(mutex_);
  Poll(static_cast<size_t>(queue_->cqe), &dropped);
  queue_pair->CancelBefore(initiator_end, receive_end, this, &dropped);
}

void VerbsCompletionQueue::TakeEnded(VerbsQueuePair* queue_pair) {
  DroppedReferences dropped;
  const std::lock_guard lock(mutex_);
  queue_pair->TakeEnded(this, &dropped);
}

NdkStatus VerbsCompletionQueue::Resize(uint32_t depth) {
  if (IsForkedChild()) return RefuseInForkedChild();
  const AdapterInfo& info = adapter_->info();
  if (const auto fits = CheckDepth(depth, info.max_cq_depth); fits != NdkStatus::kSuccess) return fits;
  if ((info.adapter_flags & kCqResizeSupported) == 0) {
    return Refuse(NdkStatus::kNotSupported,
                  "this device resizes no completion queues; make one as deep as will be needed");
  }
  DroppedReferences dropped;
  const std::lock_guard lock(mutex_);
  // What lies in memory needs no room in the hardware, nor can it be lost.
  Poll(static_cast<size_t>(queue_->cqe), &dropped);
  if (waiting_.size() > depth) return RefuseShorterQueue(depth, waiting_.size());
  // The consumer's results go before hidden places, but for those that are taken.
  const uint32_t hidden = std::min(hidden_, info.max_cq_depth - depth + kHiddenCompletions);
  const uint32_t taken = std::max(silent_places_.taken(), question_places_.taken());
  if (taken > hidden / 2) return RefuseShorterQueue(depth, waiting_.size() + taken);
  return CatchExceptions([&] {
    WaitingResults resized = waiting_;
    resized.Resize(depth);
    const NdkStatus status = FromErrnoResult(ibv_resize_cq(queue_, static_cast<int>(depth + hidden)));
    if (status != NdkStatus::kSuccess) return status;
    waiting_ = std::move(resized);
    SetHiddenPlaces(hidden);
    return status;
  });
}

NdkStatus VerbsCompletionQueue::ControlInterruptModeration(uint32_t interval_us, uint32_t count) {
  if (IsForkedChild()) return RefuseInForkedChild();
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  // The hardware's numbers have 16 bits.
  constexpr uint32_t kHardwareMost = std::numeric_limits<uint16_t>::max();
  const std::lock_guard lock(mutex_);
  if (interval_us == kMost && (count == kMost || count > waiting_.depth())) {
    return RefuseModeration(count, waiting_.depth());
  }
  if ((adapter_->info().adapter_flags & kCqInterruptModerationSupported) == 0) {
    return Refuse(NdkStatus::kNotSupported, "this device moderates no notifications");
  }
  const bool moderated = interval_us > 0 && count > 1;
  ibv_modify_cq_attr attributes = {};
  attributes.attr_mask = IBV_CQ_ATTR_MODERATE;
  attributes.moderate.cq_count = static_cast<uint16_t>(moderated ? std::min(count, kHardwareMost) : 0);
  attributes.moderate.cq_period = static_cast<uint16_t>(moderated ? std::min(interval_us, kHardwareMost) : 0);
  return FromErrnoResult(ibv_modify_cq(queue_, &attributes));
}

}  // namespace rdmabroker::verbs
