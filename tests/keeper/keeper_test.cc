// SPDX-License-Identifier: Apache-2.0

// rdma-broker-keeper as a process, with a child that speaks to it by libsystemd.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/base/config.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "dataplane/unique_fd.h"
#include "tests/control/child_process.h"
#include "tests/control/patience.h"
#include "tests/control/temporary_folder.h"
#include "tests/keeper/kept_program.h"

namespace rdmabroker {
namespace {

// The keeper's exit status where its child does this.
std::optional<int> EndAfter(KeptProgram& program, const std::string& order) {
  program.Tell(order);
  return program.keeper().End();
}

// A sanitizer's shadow memory is the process's own, and so large that no bound leaves it room.
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
constexpr bool kTakesTerabytes = true;
#else
constexpr bool kTakesTerabytes = false;
#endif

// What the keeper says of the next start: in how many milliseconds.
int WaitBeforeNextStart(KeptProgram& program) {
  int milliseconds = -1;
  const std::string line = program.NextLogged("child is started again in_ms=");
  const size_t number = line.find("in_ms=") + 6;
  EXPECT_TRUE(!line.empty() && absl::SimpleAtoi(line.substr(number, line.find(' ', number) - number), &milliseconds))
      << line;
  return milliseconds;
}

TEST(Keeper, StartsTheCommandWithItsArgumentsAsTheyAre) {
  KeptProgram program;
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("arguments"), "[::1] --watchdog --");
}

TEST(Keeper, GivesTheChildItsOwnSupervisorsEnvironmentAndTheRestAsItIs) {
  ::setenv("NOTIFY_SOCKET", "/nowhere", 1);
  ::setenv("LISTEN_FDS", "3", 1);
  ::setenv("LISTEN_FDNAMES", "a:b:c", 1);
  ::setenv("WATCHDOG_USEC", "7", 1);
  ::setenv("SOMETHING_ELSE", "as it is", 1);
  KeptProgram program({"--watchdog", "20"});
  for (const char* name : {"NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_USEC", "SOMETHING_ELSE"}) {
    ::unsetenv(name);
  }
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("variable NOTIFY_SOCKET").front(), '@');
  EXPECT_EQ(program.Ask("variable LISTEN_FDS"), "none");
  EXPECT_EQ(program.Ask("variable LISTEN_FDNAMES"), "none");
  EXPECT_EQ(program.Ask("variable WATCHDOG_USEC"), "20000000");
  EXPECT_EQ(program.Ask("variable WATCHDOG_PID"), "mine");
  EXPECT_EQ(program.Ask("variable SOMETHING_ELSE"), "as it is");
}

TEST(Keeper, GivesTheChildNoDescriptorButItsOwn) {
  const UniqueFd inheritable(::open("/dev/null", O_RDONLY));
  const UniqueFd another(::dup(inheritable.get()));
  KeptProgram program;
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("descriptors"), "0 1 2");
  EXPECT_EQ(program.Ask("store first A"), "OK");
  EXPECT_EQ(program.Ask("store second B"), "OK");
  program.Tell("raise 9");
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("descriptors"), "0 1 2 3 4");
  EXPECT_EQ(program.Ask("variable LISTEN_FDS"), "2");
  EXPECT_EQ(program.Ask("variable LISTEN_FDNAMES"), "first:second");
  EXPECT_EQ(program.Ask("variable LISTEN_PID"), "mine");
}

TEST(Keeper, GivesTheChildNoSignalBlockedOrIgnored) {
  ::signal(SIGUSR1, SIG_IGN);
  ::signal(SIGCHLD, SIG_IGN);
  KeptProgram program;
  ::signal(SIGUSR1, SIG_DFL);
  ::signal(SIGCHLD, SIG_DFL);
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("signals"), "0 0");
  program.Tell("exit 3");
  EXPECT_TRUE(program.Logs("status=3")) << "it is told of the child's end";
}

TEST(Keeper, GivesTheChildTheLimitOfOpenFilesThatItHadItself) {
  KeptProgram program({}, {"sh", "-c", "ulimit -S -n 123; exec \"$@\"", "sh"});
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("limit"), "123");
}

