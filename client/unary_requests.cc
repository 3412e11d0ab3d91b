// SPDX-License-Identifier: Apache-2.0

#include "client/unary_requests.h"

#include <grpcpp/client_context.h>

#include <chrono>
#include <string>
#include <utility>

#include "client/protocol/batched_request.h"
#include "client/rpc_status.h"

namespace rdmabroker::client {
namespace {

// The broker answers without waiting for anybody.
constexpr std::chrono::seconds kReplyDeadline{10};
// Before a repeat.
constexpr std::chrono::milliseconds kFirstRepeat{10};
constexpr std::chrono::milliseconds kLastRepeat{1000};

// What a repeat cannot change: the request never reaches the broker's logic.
std::optional<v1::NdkStatus> Futile(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::UNIMPLEMENTED:
      return v1::STATUS_NOT_SUPPORTED;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::INVALID_ARGUMENT:
      return v1::STATUS_INVALID_PARAMETER;
    default:
      return std::nullopt;
  }
}

v1::RequestHeader* HeaderOf(google::protobuf::Message* request) {
  const auto* const field = request->GetDescriptor()->FindFieldByName("header");
  return static_cast<v1::RequestHeader*>(request->GetReflection()->MutableMessage(request, field));
}

}  // namespace

struct UnaryRequests::Attempt final : CompletionThread::Tag {
  void Complete(bool) override {
    const std::unique_ptr<Attempt> self(this);
    if (owner == nullptr) return;
    owner->attempt_ = nullptr;
    owner->HandleReply(*this);
  }

  UnaryRequests* owner = nullptr;  // Null once that has gone.
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::Outcome>> reader;
  v1::Outcome reply;
  grpc::Status status;
};

UnaryRequests::UnaryRequests(std::shared_ptr<CompletionThread> thread, const std::shared_ptr<grpc::Channel>& channel,
                             uint64_t session_id, OnReply on_reply)
    : thread_(std::move(thread)), stub_(channel), session_id_(session_id), on_reply_(std::move(on_reply)) {}

UnaryRequests::~UnaryRequests() {
  thread_->Cancel(again_);
  if (attempt_ == nullptr) return;
  attempt_->owner = nullptr;
  attempt_->context.TryCancel();
}

void UnaryRequests::Make(const v1::RequestBatch& batch) {
  const bool idle = waiting_.empty();
  waiting_.insert(waiting_.end(), batch.requests().begin(), batch.requests().end());
  acknowledged_ = batch.acknowledged_event();
  if (idle) Try();
}

void UnaryRequests::Try() {
  v1::BatchedRequest& item = waiting_.front();
  google::protobuf::Message& request = *RequestIn(&item);
  v1::RequestHeader& header = *HeaderOf(&request);
  header.set_session_id(session_id_);
  header.set_request_id(item.request_id());
  header.set_acknowledged_event(acknowledged_);
  ++attempts_;
  attempt_ = new Attempt;
  attempt_->owner = this;
  attempt_->context.set_deadline(std::chrono::system_clock::now() + kReplyDeadline);
  attempt_->reader =
      stub_.PrepareUnaryCall(&attempt_->context, "/rdmabroker.v1.Broker/" + RpcOf(request), request, thread_->queue());
  attempt_->reader->StartCall();
  attempt_->reader->Finish(&attempt_->reply, &attempt_->status, thread_->Begin(attempt_));
}

void UnaryRequests::HandleReply(const Attempt& attempt) {
  if (attempt.status.ok()) return Answered(attempt.reply);
  if (auto detail = FailureDetail(attempt.status); detail.has_value()) return Answered(*std::move(detail));
  if (const auto status = Futile(attempt.status.error_code()); status.has_value()) {
    v1::Outcome outcome;
    outcome.set_status(*status);
    outcome.set_hint("the broker does not take this: " + attempt.status.error_message());
    return Answered(std::move(outcome));
  }
  // Its reply was lost, or the session has lost its stream; then this ends soon.
  again_ = thread_->After(back_off_(kFirstRepeat, kLastRepeat, attempts_ - 1), [this] {
    again_ = {};
    Try();
  });
}

void UnaryRequests::Answered(v1::Outcome outcome) {
  v1::SessionReply reply;
  v1::ReplyBatch& batch = *reply.mutable_batch();
  const uint64_t id = waiting_.front().request_id();
  batch.set_requests_taken(id);
  if (outcome.status() != v1::STATUS_PENDING) {
    v1::BatchedAnswer& answer = *batch.add_answers();
    answer.set_request_id(id);
    *answer.mutable_outcome() = std::move(outcome);
  }
  attempts_ = 0;
  waiting_.pop_front();
  // Before the handler, which may end this.
  if (!waiting_.empty()) Try();
  const OnReply on_reply = on_reply_;
  on_reply(reply);
}

}  // namespace rdmabroker::client
