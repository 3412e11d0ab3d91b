// SPDX-License-Identifier: Apache-2.0

#ifndef DATAPLANE_TESTING_DESCRIPTOR_SHORTAGE_H_
#define DATAPLANE_TESTING_DESCRIPTOR_SHORTAGE_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "dataplane/unique_fd.h"

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

// While it lives, this process is at its limit of open files: it gets the numbers of descriptors that it closes, and no
// other. DescriptorShortage withholds those, too.
class FullDescriptorTable {
 public:
  FullDescriptorTable() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit few = {kLimit, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    for (UniqueFd filler(::dup(STDERR_FILENO)); filler; filler.Reset(::dup(STDERR_FILENO))) {
      fillers_.push_back(std::move(filler));
    }
    EXPECT_FALSE(fillers_.empty()) << "more descriptors are open than this has room for";
  }
  ~FullDescriptorTable() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FullDescriptorTable(const FullDescriptorTable&) = delete;
  FullDescriptorTable& operator=(const FullDescriptorTable&) = delete;

 private:
  static constexpr rlim_t kLimit = 256;

  rlimit before_ = {};
  std::vector<UniqueFd> fillers_;
};

}  // namespace rdmabroker

#endif  // DATAPLANE_TESTING_DESCRIPTOR_SHORTAGE_H_
