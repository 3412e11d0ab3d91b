// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_START_THREAD_H_
#define DATAPLANE_START_THREAD_H_

#include <functional>
#include <thread>

namespace rdmabroker {

// Starts a thread that calls `run`. Not joinable: the process gets no more threads (RLIMIT_NPROC, pids.max), or no
// memory for one. Any thread.
std::thread StartThread(std::function<void()> run) noexcept;

// The advice for a user whose process gets no more threads.
inline constexpr char kNoThreadHint[] = "this process gets no more threads: raise its limit (ulimit -u, TasksMax)";

}  // namespace rdmabroker

#endif  // DATAPLANE_START_THREAD_H_