// Far beyond the bound, and no harm where there is none.
TEST(Keeper, OutlivesAChildThatTakesMemoryWithoutEndAndKeepsWhatItStored) {
  if (kTakesTerabytes) GTEST_SKIP() << "a sanitizer's shadow is beyond any bound";
  KeptProgram program({"--memory", "67108864"});
  EXPECT_TRUE(program.Logs("kept=0 memory_bytes=67108864 cgroup_bytes=0"));
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("store n c"), "OK");
  for (int death = 0; death < 2; ++death) {
    program.Tell("exhaust 268435456");
    EXPECT_TRUE(program.Logs("status=0 signal=6"));
    ASSERT_TRUE(program.NextChild());
  }
  EXPECT_EQ(program.Ask("kept"), "kept: n=c");
}

TEST(Keeper, BoundsEachChildByWhatTheCgroupSaysWhenItStarts) {
  if (kTakesTerabytes) GTEST_SKIP() << "a sanitizer's shadow is beyond any bound";
  const TemporaryFolder folder;
  const auto limit = [&](const char* bytes) { std::ofstream(folder.path() + "/memory.max") << bytes << "\n"; };
  // In the place of a kernel's, whichever versions that has.
  std::ofstream(folder.path() + "/cgroup") << "0::/\n";
  std::vector<std::string> unshare = {"unshare", "--mount"};
  if (::geteuid() != 0) unshare.insert(unshare.end(), {"--user", "--map-root-user"});
  unshare.insert(unshare.end(), {"sh", "-c",
                                 "mount --bind $0 /sys/fs/cgroup && mount --bind $0/cgroup /proc/$$/cgroup && exec "
                                 "\"$@\"",
                                 folder.path()});
  limit("536870912");
  KeptProgram program({}, unshare);
  if (!program.NextChild()) GTEST_SKIP() << "needs the right to mount";
  EXPECT_EQ(program.Ask("memory-limit"), "402653184");
  EXPECT_TRUE(program.Logs("kept=0 memory_bytes=402653184 cgroup_bytes=536870912"));
  limit("134217728");
  program.Tell("raise 9");
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("memory-limit"), "100663296");
  limit("max");
  program.Tell("raise 9");
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("memory-limit"), std::to_string(RLIM_INFINITY));
  EXPECT_TRUE(program.Logs("kept=0 memory_bytes=0 cgroup_bytes=0"));
}

TEST(Keeper, BoundsNoMemoryWhereItIsToldTo) {
  KeptProgram program({"--memory", "none"});
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("memory-limit"), std::to_string(RLIM_INFINITY));
}

TEST(Keeper, OpensTheStandardDescriptorsThatItLacks) {
  const TemporaryFolder folder;
  ChildProcess process({"sh", "-c", "exec \"$@\" <&- >&- 2>&-", "sh", KeptProgram::kKeeper, "--", "sh", "-c",
                        "for i in 0 1 2; do readlink /proc/$$/fd/$i; done >$0; exit 0", folder.path() + "/out"});
  EXPECT_EQ(process.End(), 0);
  std::ifstream file(folder.path() + "/out");
  const std::string links(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(links, "/dev/null\n" + folder.path() + "/out\n/dev/null\n");
}

TEST(Keeper, KeepsDescriptorsAcrossDeathsInWhateverOrderTheyCameAndWent) {
  KeptProgram program;
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("ready"), "OK");
  for (const char* name : {"a", "b", "c", "d"}) program.Ask(absl::StrCat("store ", name, " ", name));
  program.Ask("remove a");
  program.Ask("store e e");  // Where a was.
  for (const char* death : {"raise 9", "raise 6", "exit 1"}) {
    program.Tell(death);
    ASSERT_TRUE(program.NextChild());
    EXPECT_EQ(program.Ask("kept"), "kept: b=b c=c d=d e=e") << death;
  }
}

TEST(Keeper, KeepsWhatWasStoredInTheMomentOfDeath) {
  KeptProgram program;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(program.NextChild());
    program.Tell(absl::StrCat("die-storing n", i, " c", i));
  }
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("kept"), "kept: n0=c0 n1=c1 n2=c2 n3=c3 n4=c4");
}

