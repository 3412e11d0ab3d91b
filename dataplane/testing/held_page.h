// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_TESTING_HELD_PAGE_H_
#define DATAPLANE_TESTING_HELD_PAGE_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <new>
#include <string>
#include <utility>

#include "dataplane/testing/side.h"
#include "dataplane/unique_fd.h"

namespace rdmabroker {

// Memory whose first reader stands still until it is let go, with all locks that it holds (userfaultfd(2)). One value
// of a type that needs no destructor is in it.
template <typename Value>
class HeldPage {
 public:
  // `value` is what the reader sees.
  explicit HeldPage(const Value& value) : fault_(NewFault()) {
    static_assert(sizeof(Value) <= kSize);
    new (copy_.data()) Value(value);
    page_ = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uffdio_register wanted = {};
    wanted.range = Range();
    wanted.mode = UFFDIO_REGISTER_MODE_MISSING;
    there_ = page_ != MAP_FAILED && fault_ && ::ioctl(fault_.get(), UFFDIO_REGISTER, &wanted) == 0;
  }
  ~HeldPage() {
    LetGo();
    if (page_ != MAP_FAILED) ::munmap(page_, kSize);
  }
  HeldPage(const HeldPage&) = delete;
  HeldPage& operator=(const HeldPage&) = delete;

  // False where the kernel or a sandbox does not allow it.
  bool is_there() const { return there_; }
  const Value* get() const { return static_cast<const Value*>(page_); }
  // Waits for the reader.
  void Await() {
    pollfd ready = {fault_.get(), POLLIN, 0};
    uffd_msg message = {};
    EXPECT_EQ(::poll(&ready, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())), 1)
        << "nobody reads it";
    EXPECT_EQ(::read(fault_.get(), &message, sizeof message), static_cast<ssize_t>(sizeof message));
    EXPECT_EQ(message.event, UFFD_EVENT_PAGEFAULT);
  }
  void LetGo() {
    if (!std::exchange(there_, false)) return;
    uffdio_copy filled = {};
    filled.dst = reinterpret_cast<uintptr_t>(page_);
    filled.src = reinterpret_cast<uintptr_t>(copy_.data());
    filled.len = kSize;
    EXPECT_EQ(::ioctl(fault_.get(), UFFDIO_COPY, &filled), 0) << std::strerror(errno);
  }

 private:
  static constexpr size_t kSize = 4096;

  static UniqueFd NewFault() {
    UniqueFd fault(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
    uffdio_api api = {};
    api.api = UFFD_API;
    return fault && ::ioctl(fault.get(), UFFDIO_API, &api) == 0 ? std::move(fault) : UniqueFd();
  }
  uffdio_range Range() const { return {reinterpret_cast<uintptr_t>(page_), kSize}; }

  const UniqueFd fault_;
  alignas(kSize) std::array<uint8_t, kSize> copy_ = {};
  void* page_ = MAP_FAILED;
  bool there_ = false;
};

// Whether a thread of this process waits for a lock. False, too, where the kernel does not show it.
inline bool WaitsForALock(pid_t thread) {
  long call = -1;
  std::ifstream("/proc/self/task/" + std::to_string(thread) + "/syscall") >> call;
  return call == SYS_futex;
}

}  // namespace rdmabroker

#endif  // DATAPLANE_TESTING_HELD_PAGE_H_
