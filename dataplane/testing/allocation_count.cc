// SPDX-License-Identifier: Apache-2.0

#include "dataplane/testing/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<uint64_t> allocations = 0;
}  // namespace

namespace rdmabroker {

uint64_t AllocationCount() { return allocations; }

}  // namespace rdmabroker

void* operator new(size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
