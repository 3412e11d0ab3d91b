// SPDX-License-Identifier: Apache-2.0

#include "dataplane/verbs/maker_thread.h"

#include <utility>

#include "dataplane/start_thread.h"

namespace rdmabroker::verbs {

std::unique_ptr<MakerThread> MakerThread::Start() {
  std::unique_ptr<MakerThread> maker(new MakerThread);
  maker->thread_ = StartThread([self = maker.get()] { self->Work(); });
  return maker->thread_.joinable() ? std::move(maker) : nullptr;
}

MakerThread::~MakerThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void MakerThread::Run(absl::FunctionRef<void()> work) {
  Task task = {.work = work};
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return task_ == nullptr; });
    task_ = &task;
    changed_.notify_all();
    changed_.wait(lock, [&task] { return task.done; });
  }
  if (task.thrown) std::rethrow_exception(task.thrown);
}

void MakerThread::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || task_ != nullptr; });
    if (task_ == nullptr) return;
    lock.unlock();
    try {
      task_->work();
    } catch (...) {
      task_->thrown = std::current_exception();
    }
    lock.lock();
    std::exchange(task_, nullptr)->done = true;
    changed_.notify_all();
  }
}

}  // namespace rdmabroker::verbs
