// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_KEEPER_CHILD_H_
#define BROKER_KEEPER_CHILD_H_

#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "broker/keeper/descriptor_store.h"

namespace rdmabroker::keeper {

// How each child is started.
struct Launch {
  std::vector<std::string> command;  // A path, or a name to be found by PATH, and its arguments.
  std::string notify_address;
  absl::Duration watchdog_interval = absl::InfiniteDuration();
  rlim_t descriptor_limit = RLIM_INFINITY;  // The child's, of RLIMIT_NOFILE, or its hard limit where that is less.
  // The child's, of RLIMIT_DATA, or this process's where that is less. With one, a thread's stack is kStackBytes at
  // most, unless the command's arguments and environment need more.
  rlim_t memory_limit = RLIM_INFINITY;
};

// `environment`, as environ(7) has it, for a child: without what tells of this process's own supervisor, and with what
// tells of the child's but LISTEN_PID and WATCHDOG_PID.
std::vector<std::string> ChildEnvironment(const char* const* environment, const Launch& launch,
                                          const DescriptorStore& store);

// Starts the child with the stored descriptors as 3, 4 ..., in their order and with no other but the standard ones, no
// signal blocked or ignored, and SIGTERM when this thread ends. Where the command cannot be executed, the child says so
// on standard error and exits with 126 or 127, as a shell's. The process has one thread.
absl::StatusOr<pid_t> SpawnChild(const Launch& launch, const DescriptorStore& store);

}  // namespace rdmabroker::keeper

#endif  // BROKER_KEEPER_CHILD_H_
