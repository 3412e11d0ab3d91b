// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_IWARP_SOCKET_WATCH_H_
#define DATAPLANE_IWARP_SOCKET_WATCH_H_

#include <atomic>
#include <cstdint>
#include <mutex>

#include "dataplane/iwarp/completion_queue.h"
#include "dataplane/iwarp/driven_queue_pair.h"
#include "dataplane/iwarp/progress_thread.h"

namespace rdmabroker::iwarp {

// Has a queue pair driven when its socket is ready: by polls of its completion queues and by the progress thread. All
// functions may be called from any thread; Start and Stop by one at a time.
class SocketWatch {
 public:
  // Both queues may be the same. All outlive the watch.
  SocketWatch(DrivenQueuePair* queue_pair, SoftwareCompletionQueue* receive_cq, SoftwareCompletionQueue* initiator_cq)
      : queue_pair_(queue_pair), receive_cq_(receive_cq), initiator_cq_(initiator_cq) {}

  // The socket stays the caller's, and open until Stop. False: the kernel watches no more
  // (fs.epoll.max_user_watches), and nothing has been started. Nor has it where this throws std::bad_alloc.
  bool Start(int fd);
  void Stop();
  // Call it whenever DrivenQueuePair::events may have changed: it costs a comparison where they have not.
  void Update();

  // Has the completion queues call the queue pair's OnArm when they are next armed.
  void AwaitArm() {
    ForEachQueue([this](SoftwareCompletionQueue* cq) { cq->CallOnArm(queue_pair_); });
  }

  // ProgressThread's function of the same name. It does nothing where nothing is watched.
  void Resume() { ProgressThread::Get().Resume(handle_); }

 private:
  template <typename Change>
  void ForEachQueue(Change change) {
    change(receive_cq_);
    if (initiator_cq_ != receive_cq_) change(initiator_cq_);
  }

  DrivenQueuePair* const queue_pair_;
  SoftwareCompletionQueue* const receive_cq_;
  SoftwareCompletionQueue* const initiator_cq_;
  std::atomic<uint64_t> handle_ = 0;  // With the progress thread; 0: not watched.
  std::atomic<uint32_t> events_ = 0;  // That are being watched for, or are about to be.
  std::mutex mutex_;                  // Before the progress thread's. Guards what follows.
  int fd_ = -1;
};

}  // namespace rdmabroker::iwarp

#endif  // DATAPLANE_IWARP_SOCKET_WATCH_H_
