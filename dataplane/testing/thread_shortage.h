// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_TESTING_THREAD_SHORTAGE_H_
#define DATAPLANE_TESTING_THREAD_SHORTAGE_H_

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>

namespace rdmabroker {

// While this object lives, this process cannot start a thread with a stack of the default size: there is no room for
// one. A thread whose creator chooses a smaller stack still starts.
class ThreadShortage {
 public:
  ThreadShortage() {
    EXPECT_EQ(::pthread_getattr_default_np(&before_), 0);
    pthread_attr_t huge;
    EXPECT_EQ(::pthread_attr_init(&huge), 0);
    EXPECT_EQ(::pthread_attr_setstacksize(&huge, size_t{1} << 60), 0);
    EXPECT_EQ(::pthread_setattr_default_np(&huge), 0);
    ::pthread_attr_destroy(&huge);
  }
  ~ThreadShortage() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }
  ThreadShortage(const ThreadShortage&) = delete;
  ThreadShortage& operator=(const ThreadShortage&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace rdmabroker

#endif  // DATAPLANE_TESTING_THREAD_SHORTAGE_H_
