// SPDX-License-Identifier: Apache-2.0

// What rdma-brokerd tells the one who has started it, and that it serves on under rdma-broker-keeper.

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "dataplane/unique_fd.h"
#include "tests/control/child_process.h"
#include "tests/control/patience.h"
#include "tests/control/temporary_folder.h"

namespace rdmabroker {
namespace {

constexpr char kDaemon[] = "broker/rdma-brokerd";
constexpr char kNewerDaemon[] = "broker/rdma-brokerd-of-another-day";
constexpr char kKeeper[] = "broker/keeper/rdma-broker-keeper";

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address = {.sun_family = AF_UNIX};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

class SupervisedDaemonTest : public testing::Test {
 protected:
  SupervisedDaemonTest() {
    std::ofstream(folder_.path() + "/broker.toml")
        << "control.socket_directory = \"" << folder_.path() << "\"\ncontrol.socket_group = \"\"\n";
  }

  std::string control() const { return folder_.path() + "/control.sock"; }
  std::vector<std::string> Command() const { return {kDaemon, "--config", folder_.path() + "/broker.toml"}; }
  // With a descriptor that the process before has kept under that name.
  std::vector<std::string> CommandWith(const std::string& name) const {
    std::vector<std::string> command = {
        "sh", "-c", "LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=" + name + " exec \"$@\" 3</dev/null", "sh"};
    for (const std::string& word : Command()) command.push_back(word);
    return command;
  }
  bool Answers() const {
    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = AddressOf(control());
    return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }

  TemporaryFolder folder_;
};

// The supervisor's end of the protocol.
class NotifySocket {
 public:
  explicit NotifySocket(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = AddressOf(path);
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  ~NotifySocket() { ::unsetenv("NOTIFY_SOCKET"); }

  // The next message but those of descriptors; "" where there comes none.
  std::string Next() {
    std::string text = NextOfAll();
    while (absl::StartsWith(text, "FDSTORE")) text = NextOfAll();
    return text;
  }
  // All that has come.
  std::vector<std::string> TakeAll() {
    std::vector<std::string> all;
    char text[4096];
    for (ssize_t length = 0; (length = ::recv(fd_.get(), text, sizeof text, MSG_DONTWAIT)) > 0;) {
      all.emplace_back(text, static_cast<size_t>(length));
    }
    return all;
  }
  // Whether this comes, maybe after heartbeats, as these come when they do.
  ::testing::AssertionResult Hears(const std::string& expected) {
    std::string text = Next();
    while (text == "WATCHDOG=1") text = Next();
    if (text == expected) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "heard " << text;
  }

 private:
  std::string NextOfAll() {
    pollfd ready = {fd_.get(), POLLIN, 0};
    char text[4096];
    if (::poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(kTestPatience))) != 1) return "";
    const ssize_t length = ::recv(fd_.get(), text, sizeof text, 0);
    return std::string(text, length > 0 ? static_cast<size_t>(length) : 0);
  }

