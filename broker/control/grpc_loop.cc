// SPDX-License-Identifier: Apache-2.0

#include "broker/control/grpc_loop.h"

#include <utility>

namespace rdmabroker {

void* GrpcLoop::Tag(Done done) {
  ++live_;
  return new Done(std::move(done));
}

void GrpcLoop::Drop(void* tag) {
  --live_;
  delete static_cast<Done*>(tag);
}

void GrpcLoop::Post(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  tasks_.push_back(std::move(task));
  if (wake_ != nullptr) return;
  wake_ = std::make_unique<grpc::Alarm>();
  // Told from the tags of operations, which are functions on the heap, by being the loop itself.
  wake_->Set(queue_.get(), gpr_time_0(GPR_CLOCK_REALTIME), this);
}

void GrpcLoop::RunTasks() {
  std::vector<std::function<void()>> tasks;
  // Goes after the lock; made by another thread, it changes hands under the lock.
  std::unique_ptr<grpc::Alarm> wake;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
    wake = std::move(wake_);
  }
  for (const auto& task : tasks) task();
}

void GrpcLoop::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
    if (tag == this) {
      RunTasks();
    } else {
      const std::unique_ptr<Done> done(static_cast<Done*>(tag));
      --live_;
      (*done)(ok);
    }
    if (stopping_ && live_ == 0) {
      const std::lock_guard lock(mutex_);
      if (wake_ != nullptr || std::exchange(closed_, true)) continue;
      queue_->Shutdown();
    }
  }
}

}  // namespace rdmabroker
