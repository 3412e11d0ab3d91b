// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_CQ_ARMING_H_
#define DATAPLANE_CQ_ARMING_H_

#include <algorithm>
#include <cstddef>
#include <optional>

#include "dataplane/completion_queue.h"

namespace rdmabroker {

// What a completion queue is armed for, and which of its results have not been notified of. For one queue, under its
// lock.
class CqArming {
 public:
  // True: a notification is due at once, and nothing is armed any more.
  bool Arm(CqNotify type) {
    armed_ = armed_.has_value() ? MergeCqNotify(*armed_, type) : type;
    return Fire((*armed_ == CqNotify::kAny && fresh_ > 0) || (*armed_ == CqNotify::kSolicited && fresh_solicited_));
  }

  // A result has come and waits in the queue. True: a notification is due, and nothing is armed any more. `solicited`:
  // also for a failure.
  bool HandleResult(bool solicited) {
    ++fresh_;
    fresh_solicited_ |= solicited;
    return Fire(armed_ == CqNotify::kAny || (armed_ == CqNotify::kSolicited && solicited));
  }

  // So many results wait, now that the consumer has taken some out.
  void HandleTaken(size_t waiting) {
    fresh_ = std::min(fresh_, waiting);
    if (fresh_ == 0) fresh_solicited_ = false;
  }

  // The queue notifies for a reason of its own, or is closed.
  void Disarm() { Fire(true); }

  bool armed() const { return armed_.has_value(); }
  bool armed_for(CqNotify type) const { return armed_ == type; }
  bool armed_for_results() const { return armed_.has_value() && *armed_ != CqNotify::kErrors; }

 private:
  bool Fire(bool due) {
    if (!due) return false;
    armed_.reset();
    fresh_ = 0;
    fresh_solicited_ = false;
    return true;
  }

  std::optional<CqNotify> armed_;
  // What came since the last notification and waits still: counted from the queue's end.
  size_t fresh_ = 0;
  bool fresh_solicited_ = false;
};

}  // namespace rdmabroker

#endif  // DATAPLANE_CQ_ARMING_H_
