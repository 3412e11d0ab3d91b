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
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void MakerThread::Run(std::function<void()> work) {
  std::packaged_task<void()> task(std::move(work));
  const std::future<void> done = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
  done.wait();
}

void MakerThread::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::packaged_task<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace rdmabroker::verbs
