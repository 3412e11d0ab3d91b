// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_VERBS_LOCKED_MEMORY_H_
#define DATAPLANE_VERBS_LOCKED_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rdmabroker::verbs {

// In bytes.
struct LockedMemory {
  uint64_t limit = 0;   // RLIMIT_MEMLOCK, RLIM_INFINITY for none.
  uint64_t locked = 0;  // By registrations (VmPin of proc(5)); what mlock(2) has locked does not count for them.
};

// As this process has it now.
LockedMemory ReadLockedMemory();
// VmPin of the text of /proc/PID/status, in bytes; 0 where it is not there.
uint64_t PinnedBytes(std::string_view status);

// Why the kernel does not lock `length` bytes more, for a person; empty where the limit is not the reason
// (ib_umem_get in drivers/infiniband/core/umem.c). Without a length, where only the driver knows how much it needs, any
// limit may be the reason.
std::string Objection(const LockedMemory& memory, std::optional<uint64_t> length);

}  // namespace rdmabroker::verbs

#endif  // DATAPLANE_VERBS_LOCKED_MEMORY_H_
