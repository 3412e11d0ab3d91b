// SPDX-License-Identifier: Apache-2.0

#ifndef CLIENT_C_EVENT_QUEUE_H_
#define CLIENT_C_EVENT_QUEUE_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <utility>

#include "client/c/rdma_broker.h"
#include "client/values.h"
#include "dataplane/ndk/status.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker::c {

// rdma_broker_event, with the names that it has in this library.
struct Event {
  uint32_t kind = 0;
  uint64_t context = 0;
  rdma_broker_handle source = 0;
  rdma_broker_handle object = 0;
  client::Outcome outcome;
};

// Events on their way from the library's threads to the program's, by a descriptor that can be read while there are
// any, and from Shut on. Any thread.
class EventQueue {
 public:
  EventQueue();

  // Whether the process had a descriptor left.
  bool ok() const { return static_cast<bool>(descriptor_); }
  int descriptor() const { return descriptor_.get(); }

  // After Shut it is dropped. Ends the process where there is no memory for it: who waits for it would wait for ever.
  void Post(Event event) noexcept { Post(Events{std::move(event)}); }
  // The same with the event's own memory: it is all that is in `one`.
  using Events = std::list<Event>;
  void Post(Events one) noexcept;
  // Takes the oldest that is wanted. kTimeout: none came within so many milliseconds, where that is not negative;
  // kCancelled: the queue is shut.
  NdkStatus Take(int timeout_ms, const std::function<bool(const Event&)>& wanted, Event* event);
  void Shut();

 private:
  const UniqueFd descriptor_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Events events_;
  bool shut_ = false;
};

}  // namespace rdmabroker::c

#endif  // CLIENT_C_EVENT_QUEUE_H_
