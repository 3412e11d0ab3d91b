// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_CQ_ARMING_H_
#define DATAPLANE_CQ_ARMING_H_

#include <algorithm>
#include <cstddef>

#include "dataplane/completion_queue.h"

namespace rdmabroker {

// What a completion queue is armed for, and of which results it has not notified yet. One for each queue, used under
// the queue's lock.
class CqArming {
 public:
  // True: a notification is due at once, and nothing is armed any more.
  bool Arm(CqNotify type) {
    type_ = armed_ ? MergeCqNotify(type_, type) : type;
    armed_ = true;
    return Fire((type_ == CqNotify::kAny && fresh_ > 0) || (type_ == CqNotify::kSolicited && since_solicited_ > 0));
  }

  // A result has come and waits in the queue. True: a notification is due, and nothing is armed any more. `solicited`
  // is true for a failure, too.
  bool HandleResult(bool solicited) {
    ++fresh_;
    if (solicited || since_solicited_ > 0) since_solicited_ = solicited ? 1 : since_solicited_ + 1;
    return Fire(armed_for(CqNotify::kAny) || (armed_for(CqNotify::kSolicited) && solicited));
  }

  // The consumer has taken some results out, and so many still wait.
  void HandleTaken(size_t waiting) {
    fresh_ = std::min(fresh_, waiting);
    if (since_solicited_ > waiting) since_solicited_ = 0;
  }

  // The queue notifies for a reason of its own, or is closed.
  void Disarm() { Fire(true); }

  bool armed() const { return armed_; }
  bool armed_for(CqNotify type) const { return armed_ && type_ == type; }
  bool armed_for_results() const { return armed_ && type_ != CqNotify::kErrors; }

 private:
  bool Fire(bool due) {
    if (!due) return false;
    armed_ = false;
    fresh_ = 0;
    since_solicited_ = 0;
    return true;
  }

  bool armed_ = false;
  CqNotify type_ = CqNotify::kErrors;  // Of what is armed.
  // The results that came since the last notification and still wait: counted from the queue's end.
  size_t fresh_ = 0;
  size_t since_solicited_ = 0;  // The last solicited one of these and those after it; 0: there is none.
};

}  // namespace rdmabroker

#endif  // DATAPLANE_CQ_ARMING_H_
