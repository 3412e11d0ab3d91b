// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_MEMORY_SHORTAGE_H_
#define TESTS_MEMORY_SHORTAGE_H_

#include <cstdint>

namespace rdmabroker {

// While one is there, operator new throws std::bad_alloc: in this thread, which gets memory so many times before that,
// or in all others. One at a time; the thread that makes it also ends it. What has malloc gets memory.
class MemoryShortage {
 public:
  static MemoryShortage HereAfter(int64_t allocations) { return MemoryShortage(allocations, false); }
  static MemoryShortage Elsewhere() { return MemoryShortage(-1, true); }
  ~MemoryShortage();
  MemoryShortage(const MemoryShortage&) = delete;
  MemoryShortage& operator=(const MemoryShortage&) = delete;

 private:
  MemoryShortage(int64_t left_here, bool elsewhere);
};

}  // namespace rdmabroker

#endif  // TESTS_MEMORY_SHORTAGE_H_