TEST(Keeper, StartsAgainAtOnceAndThenAfterAWhile) {
  KeptProgram program;
  ASSERT_TRUE(program.NextChild());
  program.Tell("raise 9");
  EXPECT_TRUE(program.Logs("status=0 signal=9"));
  EXPECT_EQ(WaitBeforeNextStart(program), 0);
  ASSERT_TRUE(program.NextChild());
  program.Tell("exit 5");
  EXPECT_TRUE(program.Logs("status=5 signal=0"));
  const int wait = WaitBeforeNextStart(program);
  EXPECT_GE(wait, 50);
  EXPECT_LE(wait, 100);
  ASSERT_TRUE(program.NextChild());
}

TEST(Keeper, EndsWithAChildThatEndsWell) {
  KeptProgram program;
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(EndAfter(program, "exit 0"), 0);
}

TEST(Keeper, EndsWithAChildWhoseConfigurationIsBad) {
  KeptProgram program;
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(EndAfter(program, "exit 2"), 2);
}

TEST(Keeper, DoesNotEndWithABadConfigurationOnceOneWasReady) {
  KeptProgram program;
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("ready"), "OK");
  EXPECT_TRUE(program.Logs("child ready"));
  EXPECT_EQ(program.Ask("store n c"), "OK");
  for (const char* end : {"exit 2", "exit 2"}) {
    program.Tell(end);
    ASSERT_TRUE(program.NextChild());
  }
  EXPECT_EQ(program.Ask("kept"), "kept: n=c");
}

TEST(Keeper, EndsWhereThereIsNoSuchCommand) {
  const TemporaryFolder folder;
  const std::string errors = folder.path() + "/errors";
  EXPECT_EQ(RunToEnd({KeptProgram::kKeeper, "--", "/nowhere/at/all"}, errors).status, 127);
  EXPECT_EQ(RunToEnd({KeptProgram::kKeeper, "--", "/dev/null"}, errors).status, 126);
}

TEST(Keeper, SaysWhatIsWrongWithItsUsage) {
  const TemporaryFolder folder;
  struct Row {
    std::vector<std::string> arguments;
    int status;
  };
  const Row rows[] = {
      {{}, 64},
      {{"--"}, 64},
      {{"true"}, 64},
      {{"--watchdog", "0", "--", "true"}, 64},
      {{"--watchdog", "soon", "--", "true"}, 64},
      {{"--descriptors", "-1", "--", "true"}, 64},
      {{"--descriptors", "4225", "--", "true"}, 0},
      {{"--descriptors", "4226", "--", "true"}, 64},  // Their names might not reach the next child.
      {{"--memory", "384Mi", "--", "true"}, 64},
      {{"--memory", "402653184", "--", "true"}, 0},
      {{"--memory", "none", "--", "true"}, 0},
      {{"--log-level", "loud", "--", "true"}, 64},
      {{"--log-format", "xml", "--", "true"}, 64},
      {{"--help"}, 0},
      {{"--", "true", "--help"}, 0},
  };
  for (const Row& row : rows) {
    std::vector<std::string> command = {KeptProgram::kKeeper};
    command.insert(command.end(), row.arguments.begin(), row.arguments.end());
    const Ending ending = RunToEnd(command, folder.path() + "/errors");
    EXPECT_EQ(ending.status, row.status) << ending.error;
    EXPECT_FALSE(row.status != 0 && ending.error.empty());
  }
}

TEST(Keeper, PassesSignalsOn) {
  KeptProgram program;
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("block"), "blocked");
  EXPECT_EQ(program.Ask("ready"), "OK");
  for (const int signal : {SIGHUP, SIGUSR1, SIGUSR2, SIGINT, SIGTERM}) {
    program.keeper().Signal(signal);
    EXPECT_EQ(program.Ask("signal"), std::to_string(signal));
  }
}

TEST(Keeper, KeepsOtherSignalsUntilTheChildIsReady) {
  KeptProgram program;
  ASSERT_TRUE(program.NextChild());
  program.keeper().Signal(SIGHUP);
  program.keeper().Signal(SIGUSR2);
  // In each turn the keeper takes messages, and then signals.
  for (int turn = 0; turn < 2; ++turn) EXPECT_EQ(program.Ask("message 0 STATUS=begins"), "closed");
  EXPECT_EQ(program.Ask("block"), "blocked");
  EXPECT_EQ(program.Ask("ready"), "OK");
  for (const int signal : {SIGHUP, SIGUSR2}) EXPECT_EQ(program.Ask("signal"), std::to_string(signal));
}

