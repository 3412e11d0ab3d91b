// SPDX-License-Identifier: Apache-2.0

// rdma-brokerctl as people and scripts call it: its options, its exit statuses, and what goes where.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "tests/control/child_process.h"
#include "tests/control/network_thread.h"
#include "tests/control/test_client.h"
#include "tests/control/test_daemon.h"

namespace rdmabroker {
namespace {

class BrokerctlTest : public testing::Test {
 protected:
  std::vector<std::string> Command(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"env", "RDMA_BROKER_SOCKET=" + daemon_.control_path(), "client/ctl/rdma-brokerctl"});
    return arguments;
  }
  Ending Run(std::vector<std::string> arguments) {
    return RunToEnd(Command(std::move(arguments)), folder_.path() + "/errors");
  }

  TemporaryFolder folder_;
  NetworkThread network_;
  TestDaemon daemon_{network_};
};

struct Row {
  std::vector<std::string> arguments;
  int status;
  const char* output;  // Part of it; "" where there must be none.
  const char* error;   // Likewise.
};

TEST_F(BrokerctlTest, TheExitStatusTellsWhatWentWrong) {
  const std::string absent = folder_.path() + "/absent.sock";
  const std::string long_path = "/" + std::string(200, 'x');
  const Row rows[] = {
      {{"adapters"}, 0, "fake1", ""},
      {{"-o", "table", "adapters"}, 0, "NAME", ""},
      {{"adapters", "-o", "json"}, 0, "\"name\": \"fake1\"", ""},
      {{"--output", "json", "reservations"}, 0, "\"reservations\": []", ""},
      {{"health"}, 0, "serving\n", ""},
      {{"-o", "json", "health"}, 0, "\"status\": \"SERVING\"", ""},
      {{"--help"}, 0, "Exit status: 0 done", ""},
      {{}, 2, "", "subcommand is required"},
      {{"queue-pairs"}, 2, "", "subcommand is required"},
      {{"adapters", "sessions"}, 2, "", "not expected: sessions"},
      {{"--verbose", "adapters"}, 2, "", "--verbose"},
      {{"-o", "xml", "adapters"}, 2, "", "xml"},
      {{"end-session"}, 2, "", "ID is required"},
      {{"end-session", "all"}, 2, "", "all"},
      {{"--socket", long_path, "adapters"}, 2, "", "longer than 107 bytes"},
      {{"--socket", "", "adapters"}, 2, "", "the socket's path is empty"},
      {{"--socket", absent, "adapters"}, 3, "", "absent.sock"},
      {{"--socket", absent, "health"}, 3, "", "absent.sock"},
      {{"--socket", absent, "end-session", "1"}, 3, "", "absent.sock"},
      {{"--socket", absent, "doctor"}, 1, "no broker listens on", ""},
      {{"--socket", long_path, "doctor"}, 2, "", "longer than 107 bytes"},
      {{"end-session", "4711"}, 1, "", "STATUS_OBJECT_NAME_NOT_FOUND"},
      {{"end-session", "0"}, 1, "", "STATUS_INVALID_PARAMETER"},
      {{"disable-adapter"}, 2, "", "NAME is required"},
      {{"disable-adapter", "fake1", "--wait", "long"}, 2, "", "long"},
      {{"enable-adapter"}, 2, "", "NAME is required"},
      {{"disable-adapter", "siw9"}, 1, "", "STATUS_OBJECT_NAME_NOT_FOUND"},
      {{"enable-adapter", ""}, 1, "", "STATUS_INVALID_PARAMETER"},
      {{"restart"}, 1, "", "STATUS_NOT_SUPPORTED: broker: nobody would start it anew"},
      {{"--version"}, 0, "rdma-brokerctl ", ""},
      {{"adapters", "-o", "yaml"}, 0, "  - name: fake1\n", ""},
      {{"-o", "yaml", "reservations"}, 0, "reservations:\n  []\n", ""},
      {{"-o", "yaml", "health"}, 0, "status: SERVING\n", ""},
      {{"--socket", absent, "doctor", "-o", "yaml"}, 1, "state: problem\n", ""},
      {{"explain"}, 2, "", "CONNECTOR is required"},
      {{"explain", "4711"}, 1, "", "STATUS_OBJECT_NAME_NOT_FOUND: connector_id 4711: no such connector"},
      {{"watch", "queue-pairs"}, 2, "", "queue-pairs"},
      {{"--socket", absent, "watch"}, 3, "", "absent.sock"},
      {{"drain"}, 2, "", "NAME or --all is required"},
      {{"drain", "fake1", "--all"}, 2, "", "--all excludes NAME"},
      {{"drain", "siw9"}, 1, "", "STATUS_OBJECT_NAME_NOT_FOUND"},
      {{"undrain"}, 2, "", "NAME or --all is required"},
      {{"undrain", "siw9"}, 1, "", "STATUS_OBJECT_NAME_NOT_FOUND"},
      {{"undrain", "--all", "-o", "yaml"}, 0, "{}\n", ""},
  };
  for (const Row& row : rows) {
    std::string line;
    for (const std::string& argument : row.arguments) line += " " + argument;
    SCOPED_TRACE("rdma-brokerctl" + line);
    const Ending ending = Run(row.arguments);
    EXPECT_EQ(ending.status, row.status);
    EXPECT_NE(ending.output.find(row.output), std::string::npos) << ending.output;
    EXPECT_NE(ending.error.find(row.error), std::string::npos) << ending.error;
    EXPECT_EQ(ending.output.empty(), std::string(row.output).empty()) << ending.output;
    EXPECT_EQ(ending.error.empty(), std::string(row.error).empty()) << ending.error;
  }
}

