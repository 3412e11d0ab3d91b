// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_NOTIFICATIONS_H_
#define DATAPLANE_NOTIFICATIONS_H_

#include <cstddef>
#include <functional>
#include <mutex>

#include "dataplane/data_object.h"
#include "dataplane/ndk/status.h"
#include "dataplane/pending_call.h"

namespace rdmabroker {

// The notifications of a queue, a member of it. An adapter's thread calls all of them, so that they cannot overlap. All
// functions may be called from any thread, under the queue's lock or without.
class Notifications {
 public:
  using Function = std::function<void(NdkStatus)>;

  // The function may be empty: then nobody is told anything. The thread outlives the queue.
  Notifications(DataObject* queue, CallingThread* thread, Function function);

  // Has the function called once with this status. All failures of a queue are the same one, and come after all
  // successes.
  void Call(NdkStatus status);
  // None begins any more; one may be under way.
  void Close();

 private:
  void Run();

  const Function function_;
  CallingThread* const thread_;
  PendingCall call_;
  std::mutex mutex_;  // Guards what follows; before the thread's.
  size_t successes_ = 0;
  size_t failures_ = 0;
  NdkStatus failure_ = NdkStatus::kSuccess;
  bool closed_ = false;
};

}  // namespace rdmabroker

#endif  // DATAPLANE_NOTIFICATIONS_H_
