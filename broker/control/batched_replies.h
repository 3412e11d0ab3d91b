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

// What a stream with requests has to tell its client: answers, which wait here, and events, which wait in the core.
class BatchedReplies {
 public:
  // A request was answered so. One that is pending is not mentioned.
  void Answer(uint64_t request, const Outcome& outcome);
  // The stream's requests up to this one have been dealt with, and what they were answered has been said.
  void Took(uint64_t request) { taken_ = request; }

  // Answers that are in no message yet.
  size_t waiting() const { return answers_.size(); }
  // Whether there is anything to tell of requests.
  bool HasAnswers() const { return !answers_.empty() || taken_ != told_; }

  // Fills a message with what waits, as much of it as fits: answers, then the session's events after `sent`, which it
  // moves on. False: there is nothing to say.
  bool Fill(const SessionRecord& session, EventNumber* sent, v1::SessionReply* reply);

 private:
  std::deque<v1::BatchedAnswer> answers_;
  uint64_t taken_ = 0;
  uint64_t told_ = 0;  // What messages have said of taken_.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_BATCHED_REPLIES_H_
