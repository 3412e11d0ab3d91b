// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_MAKER_THREAD_H_
#define DATAPLANE_VERBS_MAKER_THREAD_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

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

  // Returns when `work` has run there, after what others gave before. From any other thread.
  void Run(std::function<void()> work);

 private:
  MakerThread() = default;
  void Work();

  std::thread thread_;

  std::mutex mutex_;  // Guards what follows; innermost of all locks.
  std::condition_variable changed_;
  std::deque<std::packaged_task<void()>> tasks_;
  bool stopping_ = false;
};

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_MAKER_THREAD_H_
