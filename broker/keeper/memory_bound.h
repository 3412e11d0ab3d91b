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

// Bounds a child's private writable memory (RLIMIT_DATA): the heap, and threads' stacks at their full size. If a cgroup
// runs out of memory, the kernel kills processes in it, with memory.oom.group all of them, and the keeper's descriptors
// are lost. A child that reaches a lower bound of its own dies alone.
struct MemoryBound {
  rlim_t bytes = RLIM_INFINITY;
  rlim_t cgroup_bytes = RLIM_INFINITY;  // The cgroup's limit, of which `bytes` is a part.

  bool operator==(const MemoryBound&) const = default;
};

// An idle broker needs a third of this.
inline constexpr rlim_t kLeastMemory = 16 << 20;
// The size of a thread's stack if memory is bounded. With the usual 8 MiB, the stacks of the broker's pool of 64
// threads alone would exceed a container of 512 MiB.
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
