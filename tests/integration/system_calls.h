// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_INTEGRATION_SYSTEM_CALLS_H_
#define TESTS_INTEGRATION_SYSTEM_CALLS_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace rdmabroker {

// Counts the system calls of all threads of a child process, by ptrace(2), which a process may always use on its own
// children. A call counts when it begins. What cannot be traced fails the test.
class SystemCalls {
 public:
  // By number.
  using Counts = std::map<uint64_t, int>;

  // Returns when all threads that the process has are traced; those that it starts are traced from their start on.
  explicit SystemCalls(pid_t process);
  // Lets the process go.
  ~SystemCalls();
  SystemCalls(const SystemCalls&) = delete;
  SystemCalls& operator=(const SystemCalls&) = delete;

  // Since the construction.
  Counts Read();

 private:
  void Trace();
  // Stops the thread, as soon as it is traced, so that it goes on by GoOn.
  bool Seize(pid_t thread);
  void HandleStop(pid_t thread, int status);
  void GoOn(pid_t thread, int signal);
  void LetGo();

  const pid_t process_;
  std::set<pid_t> threads_;  // Of the process; for the tracing thread.
  std::mutex mutex_;
  Counts counts_;  // Guarded by mutex_.
  std::promise<bool> traced_;
  std::atomic<bool> over_ = false;
  std::thread tracer_;  // The only one that may trace.
};

// "epoll_wait 5, read 3": the most frequent first. Calls that this program has no names for stand as numbers.
std::string Described(const SystemCalls::Counts& counts);

}  // namespace rdmabroker

#endif  // TESTS_INTEGRATION_SYSTEM_CALLS_H_
