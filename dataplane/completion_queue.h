// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_COMPLETION_QUEUE_H_
#define DATAPLANE_COMPLETION_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "dataplane/data_object.h"
#include "dataplane/operation.h"

namespace rdmabroker {

// NDK_CQ_NOTIFY_*.
enum class CqNotify : uint32_t {
  kErrors = 0,     // Only what kills the queue itself.
  kAny = 1,        // The next result.
  kSolicited = 2,  // The next receive of a solicited send, or any result that is a failure.
};

// What is armed once `now` is asked for while `before` is not yet satisfied: the one that fires on more.
constexpr CqNotify MergeCqNotify(CqNotify before, CqNotify now) {
  if (before == CqNotify::kAny || now == CqNotify::kAny) return CqNotify::kAny;
  return before == CqNotify::kSolicited ? before : now;
}

// kSuccess; kBufferOverflow: there were more results than the queue is deep, and it and its queue pairs are dead;
// kInternalError. Calls for one queue never overlap. Called on the adapter's own thread: must not block. May close the
// queue.
using CqNotification = std::function<void(NdkStatus)>;

// NDK_CQ. A consumer serialises GetResults, GetResultsEx and Arm of one queue; implementations survive concurrent
// calls.
class CompletionQueue : public DataObject {
 public:
  // Moves up to results.size() results out and returns how many. Where the adapter has no hardware, polling is also
  // what drives the queue's connections.
  size_t GetResults(std::span<Result> results);
  // Likewise, with the kind of each request, and more about how it ended.
  virtual size_t GetResultsEx(std::span<ResultEx> results) = 0;

  // Asks for one call of the notification, for the next event of that kind. If a result of the kind has come since the
  // notification was last called and has not been taken out, the call is due at once.
  virtual void Arm(CqNotify type) = 0;

  // kInvalidParameter: the depth is 0 or beyond the adapter's max_cq_depth; kBufferOverflow: more results than that are
  // waiting; kNotSupported: the adapter lacks kCqResizeSupported.
  virtual NdkStatus Resize(uint32_t depth) = 0;

  // NdkControlCqInterruptModeration: from now on a notification may be held back for `interval_us` microseconds, and
  // until `count` results have come. ~0: without such a limit; an interval of 0 or a count of 0 or 1: none is held
  // back, as in a new queue. kInvalidParameterMix: ~0 microseconds and a count that the queue cannot hold;
  // kNotSupported: the adapter lacks kCqInterruptModerationSupported.
  virtual NdkStatus ControlInterruptModeration(uint32_t interval_us, uint32_t count) = 0;
};

}  // namespace rdmabroker

#endif  // DATAPLANE_COMPLETION_QUEUE_H_
