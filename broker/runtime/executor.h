// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_RUNTIME_EXECUTOR_H_
#define BROKER_RUNTIME_EXECUTOR_H_

#include <functional>

namespace rdmabroker {

// The loop thread, as other threads see it.
class Executor {
 public:
  virtual ~Executor() = default;

  // Runs `task` on the loop thread, after those posted before it. From any thread; never runs it inside the call.
  virtual void Post(std::function<void()> task) = 0;
};

}  // namespace rdmabroker

#endif  // BROKER_RUNTIME_EXECUTOR_H_
