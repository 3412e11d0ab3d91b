// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_DRIVEN_QUEUE_PAIR_H_
#define DATAPLANE_IWARP_DRIVEN_QUEUE_PAIR_H_

#include <cstdint>

#include "dataplane/pending_call.h"
#include "dataplane/queue_pair.h"

namespace rdmabroker::iwarp {

// A queue pair as those see it who lend it their time: pollers of its completion queues and the progress thread.
class DrivenQueuePair : public LetGoOnThread<QueuePair> {
 public:
  // Moves what can be moved without waiting; does nothing if another thread is at it.
  virtual void Drive() = 0;
  // The same for the progress thread when it was called, by the socket, a post, or a completion queue's end: waits for
  // the thread that is at it, which may have looked before there was something. The socket would call again at once and
  // for ever, and where the two share a core keep the other one from coming to its end; the others would not call again
  // at all.
  virtual void OnReady() = 0;
  // The progress thread leaves the socket alone from here on, as it is polled.
  virtual void OnLeftToPollers() = 0;
  // A consumer waits for a notification from here on: the progress thread must watch the socket.
  virtual void OnArm() = 0;
  // Changes whenever somebody polls.
  virtual uint64_t poll_count() const = 0;
  // Which of the socket's EPOLLIN and EPOLLOUT matter.
  virtual uint32_t events() const = 0;
  // Somebody waits for a notification rather than polling.
  virtual bool notification_wanted() const = 0;

  // Has OnReady called on the progress thread, whatever the socket says.
  PendingCall* wake() { return &wake_; }

 private:
  PendingCall wake_{this, [this] { OnReady(); }};
};

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_DRIVEN_QUEUE_PAIR_H_
