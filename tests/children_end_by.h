// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_CHILDREN_END_BY_H_
#define TESTS_CHILDREN_END_BY_H_

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

namespace rdmabroker {

// While it lives, each child that this process forks ends by the signal before fork returns in it, as if another had
// sent it: the kernel where memory is short, for one. One at a time.
class ChildrenEndBy {
 public:
  explicit ChildrenEndBy(int signal) {
    [[maybe_unused]] static const int kOnce = ::pthread_atfork(nullptr, nullptr, End);
    signal_ = signal;
  }
  ~ChildrenEndBy() { signal_ = 0; }
  ChildrenEndBy(const ChildrenEndBy&) = delete;
  ChildrenEndBy& operator=(const ChildrenEndBy&) = delete;

 private:
  static void End() {
    if (signal_ == 0) return;
    const rlimit no_core = {};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::signal(signal_, SIG_DFL);  // A sanitizer may have a handler.
    ::kill(::getpid(), signal_);
  }

  static inline int signal_ = 0;
};

}  // namespace rdmabroker

#endif  // TESTS_CHILDREN_END_BY_H_