TEST_F(BrokerctlTest, TheDoctorAsksTheBroker) {
  const Ending ending = Run({"doctor", "-o", "json"});
  // What else it finds, and so its exit status, is the machine's.
  const bool problem = ending.output.find("\"state\": \"problem\"") != std::string::npos;
  EXPECT_EQ(ending.status, problem ? 1 : 0);
  EXPECT_NE(ending.output.find("it answers; usable adapters: fake1"), std::string::npos) << ending.output;
}

TEST_F(BrokerctlTest, DisablesADeviceAndEnablesItAgain) {
  TestClient client(NewChannel(daemon_.target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  ASSERT_NE(client.OpenAdapter("fake1"), 0u);
  const Ending waiting = Run({"disable-adapter", "fake1"});
  EXPECT_EQ(waiting.status, 1);
  EXPECT_NE(waiting.error.find("fake1 takes no more adapters, but 1 are still open"), std::string::npos)
      << waiting.error;
  EXPECT_NE(Run({"adapters"}).output.find("disabling"), std::string::npos);
  EXPECT_EQ(Run({"end-session", std::to_string(client.session_id())}).status, 0);
  EXPECT_EQ(Run({"disable-adapter", "fake1", "--wait", "60"}).status, 0);
  EXPECT_NE(Run({"adapters"}).output.find("disabled by an administrator"), std::string::npos);
  EXPECT_EQ(Run({"enable-adapter", "fake1"}).status, 0);
  EXPECT_EQ(Run({"adapters"}).output.find("disabled"), std::string::npos);
}

TEST_F(BrokerctlTest, ExplainsAConnector) {
  TestClient client(NewChannel(daemon_.target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  const std::string connector = std::to_string(client.CreateConnector(client.OpenAdapter("fake1")));
  const Ending words = Run({"explain", connector});
  EXPECT_EQ(words.status, 0) << words.error;
  EXPECT_NE(words.output.find("state:       idle, since "), std::string::npos) << words.output;
  EXPECT_NE(words.output.find("what to do:  Nothing is wrong here"), std::string::npos) << words.output;
  const Ending json = Run({"explain", connector, "-o", "json"});
  EXPECT_NE(json.output.find("\"waits_for\": \"CONNECTOR_WAIT_CLIENT_CONNECT\""), std::string::npos) << json.output;
  const Ending yaml = Run({"explain", connector, "-o", "yaml"});
  EXPECT_NE(yaml.output.find("waits_for: CONNECTOR_WAIT_CLIENT_CONNECT\n"), std::string::npos) << yaml.output;
}

TEST_F(BrokerctlTest, DrainsADeviceWhoseClientLeaves) {
  TestClient client(NewChannel(daemon_.target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  const uint64_t adapter = client.OpenAdapter("fake1");
  const uint64_t connector = client.CreateConnector(adapter);
  ChildProcess drain(Command({"drain", "fake1", "--wait", "60"}), ChildProcess::Errors::kToItsOutput);
  EXPECT_EQ(drain.ReadLine(), "fake1: adapters left: 1, local addresses: 0, sessions (connectors): " +
                                  std::to_string(client.session_id()) + " (1)");
  client.WaitFor([](const v1::SessionEvent& event) { return event.has_adapter_disabled(); });
  client.CloseConnector(connector);
  EXPECT_EQ(NdkStatusOf(client.CloseAdapter(adapter)), NdkStatus::kSuccess);
  const std::string rest = drain.ReadAll();
  EXPECT_NE(rest.find("fake1: drained\n"), std::string::npos) << rest;
  EXPECT_EQ(drain.Finish(), 0);
  EXPECT_EQ(Run({"drain", "fake1", "--wait", "0"}).status, 0) << "again";
  EXPECT_EQ(Run({"undrain", "fake1"}).status, 0);
  EXPECT_EQ(Run({"adapters"}).output.find("disabled"), std::string::npos);
}

TEST_F(BrokerctlTest, SaysWhoHasWhatOfADeviceThatIsNotDrainedInTime) {
  TestClient client(NewChannel(daemon_.target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  (void)client.Listen(client.OpenAdapter("fake1"), TestAddress(1));
  const Ending ending = Run({"drain", "--all", "--wait", "0"});
  EXPECT_EQ(ending.status, 1);
  const std::string pid = std::to_string(::getpid());
  const std::string column = pid + std::string(std::max(pid.size(), std::size_t{3}) - pid.size(), ' ');  // "PID"
  EXPECT_NE(ending.output.find("fake1   disabling  1         1          "), std::string::npos) << ending.output;
  EXPECT_NE(ending.output.find("  " + column + "  0\n"), std::string::npos) << ending.output;
  EXPECT_NE(ending.error.find("not drained"), std::string::npos) << ending.error;
  const Ending json = Run({"drain", "fake1", "--wait", "0", "-o", "json"});
  EXPECT_EQ(json.status, 1);
  EXPECT_NE(json.output.find("\"session_id\": \"" + std::to_string(client.session_id()) + "\", \"uid\": " +
                             std::to_string(::getuid()) + ", \"pid\": " + pid + ", \"connectors\": 0}"),
            std::string::npos)
      << json.output;
  EXPECT_NE(Run({"drain", "fake1", "--wait", "0", "-o", "yaml"}).output.find("device: fake1\n"), std::string::npos);
}

TEST_F(BrokerctlTest, AWatchPrintsChangesUntilItIsInterrupted) {
  ChildProcess watch(Command({"watch", "sessions"}));
  EXPECT_EQ(watch.ReadLine().find("TIME "), 0u);
  TestClient client(NewChannel(daemon_.target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  const std::string line = watch.ReadLine();
  EXPECT_NE(line.find("  session "), std::string::npos) << line;
  EXPECT_NE(line.find(" added    state=open "), std::string::npos) << line;
  watch.Signal(SIGINT);
  EXPECT_EQ(watch.End(), 0);
}

TEST_F(BrokerctlTest, AWatchOfWhichNobodyReadsEnds) {
  const std::vector<std::string> command = Command({"watch", "adapters"});
  std::string line;
  for (const std::string& word : command) line += "'" + word + "' ";
  // The shell's pipe has nobody at its other end once the first line is read.
  ChildProcess shell({"bash", "-c", "(" + line + "; echo status $? >&2) | head -n 1"},
                     ChildProcess::Errors::kToItsOutput);
  EXPECT_EQ(shell.ReadLine().find("TIME "), 0u);
  // What it writes next is written to nobody.
  std::string status;
  for (int i = 0; i < 100 && status.empty(); ++i) {
    Run({i % 2 == 0 ? "disable-adapter" : "enable-adapter", "fake1"});
    status = shell.ReadLine(absl::Milliseconds(100));
  }
  EXPECT_EQ(status, "status 0");
}

TEST_F(BrokerctlTest, AWatchGoesOnWithTheNextBrokerAndSaysSo) {
  ChildProcess watch(Command({"watch", "adapters", "-o", "json"}), ChildProcess::Errors::kToItsOutput);
  EXPECT_NE(watch.ReadLine().find("\"begins\":true"), std::string::npos);
  daemon_.Stop();
  const std::string notice = watch.ReadLine();
  EXPECT_NE(notice.find("the broker is stopping"), std::string::npos) << notice;
  EXPECT_NE(notice.find("; the watch begins anew"), std::string::npos) << notice;
  daemon_.Start();
  EXPECT_NE(watch.ReadLine().find("\"begins\":true"), std::string::npos);
}

TEST_F(BrokerctlTest, EndsASession) {
  TestClient client(NewChannel(daemon_.target()));
  ASSERT_EQ(client.Open(), NdkStatus::kSuccess);
  EXPECT_EQ(Run({"end-session", std::to_string(client.session_id())}).status, 0);
  EXPECT_EQ(NdkStatusOf(client.WaitForEnd()), NdkStatus::kRequestAborted);
}

}  // namespace
}  // namespace rdmabroker
