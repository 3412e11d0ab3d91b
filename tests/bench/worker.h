// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_BENCH_WORKER_H_
#define TESTS_BENCH_WORKER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>

#include "dataplane/unique_fd.h"

namespace rdmabroker::bench {

// What a process that takes part in a benchmark is told to do.
enum class Order : uint8_t { kPrepare, kRun, kEnd };

struct Command {
  Order order = Order::kPrepare;
  bool at_once = false;      // Of kRun: all of them, and not one after the other.
  uint32_t connections = 0;  // Of kPrepare and kRun.
};

// The time that all threads of a process have had of the processors; 0 where it has gone.
double CpuSeconds(pid_t process);

// A process that carries out commands. Made before this process has threads, or has used gRPC. It dies with its parent,
// and a failure of it ends the parent.
class Worker {
 public:
  using Handler = std::function<void(const Command&)>;

  // `make` runs in the new process, once; the constructor returns when it has.
  explicit Worker(const std::function<Handler()>& make);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void Tell(const Command& command) const;
  // Until it has done what it was told.
  void Await() const;
  void Do(const Command& command) const {
    Tell(command);
    Await();
  }

  pid_t process() const { return process_; }

 private:
  pid_t process_ = -1;
  UniqueFd socket_;
};

}  // namespace rdmabroker::bench

#endif  // TESTS_BENCH_WORKER_H_
