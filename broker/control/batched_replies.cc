// SPDX-License-Identifier: Apache-2.0

#include "broker/control/batched_replies.h"

#include <utility>

#include "broker/control/translation.h"

namespace rdmabroker {
namespace {

// session.proto, ReplyBatch.
constexpr size_t kMaxMessage = 65536;
// For the numbers and lengths around a message's parts: requests_taken, and the batch itself.
constexpr size_t kAround = 32;
// Tag and length of an answer or event.
constexpr size_t kAroundPart = 8;

}  // namespace

v1::SessionEvent NextEvent(const SessionRecord& session, EventNumber* sent) {
  *sent = EventNumber(sent->value() + 1);
  v1::SessionEvent event;
  ToProto(NumberedEvent{session.id, session.stream, *sent, session.event(*sent)}, &event);
  return event;
}

void BatchedReplies::Answer(uint64_t request, const Outcome& outcome) {
  if (outcome.status == NdkStatus::kPending) return;
  v1::BatchedAnswer& answer = answers_.emplace_back();
  answer.set_request_id(request);
  ToProto(outcome, answer.mutable_outcome());
}

bool BatchedReplies::Fill(const SessionRecord* session, EventNumber* sent, v1::SessionReply* reply) {
  const auto has_event = [&] { return session != nullptr && *sent != session->last_event; };
  if (!HasAnswers() && !has_event()) return false;
  v1::ReplyBatch& batch = *reply->mutable_batch();
  size_t size = kAround;
  // The first part goes whatever it measures: it would not fit better another time.
  const auto fits = [&size](const google::protobuf::Message& part) {
    const bool first = size == kAround;
    size += part.ByteSizeLong() + kAroundPart;
    return first || size <= kMaxMessage;
  };
  for (; !answers_.empty() && fits(answers_.front()); answers_.pop_front()) {
    *batch.add_answers() = std::move(answers_.front());
  }
  // A client takes a request up to this number that has no answer for pending.
  if (answers_.empty()) told_ = taken_;
  batch.set_requests_taken(told_);
  while (answers_.empty() && has_event()) {
    EventNumber next = *sent;
    v1::SessionEvent event = NextEvent(*session, &next);
    if (!fits(event)) break;
    *batch.add_events() = std::move(event);
    *sent = next;
  }
  return true;
}

}  // namespace rdmabroker
