// SPDX-License-Identifier: Apache-2.0

#ifndef TESTS_MEMORY_SHORTAGE_H_
#define TESTS_MEMORY_SHORTAGE_H_

#include <cstdint>

namespace rdmabroker {

// While one is there, operator new throws std::bad_alloc: in this thread, where the program's own code gets memory so
// many times before that, and the libraries that it is linked with, such as gRPC, get it always; or in all other
// threads, whoever asks. One at a time; the thread that makes it also ends it. What has malloc gets memory.
class MemoryShortage {
 public:
  static MemoryShortage HereAfter(int64_t allocations) { return MemoryShortage(allocations, false); }
  static MemoryShortage Elsewhere() { return MemoryShortage(-1, true); }
  // Where this returns true, there is memory always: for code of the program's that stands in for a library's.
  static void Spare(bool (*here)());
  ~MemoryShortage();
  // Whether this thread has been refused memory.
  bool refused() const;
  MemoryShortage(const MemoryShortage&) = delete;
  MemoryShortage& operator=(const MemoryShortage&) = delete;

 private:
  MemoryShortage(int64_t left_here, bool elsewhere);
};

}  // namespace rdmabroker

#endif  // TESTS_MEMORY_SHORTAGE_H_
