// SPDX-License-Identifier: Apache-2.0

#include "dataplane/iwarp/socket_watch.h"

namespace rdmabroker::iwarp {

bool SocketWatch::Start(int fd) {
  const std::lock_guard lock(mutex_);
  const uint32_t events = queue_pair_->events();
  const uint64_t handle = ProgressThread::Get().Watch(queue_pair_, fd, events);
  bool watched = handle != 0;
  ForEachQueue([&](SoftwareCompletionQueue* cq) { watched = watched && cq->WatchSocket(queue_pair_, fd, events); });
  if (!watched) {
    ForEachQueue([&](SoftwareCompletionQueue* cq) { cq->UnwatchSocket(fd); });
    ProgressThread::Get().Unwatch(handle);
    return false;
  }
  handle_ = handle;
  fd_ = fd;
  events_ = events;
  return true;
}

void SocketWatch::Stop() {
  const std::lock_guard lock(mutex_);
  if (fd_ < 0) return;
  ProgressThread::Get().Unwatch(handle_.exchange(0));
  ForEachQueue([&](SoftwareCompletionQueue* cq) { cq->UnwatchSocket(fd_); });
  fd_ = -1;
}

void SocketWatch::Update() {
  if (events_ == queue_pair_->events()) return;
  const std::lock_guard lock(mutex_);
  if (fd_ < 0) return;
  // Another thread may change its mind meanwhile and, as it sees what it wants in `events_`, leave it at that; so they
  // are compared again after each change.
  for (uint32_t wanted = queue_pair_->events(); events_ != wanted; wanted = queue_pair_->events()) {
    events_ = wanted;
    ProgressThread::Get().SetEvents(handle_, wanted);
    ForEachQueue([&](SoftwareCompletionQueue* cq) { cq->SetSocketEvents(queue_pair_, fd_, wanted); });
  }
}

}  // namespace rdmabroker::iwarp
