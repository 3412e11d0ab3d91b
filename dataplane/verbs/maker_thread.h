// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_MAKER_THREAD_H_
#define DATAPLANE_VERBS_MAKER_THREAD_H_

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/functional/function_ref.h"

namespace rdmabroker::verbs {

// Makes an adapter's queue pairs: RDMA netlink names the thread that made one for as long as that thread lives, and a
// consumer's may end first. No callback of a consumer's runs here, so that each of them may wait for it.
class MakerThread {
 public:
  // Null where the kernel has no thread left.
  static std::unique_ptr<MakerThread> Start();

  MakerThread(const MakerThread&) = delete;
  MakerThread& operator=(const MakerThread&) = delete;
  // When nobody waits any more.
  ~MakerThread();

  // Returns when `work` has run there, and throws what it has thrown. Needs no memory. From any other thread.
  void Run(absl::FunctionRef<void()> work);

 private:
  // On its caller's stack.
  struct Task {
    absl::FunctionRef<void()> work;
    std::exception_ptr thrown;
    bool done = false;
  };

  MakerThread() = default;
  void Work();

  std::thread thread_;

  std::mutex mutex_;  // Guards what follows; innermost of all locks.
  std::condition_variable changed_;
  Task* task_ = nullptr;  // What is to be done next, or is being done.
  bool stopping_ = false;
};

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_MAKER_THREAD_H_
