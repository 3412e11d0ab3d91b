// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_EVENT_TARGET_H_
#define DATAPLANE_VERBS_EVENT_TARGET_H_

#include <infiniband/verbs.h>

#include "dataplane/data_object.h"
#include "dataplane/shared_receive_queue.h"

namespace rdmabroker::verbs {

// An object that the hardware tells something about.
class EventTarget {
 public:
  EventTarget(const EventTarget&) = delete;
  EventTarget& operator=(const EventTarget&) = delete;

  // On the adapter's thread, with a reference held and no lock. A completion channel's event, and an asynchronous one
  // of this object or of the whole device.
  virtual void OnCompletionEvent() {}
  virtual void OnAsyncEvent(ibv_event_type type) = 0;
  // Another object of the adapter's is dead. Any thread, without locks.
  virtual void OnFailure(const EventTarget&) {}
  // Takes in what the hardware has completed. Any thread, without locks.
  virtual void Reap() {}
  // Drops the results of the shared queue's receives. Any thread, without locks.
  virtual void Forget(const SharedReceiveQueue*) {}

  virtual DataObject* data_object() = 0;

 protected:
  EventTarget() = default;
  virtual ~EventTarget() = default;
};

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_EVENT_TARGET_H_
