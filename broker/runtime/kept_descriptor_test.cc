// SPDX-License-Identifier: Apache-2.0

#include "broker/runtime/kept_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <string>

namespace rdmabroker {
namespace {

TEST(DescriptorName, IsAsciiWithoutControlCharactersAndColons) {
  struct Row {
    std::string name;
    bool fine;
  };
  const Row rows[] = {
      {"rdma_cm", true},
      {"10.0.0.1 4420", true},
      {"", true},
      {"~!\"#$%&'()*+,-./", true},
      {std::string(255, 'n'), true},
      {std::string(256, 'n'), false},
      {"a:b", false},
      {"a\nb", false},
      {"a\x1f", false},
      {"a\x7f", false},
      {"\xc3\xa4", false},
      {std::string("a\0b", 3), false},
  };
  for (const Row& row : rows) EXPECT_EQ(IsDescriptorName(row.name), row.fine) << row.name;
}

TEST(SameFile, IsADuplicateAndNotAnotherOpeningOfTheSameDevice) {
  const UniqueFd first(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const UniqueFd second(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(AreSameFile(first.get(), second.get()));
}

// These have one inode together.
TEST(SameFile, IsNotAnotherOfTheKernelsAnonymousOnes) {
  const UniqueFd first(::eventfd(0, EFD_CLOEXEC));
  const UniqueFd second(::eventfd(0, EFD_CLOEXEC));
  EXPECT_FALSE(AreSameFile(first.get(), second.get()));
}

TEST(SameFile, IsADuplicateOfASocketButNotItsPeer) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd one(ends[0]);
  const UniqueFd other(ends[1]);
  const UniqueFd duplicate(::fcntl(one.get(), F_DUPFD_CLOEXEC, 0));
  EXPECT_TRUE(AreSameFile(one.get(), duplicate.get()));
  EXPECT_FALSE(AreSameFile(one.get(), other.get()));
}

}  // namespace
}  // namespace rdmabroker
