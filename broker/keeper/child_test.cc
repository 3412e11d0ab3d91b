// SPDX-License-Identifier: Apache-2.0

#include "broker/keeper/child.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "broker/keeper/lifecycle.h"

namespace rdmabroker::keeper {
namespace {

using testing::ElementsAre;

// A file with these contents, to be read from its beginning, under this number.
UniqueFd FileAt(int number, const std::string& contents) {
  const UniqueFd file(::memfd_create("stored", MFD_CLOEXEC));
  EXPECT_EQ(::write(file.get(), contents.data(), contents.size()), static_cast<ssize_t>(contents.size()));
  EXPECT_EQ(::lseek(file.get(), 0, SEEK_SET), 0);
  return UniqueFd(::fcntl(file.get(), F_DUPFD_CLOEXEC, number));
}

// The exit status of the shell that reads the script.
int RunScript(const std::string& script, const DescriptorStore& store, rlim_t memory_limit = RLIM_INFINITY) {
  const auto pid =
      SpawnChild({.command = {"sh", "-c", script}, .notify_address = "@x", .memory_limit = memory_limit}, store);
  EXPECT_TRUE(pid.ok()) << pid.status();
  int status = -1;
  EXPECT_EQ(::waitpid(*pid, &status, 0), *pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(ChildEnvironment, TellsTheChildOfItsOwnSupervisorOnly) {
  const char* const environment[] = {
      "PATH=/bin",          "NOTIFY_SOCKET=@other", "LISTEN_PID=7", "LISTEN_FDS=2", "WATCHDOG_PID=7",
      "LISTEN_FDNAMES=a:b", "WATCHDOG_USEC=70000",  "LISTEN=1",     "FDSTORE=7",    nullptr};
  DescriptorStore store(10);
  Launch launch = {.notify_address = "@12345"};
  EXPECT_THAT(ChildEnvironment(environment, launch, store),
              ElementsAre("PATH=/bin", "LISTEN=1", "NOTIFY_SOCKET=@12345", "FDSTORE=10"));
  launch.watchdog_interval = absl::Milliseconds(1500);
  store.Add("one", FileAt(3, ""), false);
  store.Add("two", FileAt(3, ""), false);
  EXPECT_THAT(ChildEnvironment(environment, launch, store),
              ElementsAre("PATH=/bin", "LISTEN=1", "NOTIFY_SOCKET=@12345", "WATCHDOG_USEC=1500000", "FDSTORE=10",
                          "LISTEN_FDS=2", "LISTEN_FDNAMES=one:two"));
}

// Every order in which four descriptors can have the numbers from 3 on or near to them, so that each is in each other's
// way.
TEST(SpawnChild, GivesItTheDescriptorsInTheirOrderWhateverTheirNumbers) {
  // What the test's own process has there is put out of the way, and comes back.
  std::vector<std::pair<int, UniqueFd>> elsewhere;
  std::vector<int> numbers;
  for (int number = 3; number < 9; ++number) {
    UniqueFd moved(::fcntl(number, F_DUPFD_CLOEXEC, 20));
    if (moved) elsewhere.emplace_back(number, std::move(moved));
    ::close(number);
    numbers.push_back(number);
  }
  int orders = 0;
  do {
    DescriptorStore store(10);
    const std::string contents[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < 4; ++i) {
      UniqueFd fd = FileAt(20, contents[i]);
      ASSERT_EQ(::dup3(fd.get(), numbers[i], O_CLOEXEC), numbers[i]);
      store.Add(contents[i], UniqueFd(numbers[i]), false);
    }
    EXPECT_EQ(
        RunScript("read a <&3; read b <&4; read c <&5; read d <&6; test $a$b$c$d$LISTEN_FDNAMES = abcda:b:c:d", store),
        0)
        << numbers[0] << numbers[1] << numbers[2] << numbers[3];
    // The orders of the last two only, which are not used, are the same to this test.
    std::reverse(numbers.begin() + 4, numbers.end());
    ++orders;
  } while (std::next_permutation(numbers.begin(), numbers.end()));
  EXPECT_EQ(orders, 360);
  for (const auto& [number, fd] : elsewhere) ::dup3(fd.get(), number, O_CLOEXEC);
}

// This process's limit while it lives, for what is started.
class Limit {
 public:
  Limit(decltype(RLIMIT_DATA) resource, rlim_t soft) : resource_(resource) {
    EXPECT_EQ(::getrlimit(resource_, &former_), 0);
    const rlimit limit = {.rlim_cur = soft, .rlim_max = former_.rlim_max};
    EXPECT_EQ(::setrlimit(resource_, &limit), 0);
  }
  ~Limit() { ::setrlimit(resource_, &former_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  const decltype(RLIMIT_DATA) resource_;
  rlimit former_ = {};
};

// In KiB, as the shell has them.
TEST(SpawnChild, BoundsItsMemoryAndWithItTheStacksOfThreads) {
  const Limit usual(RLIMIT_STACK, 8 << 20);
  const DescriptorStore store(10);
  EXPECT_EQ(RunScript("test $(ulimit -S -s) = 8192 && test $(ulimit -S -d) = $(ulimit -H -d)", store), 0);
  EXPECT_EQ(RunScript("test $(ulimit -S -d),$(ulimit -S -s) = 65536,1024", store, 64 << 20), 0);
  const Limit small(RLIMIT_STACK, 512 << 10);
  EXPECT_EQ(RunScript("test $(ulimit -S -d),$(ulimit -S -s) = 65536,512", store, 64 << 20), 0) << "it is less already";
}

// A namespace with many services gives each container as many variables.
TEST(SpawnChild, BoundsTheMemoryOfOneWithAnEnvironmentThatASmallStackHasNoRoomFor) {
  const Limit usual(RLIMIT_STACK, 8 << 20);
  const char* const names[] = {"MANY_A", "MANY_B", "MANY_C"};
  for (const char* name : names) ::setenv(name, std::string(100000, 'x').c_str(), 1);
  EXPECT_EQ(RunScript("test $(ulimit -S -d),$(ulimit -S -s) = 65536,8192", DescriptorStore(10), 64 << 20), 0);
  for (const char* name : names) ::unsetenv(name);
}

TEST(SpawnChild, SaysLikeAShellWhyACommandIsNotExecuted) {
  const DescriptorStore store(10);
  struct Row {
    const char* command;
    int status;
  };
  for (const Row& row :
       {Row{"/nowhere/at/all", Lifecycle::kNoCommand}, Row{"no-such-command-at-all", Lifecycle::kNoCommand},
        Row{"/", Lifecycle::kCannotExecute}, Row{"/dev/null", Lifecycle::kCannotExecute}}) {
    const auto pid = SpawnChild({.command = {row.command}, .notify_address = "@x"}, store);
    ASSERT_TRUE(pid.ok()) << pid.status();
    int status = -1;
    ASSERT_EQ(::waitpid(*pid, &status, 0), *pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == row.status) << row.command << " " << status;
  }
}

}  // namespace
}  // namespace rdmabroker::keeper
