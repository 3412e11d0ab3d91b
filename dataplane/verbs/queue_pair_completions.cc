// SPDX-License-Identifier: Apache-2.0

#include <array>
#include <optional>
#include <span>
#include <utility>

#include "dataplane/provider_error.h"
#include "dataplane/verbs/completion_status.h"
#include "dataplane/verbs/queue_pair.h"
#include "dataplane/verbs/work_request.h"

namespace rdmabroker::verbs {
namespace {

constexpr uint64_t kNumberMask = ~kReceiveRequest;

// Results at a time, where several requests end together. Most often it is one, and silent ones before it.
constexpr size_t kBatch = 4;

// The others are carried out by this side's adapter alone.
bool IsThePeersAnswer(const ibv_wc& completion) {
  return completion.status == IBV_WC_SUCCESS &&
         (completion.opcode == IBV_WC_SEND || completion.opcode == IBV_WC_RDMA_WRITE ||
          completion.opcode == IBV_WC_RDMA_READ);
}

// A peer that does not use this library may send it. The receive of a write with it has the length of what was written
// elsewhere.
bool HasImmediateData(const ibv_wc& completion) {
  return completion.status == IBV_WC_SUCCESS &&
         (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM || (completion.wc_flags & IBV_WC_WITH_IMM) != 0);
}

// 0 where there is none.
uint32_t ProviderError(const ibv_wc& completion) {
  return completion.status == IBV_WC_SUCCESS ? 0 : FailedCompletion(completion.status, completion.vendor_err);
}

}  // namespace

void VerbsQueuePair::HandleCompletion(const ibv_wc& completion, VerbsCompletionQueue* queue,
                                      DroppedReferences* dropped) {
  if (completion.wr_id == kLastRequest) return HandleLast(queue, dropped);
  if ((completion.wr_id & kReceiveRequest) != 0) {
    HandleReceived(completion, queue, dropped);
    if (HasImmediateData(completion)) Break(0);
  } else {
    HandleSent(completion, queue, dropped);
  }
  if (completion.status == IBV_WC_SUCCESS) return;
  // Whatever fails has taken the queue pair into its error state. An iWARP device goes there when the peer disconnects,
  // too, and its connection manager says so.
  const bool flushed = completion.status == IBV_WC_WR_FLUSH_ERR;
  Break(ProviderError(completion), !(flushed && domain_->adapter()->iwarp()));
}

void VerbsQueuePair::HandleSent(const ibv_wc& completion, VerbsCompletionQueue* queue, DroppedReferences* dropped) {
  const NdkStatus status = CompletionStatus(completion.status, false);
  const uint32_t provider_error = ProviderError(completion);
  std::unique_lock lock(initiator_mutex_);
  acknowledged_ |= IsThePeersAnswer(completion);
  const auto alone = initiator_ring_.CompleteAlone(completion.wr_id);
  if (!alone.has_value()) {
    if (initiator_ring_.Complete(completion.wr_id, status, provider_error)) {
      FinishSent(std::move(lock), queue, dropped);
    }
    return;
  }
  const FinishedRequest finished = {
      .sequence = completion.wr_id, .request = *alone, .status = status, .provider_error = provider_error};
  Settle(finished, queue, dropped);
  lock.unlock();
  Report(finished, queue);
}

// However it ended, the hardware has said what it ever will of the requests before it.
void VerbsQueuePair::HandleLast(VerbsCompletionQueue* queue, DroppedReferences* dropped) {
  {
    const std::lock_guard lock(initiator_mutex_);
    if (!std::exchange(last_posted_, false)) return;
  }
  queue->question_places().Return();
  CancelBefore(kAllRequests, 0, queue, dropped);
}

void VerbsQueuePair::FinishSent(std::unique_lock<std::mutex> lock, VerbsCompletionQueue* queue,
                                DroppedReferences* dropped) {
  std::array<FinishedRequest, kBatch> batch;
  while (true) {
    const size_t count = TakeReported(batch, queue, dropped);
    lock.unlock();
    for (const FinishedRequest& finished : std::span(batch).first(count)) Report(finished, queue);
    if (count < batch.size()) return;
    lock.lock();
  }
}

size_t VerbsQueuePair::TakeReported(std::span<FinishedRequest> reported, VerbsCompletionQueue* queue,
                                    DroppedReferences* dropped) {
  size_t count = 0;
  while (count < reported.size()) {
    const auto finished = initiator_ring_.TakeEnded();
    if (!finished) break;
    Settle(*finished, queue, dropped);
    if (finished->reported()) reported[count++] = *finished;
  }
  return count;
}

void VerbsQueuePair::ReturnPlace(const PostedRequest& request, VerbsCompletionQueue* queue) {
  if (request.signal == Signal::kHidden) (request.beyond ? queue->question_places() : queue->silent_places()).Return();
}

void VerbsQueuePair::Settle(const FinishedRequest& finished, VerbsCompletionQueue* queue, DroppedReferences* dropped) {
  ReturnPlace(finished.request, queue);
  if (finished.request.type != OperationType::kBind && finished.request.type != OperationType::kInvalidate) return;
  // One that was posted when the connection was dead already has none.
  if (WindowChange change = TakeChange(finished.sequence); change.window) {
    ApplyChange(std::move(change), finished.status, dropped);
  }
}

void VerbsQueuePair::Report(const FinishedRequest& finished, VerbsCompletionQueue* queue) const {
  if (!finished.reported()) return;
  ResultEx result;
  result.status = finished.status;
  result.qp_context = attributes_.context;
  result.request_context = finished.request.context;
  result.type = finished.request.type;
  result.provider_error = finished.provider_error;
  queue->Add(result, {.queue_pair = this, .untaken = &untaken_});
}

void VerbsQueuePair::ApplyChange(WindowChange change, NdkStatus status, DroppedReferences* dropped) {
  if (status != NdkStatus::kSuccess) {
    change.window->HandleFailed(this);
    if (change.region) change.region->EndBinding();
  } else if (change.region) {
    change.window->HandleBound(change.key, change.region.get(), dropped);
  } else {
    change.window->HandleInvalidated(change.key, dropped);
  }
  dropped->Add(std::move(change.window));
  if (change.region) dropped->Add(std::move(change.region));
}

void VerbsQueuePair::HandleReceived(const ibv_wc& completion, VerbsCompletionQueue* queue, DroppedReferences* dropped) {
  ResultEx result;
  result.status = HasImmediateData(completion) ? NdkStatus::kNotSupported : CompletionStatus(completion.status, true);
  result.qp_context = attributes_.context;
  if (result.status == NdkStatus::kSuccess) {
    result.bytes_transferred = completion.byte_len;
    NoteInvalidation(completion, &result, dropped);
  } else {
    result.provider_error = ProviderError(completion);
  }
  const uint64_t number = completion.wr_id & kNumberMask;
  if (srq_) {
    const auto context = srq_->Complete(number);
    if (!context.has_value()) return;
    result.request_context = *context;
    return queue->Add(result, {.queue_pair = this, .srq = srq_.get()});
  }
  std::unique_lock lock(receive_mutex_);
  if (const auto alone = receive_ring_.CompleteAlone(number)) {
    lock.unlock();
    result.request_context = alone->context;
    return queue->Add(result, {.queue_pair = this});
  }
  if (!receive_ring_.Complete(number, result.status, result.provider_error)) return;
  auto finished = receive_ring_.TakeEnded();
  while (finished->sequence != number) finished = receive_ring_.TakeEnded();
  lock.unlock();
  result.request_context = finished->request.context;
  queue->Add(result, {.queue_pair = this});
  lock.lock();
  FinishReceived(std::move(lock), queue);
}

// Those that have neither length nor token: they were cancelled.
void VerbsQueuePair::FinishReceived(std::unique_lock<std::mutex> lock, VerbsCompletionQueue* queue) {
  while (const auto finished = receive_ring_.TakeEnded()) {
    lock.unlock();
    ResultEx result;
    result.status = finished->status;
    result.qp_context = attributes_.context;
    result.request_context = finished->request.context;
    queue->Add(result, {.queue_pair = this});
    lock.lock();
  }
}

void VerbsQueuePair::NoteInvalidation(const ibv_wc& completion, ResultEx* result, DroppedReferences* dropped) {
  // The kernel's IB_WC_WITH_INVALIDATE (ib_verbs.h) has the number of libibverbs' flag for checksums, which are no
  // matter of a connected queue pair.
  const unsigned int flag =
      domain_->adapter()->description().kernel_invalidate_flag ? IBV_WC_IP_CSUM_OK : IBV_WC_WITH_INV;
  if ((completion.wc_flags & flag) == 0) return;
  result->type = OperationType::kReceiveAndInvalidate;
  result->invalidated_token = RemoteToken{completion.invalidated_rkey};
  domain_->HandleInvalidated(result->invalidated_token, dropped);
}

void VerbsQueuePair::TakeEnded(VerbsCompletionQueue* queue, DroppedReferences* dropped) {
  if (queue == initiator_cq_.get()) {
    FinishSent(std::unique_lock(initiator_mutex_), queue, dropped);
  }
  if (queue == receive_cq_.get()) {
    FinishReceived(std::unique_lock(receive_mutex_), queue);
  }
}

void VerbsQueuePair::CancelBefore(uint64_t initiator_end, uint64_t receive_end, VerbsCompletionQueue* queue,
                                  DroppedReferences* dropped) {
  if (queue == initiator_cq_.get()) {
    std::unique_lock lock(initiator_mutex_);
    initiator_ring_.CancelBefore(initiator_end);
    FinishSent(std::move(lock), queue, dropped);
  }
  if (queue == receive_cq_.get()) {
    std::unique_lock lock(receive_mutex_);
    receive_ring_.CancelBefore(receive_end);
    FinishReceived(std::move(lock), queue);
  }
}

}  // namespace rdmabroker::verbs
