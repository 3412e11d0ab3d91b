// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_PROTOCOL_REQUEST_QUEUE_H_
#define CLIENT_PROTOCOL_REQUEST_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

#include "client/values.h"
#include "proto/rdmabroker/v1/outcome.pb.h"
#include "proto/rdmabroker/v1/requests.pb.h"

namespace rdmabroker::client {

// A session's requests: numbers them, puts them into batches within the broker's window and in their order, and brings
// each together with its outcome, whether that comes as an answer or as an event.
class RequestQueue {
 public:
  // Called exactly once for each request. The message has the payload.
  using Done = std::function<void(const Outcome&, const v1::Outcome&)>;

  // The most requests that wait to be sent. A session has fewer objects by the broker's defaults, so that all of them
  // can be closed at once.
  static constexpr size_t kMostWaiting = 65536;

  // Limits.answers_kept: the most requests that are sent and not known to be taken.
  void SetWindow(uint32_t answers_kept);

  // Takes a request without a number, and numbers it. A request that cannot be made ends at once.
  void Add(v1::BatchedRequest request, Done done);
  // Puts as many requests into the batch as may be sent now and fit. Returns false if there are none.
  bool Fill(v1::RequestBatch* batch);
  // There is another stream: requests that are not known to be taken are sent again.
  void SendAgain() { sent_ = taken_; }

  // The broker has dealt with the requests up to this one.
  void Took(uint64_t request);
  // A request has ended with this outcome. Unknown requests and repeated outcomes are ignored.
  void Finish(uint64_t request, const v1::Outcome& outcome);
  // Ends all requests with this outcome, first those that were sent, and each one that is added later.
  void End(const Outcome& outcome);

  // Whether a request was sent that has not ended and is not known to be taken.
  bool unanswered() const;
  uint64_t taken() const { return taken_; }

 private:
  struct Entry {
    v1::BatchedRequest request;
    Done done;
  };

  // The highest number that may be sent.
  uint64_t LastOfWindow() const;
  void FinishWith(uint64_t request, const Outcome& outcome, const v1::Outcome& message);

  uint64_t window_ = 1;
  uint64_t last_ = 0;       // The last number that was given out.
  uint64_t sent_ = 0;       // The highest number that was sent on this stream, or taken before it.
  uint64_t taken_ = 0;      // The broker has said that it has taken what is up to this.
  uint64_t ever_sent_ = 0;  // The highest number that was sent on any stream.
  std::map<uint64_t, Entry> unfinished_;
  bool ended_ = false;
  Outcome end_;
};

}  // namespace rdmabroker::client

#endif  // CLIENT_PROTOCOL_REQUEST_QUEUE_H_