TEST(Keeper, EndsWithTheChildOnceItWasAskedToAndStartsNoOther) {
  for (const int signal : {SIGTERM, SIGINT}) {
    KeptProgram program;
    ASSERT_TRUE(program.NextChild());
    EXPECT_EQ(program.Ask("block"), "blocked");
    program.keeper().Signal(signal);
    EXPECT_EQ(program.Ask("signal"), std::to_string(signal));
    EXPECT_EQ(EndAfter(program, "exit 7"), 7);
    EXPECT_FALSE(program.NextChild());
  }
}

TEST(Keeper, EndsAsAChildThatASignalEnds) {
  KeptProgram program;
  ASSERT_TRUE(program.NextChild());
  program.keeper().Signal(SIGTERM);
  EXPECT_EQ(program.keeper().End(), 128 + SIGTERM);
}

TEST(Keeper, KillsAChildThatDoesNotEnd) {
  KeptProgram program({"--stop-timeout", "0.1"});
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("block"), "blocked");
  program.Tell("hang");
  program.keeper().Signal(SIGTERM);
  EXPECT_EQ(program.keeper().End(), 128 + SIGKILL);
}

TEST(Keeper, AbortsAChildThatIsSilentAndStartsItAgain) {
  KeptProgram program({"--watchdog", "0.1"});
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("ready"), "OK");
  EXPECT_TRUE(program.Logs("status=0 signal=6"));
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("interval"), "100ms");
}

TEST(Keeper, KillsAChildThatSurvivesItsAbort) {
  KeptProgram program({"--watchdog", "0.1", "--stop-timeout", "0.1"});
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("ignore 6"), "ignored");
  EXPECT_EQ(program.Ask("ready"), "OK");
  EXPECT_TRUE(program.Logs("status=0 signal=9"));
  ASSERT_TRUE(program.NextChild());
}

TEST(Keeper, AbortsAChildThatAsksForItOrSetsItsOwnWatchdog) {
  for (const char* message : {"message 0 WATCHDOG=trigger", "message 0 WATCHDOG_USEC=50000"}) {
    KeptProgram program;
    ASSERT_TRUE(program.NextChild());
    program.Tell(message);
    EXPECT_TRUE(program.Logs("signal=6")) << message;
    EXPECT_TRUE(program.Logs("status=0 signal=6")) << message;
  }
}

TEST(Keeper, KillsAChildThatSaysItStopsAndDoesNot) {
  KeptProgram program({"--stop-timeout", "0.1"});
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("stopping"), "OK");
  EXPECT_TRUE(program.Logs("status=0 signal=9"));
}

TEST(Keeper, ListensToNobodyButTheChildAndLogsNothingOfWhatOthersSay) {
  KeptProgram program;
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("store own c"), "OK");
  const char* const messages[] = {"FDSTORE=1|FDNAME=foreign", "FDSTOREREMOVE=1|FDNAME=own", "WATCHDOG=trigger",
                                  "READY=1|STATUS=foreign"};
  for (const char* message : messages) EXPECT_EQ(program.Ask(absl::StrCat("foreign 1 ", message)), "closed") << message;
  program.Tell("raise 9");
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("kept"), "kept: own=c");
  EXPECT_EQ(EndAfter(program, "exit 2"), 2) << "none was ready";
  EXPECT_FALSE(program.Logs("child ready"));
  int warnings = 0;
  for (const std::string& line : program.log()) {
    warnings += absl::StrContains(line, "it is not the child's");
    EXPECT_FALSE(absl::StrContains(line, "foreign")) << line;
  }
  EXPECT_GE(warnings, 1);
}

TEST(Keeper, ClosesTheDescriptorsOfWhatAsksForNothing) {
  KeptProgram program;
  ASSERT_TRUE(program.NextChild());
  const std::string too_long(5000, 'x');
  const std::string messages[] = {
      "1 READY=1",
      "3 STATUS=fine",
      "1 UNKNOWN=1",
      "253 nothing",
      "1 BARRIER=1",
      "2 BARRIER=1",
      "1 BARRIER=1|FDSTORE=1",
      "1 FDSTORE=1|" + too_long,
      "1 FDSTORE=2",
      "1 FDSTOREREMOVE=1",
      "1 FDSTOREREMOVE=1|FDNAME=none",
      "1 WATCHDOG=nonsense",
  };
  for (const std::string& message : messages) {
    EXPECT_EQ(program.Ask("message " + message), "closed") << message.substr(0, 100);
  }
  program.Tell("raise 9");
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("descriptors"), "0 1 2");
}

