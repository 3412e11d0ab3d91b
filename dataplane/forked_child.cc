// SPDX-License-Identifier: Apache-2.0

#include "dataplane/forked_child.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>

namespace rdmabroker {
namespace {

std::atomic<bool> is_child = false;

// Locked while the process forks, so that the child finds it whole.
struct Closed {
  std::mutex mutex;
  std::set<int> fds;
};

Closed& InChildren() {
  static Closed& closed = *new Closed;
  return closed;
}

void BecomeChild() {
  Closed& closed = InChildren();
  is_child.store(true);
  for (const int fd : closed.fds) ::close(fd);
  closed.mutex.unlock();
}

}  // namespace

void NoticeForks() {
  static const int kNoticed =
      ::pthread_atfork([] { InChildren().mutex.lock(); }, [] { InChildren().mutex.unlock(); }, BecomeChild);
  (void)kNoticed;  // ENOMEM for a few bytes: then children are as they were without.
}

bool IsForkedChild() { return is_child.load(std::memory_order_relaxed); }

ParentsAlone::ParentsAlone(int fd) : fd_(fd) {
  if (fd < 0) return;
  const std::lock_guard lock(InChildren().mutex);
  InChildren().fds.insert(fd);
}

ParentsAlone::~ParentsAlone() {
  if (fd_ < 0 || IsForkedChild()) return;
  const std::lock_guard lock(InChildren().mutex);
  InChildren().fds.erase(fd_);
}

}  // namespace rdmabroker