  UniqueFd fd_;
};

// Until it is told to end.
bool Serves(NotifySocket& notify_socket, const std::vector<std::string>& command) {
  ChildProcess daemon(command);
  const bool ready = static_cast<bool>(notify_socket.Hears("READY=1"));
  daemon.Signal(SIGTERM);
  const bool ended = daemon.End() == 0;
  (void)notify_socket.TakeAll();
  return ready && ended;
}

TEST_F(SupervisedDaemonTest, TellsOfItsStatesAndThatItLives) {
  NotifySocket notify_socket(folder_.path() + "/notify");
  ::setenv("WATCHDOG_USEC", "20000", 1);
  ChildProcess daemon(Command());
  ::unsetenv("WATCHDOG_USEC");
  EXPECT_TRUE(notify_socket.Hears("READY=1"));
  EXPECT_TRUE(Answers()) << "it is ready, so it serves";
  EXPECT_TRUE(notify_socket.Hears("STATUS=serving on " + control()));
  for (int i = 0; i < 5; ++i) ASSERT_EQ(notify_socket.Next(), "WATCHDOG=1");
  daemon.Signal(SIGTERM);
  EXPECT_TRUE(notify_socket.Hears("STOPPING=1"));
  EXPECT_TRUE(notify_socket.Hears("STATUS=stopping"));
  EXPECT_EQ(daemon.End(), 0);
}

TEST_F(SupervisedDaemonTest, SendsNoHeartbeatWhereNobodyWaitsForOne) {
  NotifySocket notify_socket(folder_.path() + "/notify");
  ChildProcess daemon(Command());
  EXPECT_EQ(notify_socket.Next(), "READY=1");
  EXPECT_EQ(notify_socket.Next(), "STATUS=serving on " + control());
  daemon.Signal(SIGTERM);
  EXPECT_EQ(notify_socket.Next(), "STOPPING=1");
  EXPECT_EQ(daemon.End(), 0);
}

// The supervisor here keeps nothing of what it is given.
TEST_F(SupervisedDaemonTest, LeavesTheNamesOfItsSocketsToTheNextProcess) {
  NotifySocket notify_socket(folder_.path() + "/notify");
  for (int process = 0; process < 2; ++process) {
    EXPECT_TRUE(Serves(notify_socket, Command()));
    for (const char* const name : {"/control.sock", "/handoff.sock"}) {
      EXPECT_TRUE(std::filesystem::is_socket(folder_.path() + name)) << name;
    }
    EXPECT_FALSE(Answers());
  }
}

TEST_F(SupervisedDaemonTest, RefusesAnEnvironmentThatMakesNoSense) {
  ::setenv("WATCHDOG_USEC", "soon", 1);
  const Ending ending = RunToEnd(Command(), folder_.path() + "/errors");
  ::unsetenv("WATCHDOG_USEC");
  EXPECT_EQ(ending.status, 1);
  EXPECT_TRUE(absl::StrContains(ending.error, "WATCHDOG_PID, WATCHDOG_USEC: ")) << ending.error;
  EXPECT_FALSE(Answers());
}

// Where the kernel's connection manager cannot be opened, nobody can tell what is in a file of it, unless records do.
TEST_F(SupervisedDaemonTest, DoesNotServeWhereItWouldLoseConnectionsThatAreKept) {
  if (std::filesystem::exists("/dev/infiniband/rdma_cm")) GTEST_SKIP() << "this machine has a connection manager";
  NotifySocket notify_socket(folder_.path() + "/notify");
  const auto refuses = [&](const char* name) {
    const Ending ending = RunToEnd(CommandWith(name), folder_.path() + "/errors");
    const std::vector<std::string> told = notify_socket.TakeAll();
    return ending.status == 1 &&
           absl::StrContains(ending.error, "connections of the kernel's RDMA devices cannot be taken over") &&
           std::find(told.begin(), told.end(), std::string("FDSTOREREMOVE=1\nFDNAME=") + name) == told.end();
  };
  // Twice, as the first one must leave no records that the second would believe.
  for (const char* const name : {"c1", "c1", "o1"}) EXPECT_TRUE(refuses(name)) << name;
  EXPECT_TRUE(Serves(notify_socket, Command()));
  // By the records there is nothing in the one; the other is kept only while there is something in it.
  EXPECT_TRUE(Serves(notify_socket, CommandWith("c1")));
  EXPECT_TRUE(refuses("o1"));
}

// What is kept may be laid out as only the newer one knows.
TEST_F(SupervisedDaemonTest, RefusesANewerOnesRecordsBeforeItTouchesWhatIsKept) {
  NotifySocket notify_socket(folder_.path() + "/notify");
  std::vector<std::string> newer = Command();
  newer.front() = kNewerDaemon;
  ::setenv("RDMA_BROKERD_FORMAT_VERSION", "1000", 1);
  ASSERT_TRUE(Serves(notify_socket, Command()));
  EXPECT_TRUE(Serves(notify_socket, newer)) << "it reads an older one's";
  for (const char* const name : {"c1", "j1", "o1", "e1.0", "t1."}) {
    const Ending ending = RunToEnd(CommandWith(name), folder_.path() + "/errors");
    EXPECT_EQ(ending.status, 1) << name;
    EXPECT_TRUE(absl::StrContains(ending.error, "has version 1000 of the store's format")) << ending.error;
    EXPECT_EQ(notify_socket.TakeAll(), std::vector<std::string>()) << name;
  }
  EXPECT_TRUE(Serves(notify_socket, newer));
  ::unsetenv("RDMA_BROKERD_FORMAT_VERSION");
}

TEST_F(SupervisedDaemonTest, ServesOnWhenItIsKilledAndEndsWithItsKeeper) {
  std::vector<std::string> command = {kKeeper, "--"};
  for (const std::string& word : Command()) command.push_back(word);
  ChildProcess keeper(command, ChildProcess::Errors::kToItsOutput);
  // The number of the next daemon that is ready.
  const auto next = [&] {
    pid_t pid = -1;
    for (std::string line = keeper.ReadLine(); !line.empty(); line = keeper.ReadLine()) {
      const size_t ready = line.find("child ready pid=");
      if (ready == std::string::npos) continue;
      EXPECT_TRUE(absl::SimpleAtoi(line.substr(ready + 16), &pid)) << line;
      break;
    }
    return pid;
  };
  for (int i = 0; i < 3; ++i) {
    const pid_t daemon = next();
    ASSERT_GT(daemon, 0);
    EXPECT_TRUE(Answers());
    ASSERT_EQ(::kill(daemon, SIGKILL), 0);
  }
  ASSERT_GT(next(), 0);
  keeper.Signal(SIGTERM);
  EXPECT_EQ(keeper.End(), 0) << keeper.ReadAll();
  EXPECT_FALSE(Answers());
}

}  // namespace
}  // namespace rdmabroker
