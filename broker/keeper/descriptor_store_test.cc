// SPDX-License-Identifier: Apache-2.0

#include "broker/keeper/descriptor_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace rdmabroker::keeper {
namespace {

using Outcome = DescriptorStore::Outcome;

// A pipe's end to store, and the other one, which tells whether that is still open somewhere.
class Pipe {
 public:
  Pipe() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader_.Reset(ends[0]);
    writer_.Reset(ends[1]);
  }

  UniqueFd TakeWriter() { return std::move(writer_); }
  UniqueFd DuplicateOfWriter() const { return UniqueFd(::fcntl(writer_.get(), F_DUPFD_CLOEXEC, 0)); }
  bool IsClosed() const {
    pollfd reader = {reader_.get(), POLLIN, 0};
    return ::poll(&reader, 1, 0) == 1 && (reader.revents & POLLHUP) != 0;
  }

 private:
  UniqueFd reader_;
  UniqueFd writer_;
};

TEST(DescriptorStore, KeepsDescriptorsInTheirOrderByNamesThatNeedNotBeUnique) {
  Pipe pipes[3];
  DescriptorStore store(10);
  EXPECT_EQ(store.Names(), "");
  EXPECT_EQ(store.Add("b", pipes[0].TakeWriter(), false), Outcome::kStored);
  EXPECT_EQ(store.Add("a", pipes[1].TakeWriter(), true), Outcome::kStored);
  EXPECT_EQ(store.Add("b", pipes[2].TakeWriter(), false), Outcome::kStored);
  EXPECT_EQ(store.Names(), "b:a:b");
  ASSERT_EQ(store.stored().size(), 3u);
  EXPECT_FALSE(store.stored()[0].polled);
  EXPECT_TRUE(store.stored()[1].polled);
  for (const Pipe& pipe : pipes) EXPECT_FALSE(pipe.IsClosed());
}

TEST(DescriptorStore, KeepsAFileOnceAndByItsFirstName) {
  Pipe pipe;
  DescriptorStore store(10);
  UniqueFd duplicate = pipe.DuplicateOfWriter();
  const int number = duplicate.get();
  EXPECT_EQ(store.Add("first", pipe.TakeWriter(), false), Outcome::kStored);
  // Where the kernel does not say, pipes count as different: AreSameFile.
  if (!AreSameFile(store.stored()[0].fd.get(), number)) GTEST_SKIP() << "kcmp(2) is not to be had";
  EXPECT_EQ(store.Add("second", std::move(duplicate), false), Outcome::kAlreadyThere);
  EXPECT_EQ(store.Names(), "first");
  EXPECT_EQ(::fcntl(number, F_GETFD), -1) << "the duplicate is closed";
}

// As the rdma_cm files of several processes do.
TEST(DescriptorStore, KeepsFilesThatShareAnInode) {
  DescriptorStore store(10);
  for (int i = 0; i < 3; ++i) {
    UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(store.Add("null", std::move(fd), false), Outcome::kStored);
  }
  store.RemoveBroken(store.stored()[1].fd.get());
  EXPECT_EQ(store.Names(), "null:null");
}

// What is no longer kept is in nobody's way.
TEST(DescriptorStore, KeepsAgainWhatItHasForgotten) {
  Pipe pipe;
  DescriptorStore store(10);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(store.Add("a", pipe.DuplicateOfWriter(), false), Outcome::kStored);
    store.Remove("a");
  }
  EXPECT_EQ(store.Names(), "");
}

TEST(DescriptorStore, RemovesAllOfAName) {
  Pipe pipes[3];
  DescriptorStore store(10);
  store.Add("a", pipes[0].TakeWriter(), false);
  store.Add("b", pipes[1].TakeWriter(), false);
  store.Add("a", pipes[2].TakeWriter(), false);
  store.Remove("c");
  EXPECT_EQ(store.Names(), "a:b:a");
  store.Remove("a");
  EXPECT_EQ(store.Names(), "b");
  EXPECT_TRUE(pipes[0].IsClosed());
  EXPECT_FALSE(pipes[1].IsClosed());
  EXPECT_TRUE(pipes[2].IsClosed());
}

TEST(DescriptorStore, RemovesTheOneThatIsBroken) {
  Pipe pipes[2];
  DescriptorStore store(10);
  store.Add("a", pipes[0].TakeWriter(), true);
  store.Add("a", pipes[1].TakeWriter(), true);
  store.RemoveBroken(store.stored()[0].fd.get());
  EXPECT_EQ(store.Names(), "a");
  EXPECT_TRUE(pipes[0].IsClosed());
  EXPECT_FALSE(pipes[1].IsClosed());
}

TEST(DescriptorStore, ClosesWhatIsTooMany) {
  Pipe pipes[3];
  DescriptorStore store(2);
  EXPECT_EQ(store.Add("a", pipes[0].TakeWriter(), false), Outcome::kStored);
  EXPECT_EQ(store.Add("b", pipes[1].TakeWriter(), false), Outcome::kStored);
  UniqueFd another = pipes[2].DuplicateOfWriter();
  EXPECT_EQ(store.Add("c", pipes[2].TakeWriter(), false), Outcome::kNoRoom);
  EXPECT_EQ(store.Names(), "a:b");
  store.Remove("a");
  EXPECT_EQ(store.Add("d", std::move(another), false), Outcome::kStored);
  EXPECT_EQ(store.Names(), "b:d");
}

// The kernel would not execute the command with a longer variable, and all that is kept would be lost.
TEST(DescriptorStore, KeepsNoMoreThanTheNamesOfWhichFitIntoTheEnvironment) {
  const std::string name(255, 'n');
  DescriptorStore store(600);  // Which would be too long, with names of 256 bytes each.
  size_t kept = 0;
  for (;; ++kept) {
    if (store.Add(name, UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), false) != Outcome::kStored) break;
  }
  EXPECT_EQ(kept, DescriptorStore::kMaxNames / 256);
  std::string variable = "LISTEN_FDNAMES=" + store.Names();
  std::string program = "true";
  char* arguments[] = {program.data(), nullptr};
  char* variables[] = {variable.data(), nullptr};
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execvpe(program.c_str(), arguments, variables);
    ::_exit(1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  store.Remove(name);
  EXPECT_EQ(store.Add("short", UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), false), Outcome::kStored);
}

}  // namespace
}  // namespace rdmabroker::keeper
