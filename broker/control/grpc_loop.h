// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_CONTROL_GRPC_LOOP_H_
#define BROKER_CONTROL_GRPC_LOOP_H_

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "broker/runtime/executor.h"

namespace rdmabroker {

// The loop thread: whoever calls Run. gRPC's one completion queue is its queue, because a second poller in the process
// doubles the latency of every call (measured with gRPC 1.51) and hides the hand-over between threads from
// ThreadSanitizer.
class GrpcLoop : public Executor {
 public:
  using Done = std::function<void(bool ok)>;

  GrpcLoop() = default;
  GrpcLoop(const GrpcLoop&) = delete;
  GrpcLoop& operator=(const GrpcLoop&) = delete;

  // Before anything else; gRPC's server builder makes the queue.
  void SetQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue) { queue_ = std::move(queue); }
  grpc::ServerCompletionQueue* queue() { return queue_.get(); }

  // A tag for one operation on the queue: `done` is called when it completes, on the loop thread. Loop thread only, or
  // before Run.
  void* Tag(Done done);
  // For a tag whose operation gRPC will not complete: the done notification of a call that never came.
  void Drop(void* tag);

  void Post(std::function<void()> task) override;

  // Runs until Stop was called and every operation has completed.
  void Run();
  // Loop thread only, after the server has shut down. Tasks posted from now on are forgotten.
  void Stop() { stopping_ = true; }

 private:
  void RunTasks();

  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  size_t live_ = 0;  // Operations that have not completed.
  bool stopping_ = false;

  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;  // Guarded by mutex_. Few: what a Watcher has, and one a stream.
  std::unique_ptr<grpc::Alarm> wake_;         // Guarded by mutex_: under way to RunTasks, if there is one.
  bool closed_ = false;                       // Guarded by mutex_: the queue takes nothing any more.
};

}  // namespace rdmabroker

#endif  // BROKER_CONTROL_GRPC_LOOP_H_
