// SPDX-License-Identifier: Apache-2.0

#include "dataplane/forked_child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <utility>

#include "dataplane/unique_fd.h"

namespace rdmabroker {
namespace {

bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

// What a child says of itself.
bool InChild(const std::function<bool()>& ask) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(ask() ? 1 : 0);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status) == 1;
}

TEST(AForkedChild, KnowsWhatItIs) {
  NoticeForks();
  NoticeForks();
  EXPECT_FALSE(IsForkedChild());
  EXPECT_TRUE(InChild(IsForkedChild));
  EXPECT_FALSE(IsForkedChild());
}

TEST(AForkedChild, HasNoDescriptorThatIsItsParentsAlone) {
  NoticeForks();
  const UniqueFd shared(::eventfd(0, 0));
  UniqueFd alone(::eventfd(0, 0));
  ParentsAlone mark(alone.get());
  EXPECT_TRUE(InChild([&] { return IsOpen(shared.get()) && !IsOpen(alone.get()); }));
  EXPECT_TRUE(IsOpen(alone.get()));
  ParentsAlone moved = std::move(mark);
  EXPECT_TRUE(InChild([&] { return !IsOpen(alone.get()); }));
  moved = {};
  EXPECT_TRUE(InChild([&] { return IsOpen(alone.get()); }));
}

}  // namespace
}  // namespace rdmabroker
