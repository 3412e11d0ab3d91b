// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_BATCHED_REPLIES_H_
#define BROKER_CONTROL_BATCHED_REPLIES_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "broker/core/ids.h"
#include "broker/core/requests.h"
#include "broker/core/state.h"
#include "proto/rdmabroker/v1/session.pb.h"

namespace rdmabroker {

// Moves `sent` to the session's next event, and returns that. There must be one.
v1::SessionEvent NextEvent(const SessionRecord& session, EventNumber* sent);

// Collects what a stream with requests tells its client. Answers wait here, and events in the core.
class BatchedReplies {
 public:
  // Keeps the answer to a request, unless that is pending.
  void Answer(uint64_t request, const Outcome& outcome);
  // The broker has dealt with the stream's requests up to this one. Their answers have been given to Answer.
  void Took(uint64_t request) { taken_ = request; }

  // Answers that are in no message yet.
  size_t waiting() const { return answers_.size(); }
  // Whether the client does not know yet what has become of a request.
  bool HasAnswers() const { return !answers_.empty() || taken_ != told_; }

  // Fills a message with as much as fits of what waits: answers, then the session's events after `sent`, which it moves
  // on. `session` is null if it has ended, and with it its events. Returns false if nothing waits.
  bool Fill(const SessionRecord* session, EventNumber* sent, v1::SessionReply* reply);

 private:
  std::deque<v1::BatchedAnswer> answers_;
  uint64_t taken_ = 0;
  uint64_t told_ = 0;  // The value of taken_ that the client was told last.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_BATCHED_REPLIES_H_
