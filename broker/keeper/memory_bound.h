// SPDX-License-Identifier: Apache-2.0

#ifndef BROKER_KEEPER_MEMORY_BOUND_H_
#define BROKER_KEEPER_MEMORY_BOUND_H_

#include <sys/resource.h>

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rdmabroker::keeper {

// What a child may have of private writable memory, which is RLIMIT_DATA's: the heap, and the stacks of threads at
// their full size. Where a cgroup runs out of memory, the kernel kills in it, by memory.oom.group all that is in it:
// with the keeper goes what it keeps. A child that runs into its own limit before dies alone.
struct MemoryBound {
  rlim_t bytes = RLIM_INFINITY;
  rlim_t cgroup_bytes = RLIM_INFINITY;  // The cgroup's limit, of which `bytes` is a part.

  bool operator==(const MemoryBound&) const = default;
};

// Three times what a broker needs that serves nobody yet.
inline constexpr rlim_t kLeastMemory = 16 << 20;
// A thread's stack, where memory is bounded: the system's usual 8 MiB, for each of the broker's 64 threads that block,
// would be more than a container of 512 MiB has.
inline constexpr rlim_t kStackBytes = 1 << 20;

// A file's text; nothing where it cannot be read.
std::optional<std::string> ReadTextFile(const std::string& path);
// Three quarters of the least limit of the cgroups that this process is in, by version 2 or 1 and as far as they can be
// seen. The last quarter is for what else is charged to the cgroup: the records on a tmpfs, buffers of sockets, the
// keeper, and what is executed in the container, such as probes. No bound where no cgroup has a limit.
MemoryBound BoundByCgroup(absl::FunctionRef<std::optional<std::string>(const std::string& path)> read);

// A number of bytes, or RLIM_INFINITY for "none"; the error says what it may be.
absl::StatusOr<rlim_t> ReadMemory(absl::string_view text);

}  // namespace rdmabroker::keeper

#endif  // BROKER_KEEPER_MEMORY_BOUND_H_
