// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/transmitter.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "dataplane/iwarp/progress_thread.h"
#include "dataplane/iwarp/wire/adapter_limits.h"
#include "dataplane/post_checks.h"
#include "dataplane/provider_error.h"
#include "dataplane/refusal.h"

namespace rdmabroker::iwarp {
Transmitter::Transmitter(const TransmitterAttributes& attributes)
    : attributes_(attributes), requests_(std::max<size_t>(1, attributes.depth)) {}

Transmitter::~Transmitter() = default;

NdkStatus Transmitter::CheckPost(const InitiatorPost& post) const {
  if (post.refusal != NdkStatus::kSuccess) return post.refusal;
  if ((post.flags & ~AllowedFlags(post.type)) != 0) return RefuseFlags(post.type, post.flags);
  const uint64_t total = TotalLength(post.sges);
  if ((post.flags & kOpInline) != 0) {
    if (total > attributes_.inline_data_size) return RefuseInlineData(total, attributes_.inline_data_size);
  } else if (post.sges.size() > attributes_.max_sge || total > kMaxTransfer) {
    return RefusePieces(post.sges.size(), total, attributes_.max_sge, kMaxTransfer);
  }
  return NdkStatus::kSuccess;
}

NdkStatus Transmitter::Post(const InitiatorPost& post) {
  const std::lock_guard lock(mutex_);
  NdkStatus status = CheckPost(post);
  if (gate_ == Gate::kUnconnected || gate_ == Gate::kRefusing) status = RefuseUnconnected();
  if (status == NdkStatus::kSuccess && post.type == OperationType::kRead && gate_ == Gate::kOpen &&
      state_.outbound_read_limit == 0) {
    status = Refuse(NdkStatus::kInvalidDeviceRequest,
                    "the connection's outbound read limit is 0: ask for reads as it is made (ReadLimits)");
  }
  const auto is_full = [this] { return tail_ - head_ + untaken_ >= requests_.size(); };
  if (status == NdkStatus::kSuccess && is_full()) {
    TransmitLocked();
    if (is_full()) status = RefuseFullQueue(requests_.size());
  }
  if (status != NdkStatus::kSuccess) {
    // Deferred requests may not be kept waiting by the failure of the one that was to follow.
    if (gate_ == Gate::kOpen) TransmitLocked();
    return status;
  }
  Request& request = At(tail_);
  FillRequest(post, &request);
  if (gate_ == Gate::kCancelling) {
    ++tail_;
    Report(&request, NdkStatus::kCancelled, 0);
    head_ = sent_ = next_ = tail_;
    return NdkStatus::kSuccess;
  }
  AcceptChange(post, &request);
  ++tail_;
  request.region = ObjectReference<SoftwareMemoryRegion>(post.region);
  request.window = ObjectReference<SoftwareMemoryWindow>(post.window);
  if ((post.flags & kOpDefer) == 0) TransmitLocked();
  return NdkStatus::kSuccess;
}

void Transmitter::FillRequest(const InitiatorPost& post, Request* request) {
  request->type = post.type;
  request->opcode = post.opcode;
  request->flags = post.flags;
  request->context = post.context;
  request->remote = post.remote;
  request->invalidate = post.invalidate;
  request->length = static_cast<uint32_t>(TotalLength(post.sges));
  request->started = false;
  request->done = false;
  request->status = NdkStatus::kSuccess;
  request->provider_error = 0;
  request->inline_data.clear();
  request->sges.clear();
  if ((post.flags & kOpInline) != 0) {
    for (const Sge& sge : post.sges) {
      const auto* const begin = static_cast<const uint8_t*>(sge.address);
      request->inline_data.insert(request->inline_data.end(), begin, begin + sge.length);
    }
  } else {
    request->sges.assign(post.sges.begin(), post.sges.end());
  }
  if (post.change != nullptr) request->change = std::move(*post.change);
}

// Before the request can be carried out and its result be seen: whoever sees it may ask for the token.
void Transmitter::AcceptChange(const InitiatorPost& post, Request* request) {
  if (post.type == OperationType::kBind) post.window->AcceptBind(&request->change);
  if (post.type == OperationType::kFastRegister) post.region->AcceptFastRegister(&request->change);
}

// Of one that was cancelled as it was posted there is none.
void Transmitter::CancelChange(Request* request) {
  if (request->window && request->type == OperationType::kBind) request->window->CancelBind(request->change);
  if (request->region && request->type == OperationType::kFastRegister) {
    request->region->CancelFastRegister(request->change);
  }
}

void Transmitter::Start(int fd, const ConnectionState& state) {
  const std::lock_guard lock(mutex_);
  fd_ = fd;
  state_ = state;
  hold_ = state.holds_sends();
  inserter_ = MarkerInserter(state.bytes_sent);
  gate_ = Gate::kOpen;
}

void Transmitter::ReleaseHold() {
  const std::lock_guard lock(mutex_);
  hold_ = false;
}

void Transmitter::Transmit() {
  const std::lock_guard lock(mutex_);
  TransmitLocked();
}

bool Transmitter::drained() {
  const std::lock_guard lock(mutex_);
  return batch_.empty() && next_ == tail_ && responses_.empty();
}

bool Transmitter::QueueReadResponse(const ReadRequest& request) {
  const std::lock_guard lock(mutex_);
  if (responses_.size() >= state_.inbound_read_limit) return false;
  responses_.push_back({request});
  return true;
}

std::optional<Transmitter::OutstandingRead> Transmitter::CurrentRead() {
  const std::lock_guard lock(mutex_);
  if (reads_.empty()) return std::nullopt;
  const Request& request = At(reads_.front());
  OutstandingRead read;
  read.length = request.length;
  read.sges = request.sges;
  if (!request.sges.empty()) {
    read.sink_stag = static_cast<uint32_t>(request.sges.front().token);
    read.sink_offset = reinterpret_cast<uint64_t>(request.sges.front().address);
  }
  return read;
}

void Transmitter::CompleteRead() {
  const std::lock_guard lock(mutex_);
  if (reads_.empty()) return;
  Request& request = At(reads_.front());
  reads_.pop_front();
  request.done = true;
  if ((request.flags & kOpRdmaReadLocalInvalidate) != 0 && !request.sges.empty()) {
    attributes_.memory->Invalidate(static_cast<uint32_t>(request.sges.front().token), attributes_.domain,
                                   attributes_.queue_pair);
  }
  ReportDone();
  // Reads beyond the limit and fenced requests were waiting for this.
  TransmitLocked();
}

void Transmitter::FailRead() {
  const std::lock_guard lock(mutex_);
  if (!reads_.empty()) FailRequest(&At(reads_.front()), NdkStatus::kAccessViolation, kLocalError);
}

void Transmitter::Stop() {
  const std::lock_guard lock(mutex_);
  fd_ = -1;
  ForgetBatch();
  wants_write_ = false;
}

void Transmitter::RefusePosts() {
  const std::lock_guard lock(mutex_);
  if (gate_ != Gate::kUnconnected) gate_ = Gate::kRefusing;
}

void Transmitter::Abort(const RequestFailure& failure, bool reject_posts) {
  const std::lock_guard lock(mutex_);
  OwnBatch();
  gate_ = reject_posts ? Gate::kRefusing : Gate::kCancelling;
  responses_.clear();
  reads_.clear();
  // A request that failed by itself is the one to blame, wherever it stands.
  bool blamed = false;
  for (uint64_t index = head_; index != tail_; ++index) blamed |= At(index).status != NdkStatus::kSuccess;
  bool broken = false;
  for (uint64_t index = head_; index != tail_; ++index) {
    Request& request = At(index);
    if (broken) {
      Report(&request, NdkStatus::kCancelled, 0);
    } else if (request.status != NdkStatus::kSuccess) {
      Report(&request, request.status, request.provider_error);
    } else if (request.done && index < sent_) {
      Report(&request, NdkStatus::kSuccess, 0);
      continue;
    } else {
      const bool here = request.started && !blamed;
      Report(&request, here ? failure.status : NdkStatus::kCancelled, here ? failure.provider_error : 0);
      if (!here) continue;
    }
    broken = true;
  }
  head_ = sent_ = next_ = tail_;
  offset_ = 0;
}

// Copies what a partly sent batch still needs of the consumer's memory, up to the end of its FPDUs. Where that is gone,
// or there is none for the copy, the stream cannot go on.
void Transmitter::OwnBatch() {
  std::vector<uint8_t> rest;
  PinBatch();
  try {
    rest.reserve(batch_bytes_);
  } catch (const std::bad_alloc&) {
    socket_error_ = ENOMEM;
    ForgetBatch();
  }
  for (size_t i = batch_position_; i < batch_.size(); ++i) {
    const auto* const begin = static_cast<const uint8_t*>(batch_[i].iov_base);
    rest.insert(rest.end(), begin, begin + batch_[i].iov_len);
  }
  ForgetBatch();
  marked_ = std::move(rest);
  batch_bytes_ = marked_.size();
  if (!marked_.empty()) batch_.push_back({marked_.data(), marked_.size()});
}

void Transmitter::SendTerminate(std::span<const uint8_t> payload) {
  const std::lock_guard lock(mutex_);
  const std::vector<uint8_t> fpdu = ComposeFpdu({.last = true,
                                                 .opcode = Opcode::kTerminate,
                                                 .queue = kTerminateQueue,
                                                 .msn = state_.next_send_msn[kTerminateQueue]++},
                                                payload, state_.crc);
  // It lies in what grows now.
  ForgetBatch();
  if (state_.markers_to_peer) {
    inserter_.Append(fpdu, state_.crc, &marked_);
  } else {
    marked_.insert(marked_.end(), fpdu.begin(), fpdu.end());
  }
  batch_.assign(1, {marked_.data(), marked_.size()});
  batch_bytes_ = marked_.size();
  TransmitLocked();
}

void Transmitter::Report(Request* request, NdkStatus status, uint32_t provider_error) {
  if (status != NdkStatus::kSuccess) CancelChange(request);
  ProgressThread::Get().LetGo(std::move(request->region));
  ProgressThread::Get().LetGo(std::move(request->window));
  if (status == NdkStatus::kSuccess && (request->flags & kOpSilentSuccess) != 0) return;
  ResultEx result;
  result.status = status;
  result.qp_context = attributes_.qp_context;
  result.request_context = request->context;
  result.type = request->type;
  result.provider_error = provider_error;
  if (!attributes_.cq->Add(result, {.queue_pair = attributes_.queue_pair, .untaken = &untaken_}, false)) failed_ = true;
}

void Transmitter::ReportDone() {
  while (head_ < sent_ && At(head_).done && At(head_).status == NdkStatus::kSuccess) {
    Report(&At(head_), NdkStatus::kSuccess, 0);
    ++head_;
  }
}

void Transmitter::FailRequest(Request* request, NdkStatus status, uint32_t provider_error) {
  request->status = status;
  request->provider_error = provider_error;
  failed_ = true;
}

}  // namespace rdmabroker::iwarp
