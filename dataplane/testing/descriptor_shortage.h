// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_TESTING_DESCRIPTOR_SHORTAGE_H_
#define DATAPLANE_TESTING_DESCRIPTOR_SHORTAGE_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace rdmabroker {

// While it lives, this process can have only so many descriptors more than it has.
class DescriptorShortage {
 public:
  explicit DescriptorShortage(int spare = 0) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    int limit = 0;
    for (int left = spare; left > 0 || ::fcntl(limit, F_GETFD) == 0; ++limit) {
      if (::fcntl(limit, F_GETFD) != 0) --left;
    }
    const rlimit few = {static_cast<rlim_t>(limit), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~DescriptorShortage() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorShortage(const DescriptorShortage&) = delete;
  DescriptorShortage& operator=(const DescriptorShortage&) = delete;

 private:
  rlimit before_ = {};
};

}  // namespace rdmabroker

#endif  // DATAPLANE_TESTING_DESCRIPTOR_SHORTAGE_H_
