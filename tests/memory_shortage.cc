// SPDX-License-Identifier: Apache-2.0

#include "tests/memory_shortage.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <gnu/libc-version.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <new>

namespace rdmabroker {
namespace {

constexpr int64_t kEnough = -1;

thread_local int64_t left_here = kEnough;
thread_local bool spared = false;
thread_local bool asking = false;
thread_local bool refused_here = false;
std::atomic<bool> short_elsewhere = false;
std::atomic<bool (*)()> spared_here = nullptr;

const void* ObjectOf(const void* address) {
  Dl_info info = {};
  return ::dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

// Whether the program's code asks for memory, and not a library on its behalf. A function of the program's may be
// called by a library, which has the same template: so each caller counts. The C++ library asks for whoever has called
// it, and the C library calls main.
bool ProgramAsks() {
  static const std::array<const void*, 3> kOwn = {ObjectOf(reinterpret_cast<const void*>(&ProgramAsks)),
                                                  ObjectOf(reinterpret_cast<const void*>(&std::terminate)),
                                                  ObjectOf(reinterpret_cast<const void*>(&::gnu_get_libc_version))};
  constexpr int kMostFrames = 64;
  std::array<void*, kMostFrames> frames;
  const int count = ::backtrace(frames.data(), kMostFrames);
  return std::all_of(frames.begin(), frames.begin() + count, [](const void* frame) {
    return std::find(kOwn.begin(), kOwn.end(), ObjectOf(frame)) != kOwn.end();
  });
}

bool IsSpared() {
  bool (*const here)() = spared_here;
  return here != nullptr && here();
}

void* Allocate(size_t size) noexcept {
  if (short_elsewhere && !spared && !IsSpared()) return nullptr;
  if (left_here >= 0 && !asking && !IsSpared()) {
    asking = true;
    const bool counts = ProgramAsks();
    asking = false;
    if (counts && left_here == 0) {
      refused_here = true;
      return nullptr;
    }
    if (counts) --left_here;
  }
  return std::malloc(std::max<size_t>(size, 1));
}

}  // namespace

MemoryShortage::MemoryShortage(int64_t left, bool elsewhere) {
  left_here = left;
  refused_here = false;
  spared = elsewhere;
  short_elsewhere = elsewhere;
}

MemoryShortage::~MemoryShortage() {
  short_elsewhere = false;
  left_here = kEnough;
}

void MemoryShortage::Spare(bool (*here)()) { spared_here = here; }

bool MemoryShortage::refused() const { return refused_here; }

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
