// SPDX-License-Identifier: Apache-2.0

#include "tests/memory_shortage.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace rdmabroker {
namespace {

constexpr int64_t kEnough = -1;

thread_local int64_t left_here = kEnough;
thread_local bool spared = false;
std::atomic<bool> short_elsewhere = false;

void* Allocate(size_t size) noexcept {
  if (left_here == 0 || (short_elsewhere && !spared)) return nullptr;
  if (left_here > 0) --left_here;
  return std::malloc(std::max<size_t>(size, 1));
}

}  // namespace

MemoryShortage::MemoryShortage(int64_t left, bool elsewhere) {
  left_here = left;
  spared = elsewhere;
  short_elsewhere = elsewhere;
}

MemoryShortage::~MemoryShortage() {
  short_elsewhere = false;
  left_here = kEnough;
}

}  // namespace rdmabroker

// The program's own, in place of the library's. Those of arrays come down to these, or are a sanitizer's and go
// together.
void* operator new(size_t size) {
  if (void* const memory = rdmabroker::Allocate(size); memory != nullptr) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t size, const std::nothrow_t&) noexcept { return rdmabroker::Allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
