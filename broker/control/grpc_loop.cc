// SPDX-License-Identifier: Apache-2.0

#include "broker/control/grpc_loop.h"

#include <grpcpp/alarm.h>

#include <utility>

namespace rdmabroker {
namespace {

// What wakes the loop for posted tasks. It is a tag like the others, but other threads start it.
struct Wake {
  grpc::Alarm alarm;
};

// Told from the tags of operations, which are pointers to functions on the heap, by its odd value.
void* TagOfWake(Wake* wake) { return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(wake) | 1); }
Wake* WakeOfTag(void* tag) {
  const auto value = reinterpret_cast<uintptr_t>(tag);
  return (value & 1) == 0 ? nullptr : reinterpret_cast<Wake*>(value & ~uintptr_t{1});
}

}  // namespace

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
  if (std::exchange(woken_, true)) return;
  auto* wake = new Wake;
  wake->alarm.Set(queue_.get(), gpr_time_0(GPR_CLOCK_REALTIME), TagOfWake(wake));
}

void GrpcLoop::RunTasks() {
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
    woken_ = false;
  }
  for (const auto& task : tasks) task();
}

void GrpcLoop::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
    if (Wake* wake = WakeOfTag(tag)) {
      delete wake;
      RunTasks();
    } else {
      const std::unique_ptr<Done> done(static_cast<Done*>(tag));
      --live_;
      (*done)(ok);
    }
    if (stopping_ && live_ == 0) {
      const std::lock_guard lock(mutex_);
      if (woken_ || std::exchange(closed_, true)) continue;
      queue_->Shutdown();
    }
  }
}

}  // namespace rdmabroker