TEST(Keeper, StoresWhatHasABadNameOrNone) {
  KeptProgram program;
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("message 1 FDSTORE=1|FDNAME=a:b|FDPOLL=0"), "open");
  program.Tell("raise 9");
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("variable LISTEN_FDNAMES"), "stored");
}

TEST(Keeper, RemovesAllOfANameBeforeABarrierEnds) {
  KeptProgram program;
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("store b 1"), "OK");
  EXPECT_EQ(program.Ask("store a 2"), "OK");
  EXPECT_EQ(program.Ask("store a 3"), "OK");
  EXPECT_EQ(program.Ask("message 0 FDSTOREREMOVE=1|FDNAME=a"), "closed");
  program.Tell("raise 9");
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("kept"), "kept: b=1");
}

TEST(Keeper, GivesUpWhatHangsUpUnlessItIsToldOtherwise) {
  KeptProgram program;
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("shut-stored polled unpolled"), "done");
  EXPECT_EQ(program.Ask("store file c"), "OK");
  // The keeper polls what it keeps between two messages.
  for (int i = 0; i < 2; ++i) EXPECT_EQ(program.Ask("barrier"), "OK");
  program.Tell("raise 9");
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("kept"), "kept: file=c unpolled=");
}

TEST(Keeper, WarnsOfWhatIsTooMuchAndClosesIt) {
  KeptProgram program({"--descriptors", "2"});
  ASSERT_TRUE(program.NextChild());
  for (const char* order : {"store a 1", "store b 2", "store c 3"}) EXPECT_EQ(program.Ask(order), "OK");
  EXPECT_TRUE(program.Logs("descriptor not kept"));
  EXPECT_EQ(program.Ask("message 5 FDSTORE=1|FDPOLL=0"), "closed");
  program.Tell("raise 9");
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("kept"), "kept: a=1 b=2");
}

TEST(Keeper, LogsWhatTheChildSaysOfItselfInOneLine) {
  KeptProgram program;
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("message 0 STATUS=it \"serves\"\x1b[31m"), "closed");
  EXPECT_TRUE(program.Logs(" said=\"it \\\"serves\\\"\\x1b[31m\" left_out=0"));
}

TEST(Keeper, LogsAnObjectALineWhereItIsToldTo) {
  KeptProgram program({"--log-format", "json"});
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("message 0 STATUS=it \"serves\"\x1b[31m"), "closed");
  const std::string line = program.NextLogged(R"("event":"child says")");
  EXPECT_TRUE(absl::StrContains(line, R"("level":"info","program":"rdma-broker-keeper","event":"child says","pid":)"))
      << line;
  EXPECT_TRUE(absl::StrContains(line, R"(,"said":"it \"serves\"\u001b[31m","left_out":)")) << line;
}

TEST(Keeper, EndsTheChildWhereItIsKilledItself) {
  KeptProgram program;
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("block"), "blocked");
  program.Tell("signal");
  program.keeper().Kill();
  EXPECT_TRUE(absl::StrContains(program.keeper().ReadAll(), "child: 15\n"));
}

TEST(Keeper, IsTheFirstProcessOfAContainerAsWell) {
  std::vector<std::string> unshare = {"unshare", "--pid", "--fork", "--kill-child"};
  if (::geteuid() != 0) unshare.insert(unshare.end(), {"--user", "--map-root-user"});
  KeptProgram program({}, unshare);
  if (!program.NextChild()) GTEST_SKIP() << "needs the right to make a pid namespace";
  EXPECT_EQ(program.Ask("store n c"), "OK");
  const std::string orphan = program.Ask("orphan");
  EXPECT_TRUE(Becomes([&] { return program.Ask("exists " + orphan) == "no"; })) << "it is not reaped";
  program.Tell("raise 9");
  ASSERT_TRUE(program.NextChild());
  EXPECT_EQ(program.Ask("kept"), "kept: n=c");
  EXPECT_EQ(EndAfter(program, "exit 0"), 0);
}

}  // namespace
}  // namespace rdmabroker
