// SPDX-License-Identifier: Apache-2.0

#include "broker/keeper/child.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
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
int RunScript(const std::string& script, const DescriptorStore& store) {
  const auto pid = SpawnChild({.command = {"sh", "-c", script}, .notify_address = "@x"}, store);
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
